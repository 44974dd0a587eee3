/** The period of a list or a chart, in the address: the last days, or two dates. */
import { day, now } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { choice } from './filter.js';
import { field } from './form.js';

/** The choices of days, each the number of days until now. */
const DAYS = ['1', '7', '30', '90'];
const OWN = 'own';
const DATE = /^\d{4}-\d\d-\d\d$/;

/** @param {string} days @returns {string} */
const nameOf = (days) => (days === '1' ? t('Today') : t('Last {n} days', { n: Number(days) }));

/** Returns midnight here, so many days before today. @param {number} back */
function midnight(back) {
  const at = new Date(now());
  return new Date(at.getFullYear(), at.getMonth(), at.getDate() - back);
}

/** Returns a date of this place. @param {number} back days before today */
function dateHere(back) {
  const at = midnight(back);
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** Returns midnight here of a date, some days later. @param {string} date @param {number} later */
function midnightOf(date, later) {
  const [year = 0, month = 1, of = 1] = date.split('-').map(Number);
  return new Date(year, month - 1, of + later).toISOString();
}

/**
 * @param {() => unknown} reload is called after a change
 * @param {{usual?: string}} [how] the days if none are chosen, whose dates are shown; without them all times
 */
export function period(reload, { usual = '' } = {}) {
  // Of messages, "to" is the recipient.
  const NAMES = usual ? { from: 'from', to: 'to' } : { from: 'since', to: 'until' };
  const given = (/** @type {'from' | 'to'} */ name) => (DATE.test(query(NAMES[name])) ? query(NAMES[name]) : '');
  /** @param {{from?: string, to?: string}} range @param {string} [days] */
  const put = ({ from = '', to = '' }, days = '') => setQuery({ days, [NAMES.from]: from, [NAMES.to]: to });
  const chosen = () => (given('from') || given('to') ? OWN : DAYS.find((it) => it === query('days')) ?? usual);
  /** Returns the dates: of UTC, as charts have them, or of this place, as lists have them. */
  const dates = () => {
    const [days, date] = [Number(chosen()) || Number(usual) || 30, usual ? day : dateHere];
    return { from: given('from') || date(days - 1), to: given('to') || date(0) };
  };
  /** @type {{from?: string, to?: string}} what is typed, until it is a range of days */
  let typing = {};
  /** Returns whether the years are complete: one that is being typed starts with zeros. */
  const isWhole = () => Object.values(typing).every((v) => v >= '1');
  /** Returns the fault of the typed range, in words. */
  const fault = () => {
    if (Object.values(typing).includes('')) return t('Choose a date');
    const { from, to } = { ...dates(), ...typing };
    return isWhole() && from > to ? t('The end date is before the start date') : null;
  };
  /** @param {'from' | 'to'} name */
  const range = (name) => (/** @type {string} */ v) => {
    typing[name] = v;
    if (fault() || !isWhole()) return undefined;
    put({ ...dates(), ...typing });
    typing = {};
    return reload();
  };
  /** @param {string} value */
  const choose = (value) => {
    typing = {};
    if (value === OWN) put(dates());
    else put({}, value === usual ? '' : value);
    return reload();
  };
  /** @param {'from' | 'to'} name @param {string} label */
  const dateField = (name, label) =>
    field({ label, type: 'date', value: typing[name] ?? dates()[name], dir: 'ltr', input: range(name),
      error: typing[name] === undefined ? null : fault() });
  return {
    dates,
    get used() {
      return Boolean(given('from') || given('to') || (query('days') && query('days') !== usual));
    },
    clear: () => put({}),
    /** Returns the moments as a list's query, by the days of this place. @returns {{since?: string, until?: string}} */
    moments() {
      if (chosen() === OWN) {
        const { from, to } = dates();
        return { since: midnightOf(from, 0), until: midnightOf(to, 1) };
      }
      const days = Number(chosen());
      return days ? { since: midnight(days - 1).toISOString() } : {};
    },
    view: () => html`<div class="row range">${choice(t('Period'), chosen(), [
      ...(usual ? [] : [/** @type {[string, string]} */ (['', t('All')])]),
      ...DAYS.map((it) => /** @type {[string, string]} */ ([it, nameOf(it)])),
      [OWN, t('Choose dates')],
    ], choose)}${usual || chosen() === OWN ? html`${dateField('from', t('From'))}${dateField('to', t('To (time)'))}` : ''}</div>`,
  };
}
