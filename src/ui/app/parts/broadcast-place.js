import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { field, select } from './form.js';

/** @typedef {{from: string, text: string}} Value */

/**
 * How a place of a broadcast's template is filled: in the text with a text or what is known of each contact, elsewhere
 * with a text that is the same for all.
 * @param {import('./template.js').Place} place @param {Value} value @param {[string, string][]} sources
 * @param {(into: Value, key: 'from' | 'text') => (value: string) => unknown} set
 */
export function placeField({ part, label }, value, sources, set) {
  const text = (/** @type {string} */ name) => field({ label: name, value: value.text, input: set(value, 'text'), dir: 'auto' });
  if (part !== 'body') return text(label);
  const options = /** @type {[string, string][]} */ ([['text', t('Text')], ...sources]);
  return html`<div key=${label} class="place">${select({ label, value: value.from, options, change: set(value, 'from') })}
    ${value.from === 'text' ? text(t('Text of {place}', { place: label })) : ''}</div>`;
}
