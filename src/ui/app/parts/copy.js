import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';

/** @type {{text: string, at: number}} */
let copied = { text: '', at: 0 };

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure context there is no clipboard to write to; a selection can still be copied.
    const area = Object.assign(document.createElement('textarea'), { value: text });
    (document.querySelector('dialog[open]') ?? document.body).append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  copied = { text, at: Date.now() };
  setTimeout(refresh, 1600);
}

/** @param {string} text what is copied @param {string} [name] of the button @param {boolean} [small] only an icon */
export function copyButton(text, name = t('Copy'), small = false) {
  const done = copied.text === text && Date.now() - copied.at < 1500;
  return html`<button type="button" class=${small ? 'quiet icon-only' : 'quiet'} aria-label=${small ? name : null} title=${small ? name : null}
    onclick=${() => copy(text)}>${icon(done ? 'check' : 'copy')}${small ? '' : done ? t('Copied') : name}</button>`;
}

/** An id, and a way to take it along. @param {string | null | undefined} id */
export const idText = (id) =>
  id ? html`<span class="id"><code>${id}</code>${copyButton(id, t('Copy id'), true)}</span>` : '–';
