import { html } from '../lib/render.js';
import { icon } from '../lib/icons.js';
import { debounce, typed } from '../lib/dom.js';
import { query, setQuery } from '../lib/router.js';

/** @type {Record<string, (...args: any[]) => unknown>} */
const waiting = {};
/** The typed text that is not searched yet, which a render in between keeps. @type {Record<string, string>} */
const typing = {};

/**
 * A search field that waits for a pause in typing. `change` returns false for a text that is not complete yet.
 * @param {string} label @param {string} value @param {(value: string) => unknown} change @param {string} [placeholder]
 */
export function search(label, value, change, placeholder) {
  const key = `${location.pathname} ${label}`;
  const later = (waiting[key] ??= debounce(
    (/** @type {(v: string) => unknown} */ fn, /** @type {string} */ v) => {
      // The person may have left the page.
      if (!key.startsWith(`${location.pathname} `) || fn(v) !== false) delete typing[key];
    },
    180,
  ));
  return html`<label class="search">${icon('search')}<input type="search" aria-label=${label} placeholder=${placeholder ?? label} .value=${typing[key] ?? value}
    oninput=${typed((v) => later(change, (typing[key] = v)))} autocomplete="off" spellcheck="false"></label>`;
}

/** @param {string} label @param {string} value @param {[string, string][]} options @param {(value: string) => unknown} change */
export const choice = (label, value, options, change) => html`<label class="choice"><span>${label}</span>
  <select aria-label=${label} .value=${value} onchange=${typed(change)}>${options.map(([v, text]) => html`<option key=${v}
    value=${v}>${text}</option>`)}</select></label>`;

/**
 * @template {string} K
 * @typedef {{values: Record<K, string>, set: (name: K, value: string) => unknown,
 *   setAll: (values: Record<string, string>) => unknown, used: boolean, clear: () => unknown}} Filters
 */

/**
 * Returns the filters that the address contains.
 * @template {string} K
 * @param {K[]} names @param {() => unknown} reload @returns {Filters<K>}
 */
export function filters(names, reload) {
  return {
    /** @returns {Record<K, string>} */
    get values() {
      return /** @type {Record<K, string>} */ (Object.fromEntries(names.map((name) => [name, query(name)])));
    },
    /** @param {K} name @param {string} value */
    set(name, value) {
      return this.setAll({ [name]: value });
    },
    /** @param {Record<string, string>} values */
    setAll(values) {
      setQuery(values);
      return reload();
    },
    get used() {
      return names.some((name) => query(name));
    },
    clear() {
      return this.setAll(Object.fromEntries(names.map((name) => [name, ''])));
    },
  };
}
