import { html } from '../lib/render.js';

/** Shows JSON with coloured types; every text of it is a text node. @param {unknown} value @param {string} [label] */
export const json = (value, label) =>
  html`<pre class="code" tabindex="0" role="group" aria-label=${label ?? 'JSON'}>${tokens(value, 0)}</pre>`;

/** @param {unknown} value @param {number} depth @returns {unknown} */
function tokens(value, depth) {
  const pad = '  '.repeat(depth);
  const number = value instanceof Number;
  if (value === null || typeof value !== 'object' || number) {
    const kind = value === null ? 'null' : number ? 'number' : typeof value;
    return html`<span class=${`json-${kind}`}>${JSON.stringify(value) ?? 'null'}</span>`;
  }
  const list = Array.isArray(value);
  const entries = Object.entries(value);
  if (entries.length === 0) return list ? '[]' : '{}';
  return [
    list ? '[' : '{',
    entries.map(([key, item], i) => [
      `\n${pad}  `,
      list ? '' : html`<span class="json-key">${JSON.stringify(key)}</span>${': '}`,
      tokens(item, depth + 1),
      i < entries.length - 1 ? ',' : '',
    ]),
    `\n${pad}${list ? ']' : '}'}`,
  ];
}
