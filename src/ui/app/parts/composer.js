/**
 * The field of an agent's reply. While the reply window is open it takes a text; when it closes, the field turns
 * into the choice of a template by itself, and the typed text stays until it opens again.
 */
import { get, intent, part, persist, post } from '../lib/api.js';
import { on, submit, typed } from '../lib/dom.js';
import { bytes, now } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { icon } from '../lib/icons.js';
import { html, refresh } from '../lib/render.js';
import { secondsTo } from './countdown.js';
import { errorFor, field, focusWrong, formError, select } from './form.js';
import { uploaded } from './phone-file.js';
import { quickReplies } from './quick-replies.js';
import { componentsOf, filled, pathsOf, placeFault, places } from './template.js';

/** Returns the key of a template, whose languages share its name. @param {any} x */
const keyOf = (x) => (x ? `${x.name} ${x.language}` : '');

/**
 * @param {{conversation: () => any, sent: (m: any) => void, settled: () => void, failed: (id: string) => void, typing: () => void}} host
 */
export function composer(host) {
  const state = {
    id: '',
    text: '',
    key: '',
    busy: false,
    error: /** @type {any} */ (null),
    template: '',
    values: /** @type {string[]} */ ([]),
    templates: /** @type {any[] | null} */ (null),
    /** Set if the faults of the template's places are shown. */
    asked: false,
    typingSentAt: 0,
  };
  const attached = attachment(() => {
    state.key = '';
  });
  const place = () => `draft:${state.id}`;
  const keep = () => (state.text ? localStorage.setItem(place(), state.text) : localStorage.removeItem(place()));

  /** @param {string} id */
  const open = (id) => {
    if (state.id) keep();
    attached.clear();
    Object.assign(state, {
      id,
      text: id ? (localStorage.getItem(`draft:${id}`) ?? '') : '',
      key: '',
      error: null,
      busy: false,
      asked: false,
    });
  };
  const windowOpen = () => {
    const c = host.conversation();
    if (!c?.reply_window || c.channel === 'email') return true;
    return c.reply_window.closes_at ? secondsTo(c.reply_window.closes_at) > 0 : c.reply_window.open;
  };
  const loadTemplates = async () => {
    state.templates = [];
    const answer = await get('/v1/messaging/templates', { limit: 100 }).catch((error) => {
      state.error = error;
      return { data: [] };
    });
    state.templates = answer.data.filter(
      (/** @type {any} */ x) => x.status === 'approved' && x.category !== 'authentication',
    );
    state.template ||= keyOf(state.templates?.[0]);
    refresh();
  };

  /** One intent has one key: a double click or a retry sends once. @param {any} body @param {string} shown
   * @param {string} [left] what stays written */
  const send = async (body, shown, left = '') => {
    if (state.busy) return;
    state.busy = true;
    state.error = null;
    state.key ||= intent();
    const id = state.id;
    const key = state.key;
    const mine = {
      id: key,
      direction: 'out',
      type: body.type,
      text: shown,
      status: 'queued',
      at: new Date(now()).toISOString(),
      error: null,
    };
    host.sent(mine);
    refresh();
    try {
      const answer = await persist(() => post(`/v1/conversations/${part(id)}/messages`, body, key));
      mine.id = answer.message_id;
      mine.status = answer.status;
      if (state.id === id) {
        Object.assign(state, { text: left, key: '', values: [] });
        attached.clear();
        keep();
      } else localStorage.removeItem(`draft:${id}`);
      host.settled();
    } catch (error) {
      host.failed(mine.id);
      state.error = error;
      // The refusal is final, so nothing was sent: the next try is another intent.
      const { status } = /** @type {any} */ (error);
      if (status >= 400 && status < 500) state.key = '';
    }
    state.busy = false;
    refresh();
    requestAnimationFrame(() =>
      /** @type {HTMLElement | null} */ (document.querySelector('[data-key=reply]'))?.focus(),
    );
  };
  const reply = () => {
    const text = state.text.trim();
    if (attached.file) return sendFile(attached.file, text);
    return text ? send({ type: 'text', text }, text) : undefined;
  };
  /** @param {File} file @param {string} text */
  const sendFile = async (file, text) => {
    if (state.busy) return;
    Object.assign(state, { busy: true, error: null });
    const { id } = state;
    const message = await attached.message(text).catch((error) => {
      if (state.id === id) state.error = error;
    });
    state.busy = false;
    if (message && state.id === id) await send(message.body, message.words ? text : file.name, message.words ? '' : state.text);
    refresh();
  };
  const chosen = () => (state.templates ?? []).find((x) => keyOf(x) === state.template);
  const sendTemplate = () => {
    const template = chosen();
    if (!template) return undefined;
    state.asked = places(template).some((place, i) => placeFault(place, state.values[i]));
    if (state.asked) return focusWrong(document.querySelector('form.composer'));
    const components = componentsOf(template, state.values);
    return send(
      {
        type: 'template',
        template: {
          name: template.name,
          language: template.language,
          ...(components.length ? { components } : {}),
        },
      },
      filled(template, state.values),
    );
  };
  /** @param {KeyboardEvent} e */
  const keys = (e) => {
    if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    return reply();
  };
  /** @param {string} text */
  const type = (text) => {
    if (text !== state.text && !state.busy) state.key = '';
    state.text = text;
    keep();
    if (Date.now() - state.typingSentAt > 4000 && text) {
      state.typingSentAt = Date.now();
      host.typing();
    }
  };

  const quick = quickReplies();
  const insert = (/** @type {string} */ text) => {
    type(state.text.trim() ? `${state.text.trimEnd()} ${text}` : text);
    /** @type {HTMLElement | null} */ (document.querySelector('[data-key=reply]'))?.focus();
  };
  const files = () => host.conversation()?.channel === 'messaging';
  const free = () => html`<form class="composer" onsubmit=${submit(reply)}>
    ${formError(state.error)}
    <textarea aria-label=${t('Reply')} data-key="reply" rows="2" dir="auto" placeholder=${t('Write a reply')} .value=${state.text}
      oninput=${typed(type)} onkeydown=${on(keys)}></textarea>
    ${files() ? attached.view() : ''}
    <div class="row between">${quick.view(insert)}${files() ? attached.button() : ''}<span class="hint grow">${t('Press Enter to send, Shift+Enter for a new line.')}</span><button class="primary"
      ?disabled=${state.busy || !(state.text.trim() || attached.file)}>${t('Send reply')}</button></div></form>`;
  const closed = () => {
    if (state.templates === null) loadTemplates();
    const template = chosen();
    const paths = pathsOf(template).map((all) => all.map((path) => `template.${path}`));
    return html`<form class="composer" onsubmit=${submit(sendTemplate)}>
      ${formError(state.error, paths.flat())}
      <p class="hint">${t('More than 24 hours have passed since the customer last wrote, so you can only send a template. Your draft is kept.')}</p>
      <div class="columns tight">${select({
        label: t('Template'),
        value: state.template,
        options: (state.templates ?? []).map((x) => [keyOf(x), `${x.name} (${x.language})`]),
        change: (v) => {
          state.template = v;
          state.values = [];
          state.key = '';
          state.asked = false;
        },
      })}
        ${places(template).map((place, i) =>
          field({
            label: place.label,
            value: state.values[i] ?? '',
            dir: 'auto',
            error: (state.asked ? placeFault(place, state.values[i]) : null) ?? errorFor(state.error, ...(paths[i] ?? [])),
            input: (v) => {
              state.values[i] = v;
              state.key = '';
            },
          }),
        )}</div>
      ${template ? html`<p class="template-text" dir="auto">${filled(template, state.values)}</p>` : ''}
      <div class="row end"><button class="primary" ?disabled=${state.busy || !template}>${t('Send template')}</button></div></form>`;
  };
  return { open, keep, view: () => (windowOpen() ? free() : closed()) };
}

/** The types of message whose file has a caption. */
const CAPTIONED = ['image', 'video', 'document'];

/** @param {() => unknown} changed another file is another intent */
function attachment(changed) {
  /** @type {File | null} */
  let file = null;
  /** The uploaded file: a second try to send does not upload it again.
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
    /** Returns the message with the file, and whether it has the text as caption; `null` if another file was
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
