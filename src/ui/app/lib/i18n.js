/**
 * Words. A text of the page is its own key: `t('Send code')` reads like the page, and a word
 * that a language lacks is English instead of nothing. A text with a number has its plural forms in
 * the language's file, English too.
 */

/** @typedef {string | Record<string, string>} Word */
/** @type {Record<string, Word>} */
let words = {};
let rules = new Intl.PluralRules('en');

export const LANGUAGES = { en: 'English', es: 'Español', 'pt-BR': 'Português (Brasil)', de: 'Deutsch', ar: 'العربية' };

let current = 'en';

/** @returns {string} the language in use, for `Intl` */
export const language = () => current;

/** @param {string} text @param {Record<string, unknown>} [values] @returns {string} */
export function t(text, values) {
  const word = words[text] ?? text;
  const form =
    typeof word === 'string' ? word : (word[rules.select(Number(values?.['n'] ?? 0))] ?? word['other'] ?? text);
  if (!values) return form;
  return form.replace(/\{(\w+)\}/g, (all, name) => {
    const value = values[name];
    if (value === undefined) return all;
    return typeof value === 'number' ? new Intl.NumberFormat(current).format(value) : String(value);
  });
}

/** Returns a text in pieces, for values that are more than text: the language decides the order of the pieces.
 * @param {string} text @param {Record<string, unknown>} values @returns {unknown[]} */
export const tv = (text, values) =>
  String(words[text] ?? text).split(/\{(\w+)\}/).map((piece, i) => (i % 2 ? values[piece] : piece));

/** "Ada, Bo, and Cy". @param {string[]} items @returns {string} */
export const list = (items) => new Intl.ListFormat(current).format(items);

/** Returns the chosen language, or the browser's first one with words. */
export function preferred() {
  const chosen = localStorage.getItem('language');
  const known = Object.keys(LANGUAGES);
  if (chosen && known.includes(chosen)) return chosen;
  for (const wish of navigator.languages) {
    const match = known.find((k) => k === wish) ?? known.find((k) => k.split('-')[0] === wish.split('-')[0]);
    if (match) return match;
  }
  return 'en';
}

/** @param {string} wish */
export async function useLanguage(wish) {
  const answer = await fetch(new URL(`../words/${wish}.json`, import.meta.url));
  words = answer.ok ? await answer.json() : {};
  current = answer.ok ? wish : 'en';
  rules = new Intl.PluralRules(current);
  document.documentElement.lang = current;
  document.documentElement.dir = current === 'ar' ? 'rtl' : 'ltr';
}
