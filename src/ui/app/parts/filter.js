import { html } from '../lib/render.js';
import { icon } from '../lib/icons.js';
import { debounce, typed } from '../lib/dom.js';
import { query, setQuery } from '../lib/router.js';

/** @type {Record<string, (...args: any[]) => unknown>} */
const waiting = {};
/** The typed text that is not searched yet, which a render in between keeps. @type {Record<string, string>} */
const typing = {};

/**
 * A search field that waits for a pause in typing.
 * @param {string} label @param {string} value @param {(value: string) => unknown} change @param {string} [placeholder]
 */
export function search(label, value, change, placeholder) {
  const later = (waiting[label] ??= debounce(
    (/** @type {(v: string) => unknown} */ fn, /** @type {string} */ v) => {
      delete typing[label];
      return fn(v);
    },
    180,
  ));
  return html`<label class="search">${icon('search')}<input type="search" aria-label=${label} placeholder=${placeholder ?? label} .value=${typing[label] ?? value}
    oninput=${typed((v) => later(change, (typing[label] = v)))} autocomplete="off" spellcheck="false"></label>`;
}

/** @param {string} label @param {string} value @param {[string, string][]} options @param {(value: string) => unknown} change */
export const choice = (label, value, options, change) => html`<label class="choice"><span>${label}</span>
  <select aria-label=${label} .value=${value} onchange=${typed(change)}>${options.map(([v, text]) => html`<option key=${v}
    value=${v}>${text}</option>`)}</select></label>`;

/**
 * Returns the filters that the address contains.
 * @template {string} K
 * @param {K[]} names @param {() => unknown} reload
 * @returns {{values: Record<K, string>, set: (name: K, value: string) => unknown, used: boolean, clear: () => unknown}}
 */
export function filters(names, reload) {
  return {
    /** @returns {Record<K, string>} */
    get values() {
      return /** @type {Record<K, string>} */ (Object.fromEntries(names.map((name) => [name, query(name)])));
    },
    /** @param {K} name @param {string} value */
    set(name, value) {
      setQuery({ [name]: value });
      return reload();
    },
    get used() {
      return names.some((name) => query(name));
    },
    clear() {
      setQuery(Object.fromEntries(names.map((name) => [name, ''])));
      return reload();
    },
  };
}
