/** The rules of countries for phones, their names, and the last choice. */
import { language } from '../lib/i18n.js';

/** Empty until it is loaded: then only numbers with a calling code are read. @type {import('./phones.js').Countries} */
export const countries = {};
/** @type {Promise<unknown> | null} */
let asked = null;

/** Fetches the rules once. */
export function loadCountries() {
  asked ??= fetch(new URL('./countries.json', import.meta.url)).then(async (answer) => {
    if (answer.ok) Object.assign(countries, await answer.json());
    else asked = null;
  });
  return asked.catch(() => {
    asked = null;
  });
}

/** @returns {string} by ISO 3166, or empty */
export const chosenCountry = () => localStorage.getItem('phone-country') ?? '';
/** @param {string} country */
export const chooseCountry = (country) => localStorage.setItem('phone-country', country);

/** @param {string} none what is said of no country @returns {[string, string][]} countries with their calling codes, in order of their names */
export function countryOptions(none) {
  const names = new Intl.DisplayNames(language(), { type: 'region' });
  const all = Object.entries(countries).map(
    ([country, rule]) => /** @type {[string, string]} */ ([country, `${names.of(country) ?? country} (\u2066+${rule.split(' ')[0]}\u2069)`]),
  );
  return [['', none], ...all.sort((a, b) => a[1].localeCompare(b[1], language()))];
}
