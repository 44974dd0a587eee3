/** One side of a call: its headers, and its body, which is shown as JSON where it is some. */
import { parse } from '../lib/api.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { json } from './json.js';

/** @param {string} text @returns {{value: unknown} | null} */
function parsed(text) {
  try {
    return { value: parse(text) };
  } catch {
    return null;
  }
}

/** @param {{headers?: Record<string, unknown>, body?: string | null}} side @param {string} label */
export function exchange({ headers = {}, body }, label) {
  const known = parsed(body ?? '');
  return html`${
    Object.keys(headers).length
      ? html`<details><summary>${t('Headers')}</summary><dl class="facts one">${Object.entries(headers).map(
          ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd><code class="wrap">${String(value)}</code></dd></div>`,
        )}</dl></details>`
      : ''
  }${
    !body
      ? html`<p class="muted">${t('No body')}</p>`
      : known
        ? json(known.value, label)
        : html`<pre class="code" tabindex="0" role="group" aria-label=${label}>${body}</pre>`
  }`;
}
