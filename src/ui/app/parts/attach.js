/** A file that is sent with a reply: chosen, kept by the server, and named in the message. */
import { on } from '../lib/dom.js';
import { bytes } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { uploaded } from './phone-file.js';

/** The kinds of message whose file has words below it. */
const CAPTIONED = ['image', 'video', 'document'];

/** @param {() => unknown} changed another file is another intent */
export function attachment(changed) {
  /** @type {File | null} */
  let file = null;
  /** What the server keeps of a file: a second try to send does not bring it again.
   * @type {{file: File, message: any} | null} */
  let kept = null;
  /** @type {HTMLInputElement | null} */
  let input = null;
  const choose = (/** @type {File | null} */ next) => {
    [file, kept] = [next, null];
    changed();
    refresh();
  };
  return {
    get file() {
      return file;
    },
    clear: () => file && choose(null),
    /** The message that brings it, and whether the words go with it; `null` when another file was
     * chosen meanwhile. @param {string} text */
    async message(text) {
      const mine = /** @type {File} */ (file);
      const message = kept?.file === mine ? kept.message : await uploaded(mine);
      if (file !== mine) return null;
      kept = { file: mine, message };
      const { type, content } = message;
      const words = Boolean(text) && CAPTIONED.includes(type);
      const named = type === 'document' ? { filename: content.filename } : {};
      return { words, body: { type, [type]: { media_id: content.media_id, ...named, ...(words ? { caption: text } : {}) } } };
    },
    button: () => html`<button type="button" class="quiet icon-only" aria-label=${t('Attach file')} title=${t('Attach file')}
      onclick=${() => input?.click()}>${icon('upload')}</button><input type="file" hidden ref=${(/** @type {any} */ node) => {
        input = node;
      }} onchange=${on((e) => {
        const [next] = e.target.files;
        e.target.value = '';
        return next && choose(next);
      })}>`,
    view: () =>
      file
        ? html`<p class="row between attached"><span dir="auto">${file.name} <span class="muted">${bytes(file.size)}</span></span>
          <button type="button" class="quiet" onclick=${() => choose(null)}>${t('Remove')}</button></p>`
        : '',
  };
}
