/** The places of a template that somebody fills in: of its heading, its text and its buttons. */
import { t } from '../lib/i18n.js';

/**
 * `name` is the text between the braces, or the kind of value of a heading or a button.
 * @typedef {{part: 'header' | 'body' | 'button', kind: string, name: string, label: string, index: number}} Place
 */

const PLACE = /\{\{\s*([a-z0-9_]+)\s*\}\}/g;
const MEDIA = ['IMAGE', 'VIDEO', 'DOCUMENT', 'LOCATION'];

/** @param {any} template @param {string} type @returns {any} */
const component = (template, type) =>
  (template?.components ?? []).find((/** @type {any} */ c) => String(c.type).toUpperCase() === type);

/** @param {any} template @returns {string} */
export const bodyOf = (template) => String(component(template, 'BODY')?.text ?? '');

/** More places than any text has: a larger number is a word like any other. */
const PLACES_MAX = 100;

/** Returns the names of a text's places, each once, numbers in their order. @param {string} text @returns {string[]} */
function names(text) {
  const found = [...new Set([...text.matchAll(PLACE)].map((m) => m[1] ?? ''))];
  if (!found.every((name) => /^\d+$/.test(name) && Number(name) <= PLACES_MAX)) return found;
  return Array.from({ length: Math.max(0, ...found.map(Number)) }, (_, i) => String(i + 1));
}

/** @param {string} name */
const braces = (name) => `{{${name}}}`;

/** @param {any} header @returns {Place[]} */
function headerPlaces(header) {
  if (MEDIA.includes(header?.format)) {
    const kind = header.format.toLowerCase();
    const label = kind === 'location' ? t('Header: latitude, longitude') : t('Header: file URL or ID');
    return [{ part: 'header', kind, name: kind, label, index: 0 }];
  }
  return names(String(header?.text ?? '')).map((name) => {
    const label = t('Header {place}', { place: braces(name) });
    return { part: 'header', kind: 'text', name, label, index: 0 };
  });
}

/** @param {any} button @param {number} index @returns {Place[]} */
function buttonPlaces(button, index) {
  const type = String(button.type).toUpperCase();
  const takes = (type === 'URL' && names(String(button.url ?? '')).length) || type === 'OTP';
  if (!takes && type !== 'COPY_CODE') return [];
  const label = t('Button {name}', { name: String(button.text ?? index + 1) });
  return [{ part: 'button', kind: takes ? 'url' : 'copy_code', name: '1', label, index }];
}

/** Returns the places of a template, in their order. @param {any} template @returns {Place[]} */
export function places(template) {
  const body = names(bodyOf(template)).map((name) => {
    return /** @type {Place} */ ({ part: 'body', kind: 'text', name, label: braces(name), index: 0 });
  });
  const buttons = component(template, 'BUTTONS')?.buttons ?? [];
  return [...headerPlaces(component(template, 'HEADER')), ...body, ...buttons.flatMap(buttonPlaces)];
}

/** Returns a file by its address, or by the id of an uploaded one. @param {string} value */
const media = (value) => (/^https?:/.test(value) ? { link: value } : { id: value });

/** @param {Place} place @param {string} value */
function parameter({ part, kind, name }, value) {
  if (part === 'button') return kind === 'url' ? { type: 'text', text: value } : { type: 'coupon_code', coupon_code: value };
  if (kind === 'text') return { type: 'text', text: value, ...(/^\d+$/.test(name) ? {} : { parameter_name: name }) };
  const [latitude, longitude] = value.split(',').map((it) => it.trim());
  return { type: kind, [kind]: kind === 'location' ? { latitude, longitude } : media(value) };
}

/** Returns a message's components, from a value for each place. @param {any} template @param {string[]} values */
export function componentsOf(template, values) {
  const all = places(template).map((place, i) => ({ place, one: parameter(place, values[i]?.trim() ?? '') }));
  const texts = ['header', 'body'].map((part) => ({
    type: part,
    parameters: all.filter((it) => it.place.part === part).map((it) => it.one),
  }));
  const buttons = all
    .filter((it) => it.place.part === 'button')
    .map(({ place, one }) => ({ type: 'button', sub_type: place.kind, index: String(place.index), parameters: [one] }));
  return [...texts.filter((it) => it.parameters.length), ...buttons];
}

/** Returns the interface's paths of each place. A broadcast has those of the text apart, one list for each recipient.
 * @param {any} template @param {boolean} [isBroadcast] @returns {string[][]} */
export function pathsOf(template, isBroadcast = false) {
  const all = places(template);
  const has = (/** @type {string} */ part) => (all.some((it) => it.part === part) ? 1 : 0);
  const body = has('header');
  const buttons = body + (isBroadcast ? 0 : has('body'));
  return all.map((place, i) => {
    const at = all.slice(0, i).filter((it) => it.part === place.part).length;
    if (place.part === 'body' && isBroadcast) return [`variables_from[${at}]`, `recipients[].variables[${at}]`];
    if (place.part === 'button') return [`components[${buttons + at}]`];
    return [`components[${place.part === 'header' ? 0 : body}].parameters[${at}]`];
  });
}

/** The maximum number of characters of a text in a place, as for the interface. */
const VALUE_MOST = 1024;

/** Returns the fault of a place's value, in words. @param {Place} place @param {string | undefined} value
 * @returns {string | null} */
export function placeFault({ kind }, value) {
  if (!value?.trim()) return t('This field is required');
  return kind === 'text' && [...value].length > VALUE_MOST ? t('Must have at most {n} characters', { n: VALUE_MOST }) : null;
}

/** Returns a template's text as a phone shows it, with its places filled in as far as possible.
 * @param {any} template @param {string[]} [values] */
export function filled(template, values = []) {
  const all = places(template);
  /** @param {'header' | 'body'} part @param {unknown} text */
  const fill = (part, text) =>
    String(text ?? '').replace(PLACE, (whole, name) => {
      const at = all.findIndex((it) => it.part === part && it.name === name);
      return values[at] || whole;
    });
  const header = fill('header', component(template, 'HEADER')?.text);
  return [header, fill('body', bodyOf(template)), component(template, 'FOOTER')?.text].filter(Boolean).join('\n');
}
