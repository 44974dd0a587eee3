import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { field, select } from './form.js';
import { placeFault } from './template.js';

/** @typedef {{from: string, text: string}} Value */
/** @typedef {import('./template.js').Place} Place */

/** What a place may be filled with: in the text with a text or what is known of each contact, elsewhere with a text that is
 * the same for all. @param {Place} place @param {Value} value */
const isText = (place, value) => place.part !== 'body' || value.from === 'text';

/** @param {Place} place @param {Value} value @param {number} missing recipients that lack a value @returns {string | null} */
export function valueFault(place, value, missing) {
  if (isText(place, value)) return placeFault(place, value.text);
  return missing ? t('{n} recipients lack a value for a place.', { n: missing }) : null;
}

/**
 * @param {Place} place @param {Value} value @param {[string, string][]} sources
 * @param {(into: Value, key: 'from' | 'text') => (value: string) => unknown} set @param {string | null} error
 */
export function placeField(place, value, sources, set, error) {
  const { part, label } = place;
  const text = (/** @type {string} */ name) => field({ label: name, value: value.text, input: set(value, 'text'), dir: 'auto', error });
  if (part !== 'body') return text(label);
  const options = /** @type {[string, string][]} */ ([['text', t('Text')], ...sources]);
  const isOwn = isText(place, value);
  return html`<div key=${label} class="place">${select({ label, value: value.from, options, change: set(value, 'from'),
    error: isOwn ? null : error })}
    ${isOwn ? text(t('Text of {place}', { place: label })) : ''}</div>`;
}
