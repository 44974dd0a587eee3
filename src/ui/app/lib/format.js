/** How numbers and times are shown, by the engine's clock. */
import { language, t } from './i18n.js';
import { html } from './render.js';

/** The engine's clock: in the sandbox it is moved, and a page's countdowns go by it. */
let difference = 0;
let offsetSeconds = 0;

/** @returns {number} the engine's time in milliseconds */
export const now = () => Date.now() + difference;

/** @returns {number} seconds that the sandbox's clock is ahead of real time */
export const ahead = () => offsetSeconds;

/** @param {string} at the engine's time @param {number} [offset] seconds ahead of real time */
export function setClock(at, offset) {
  const time = Date.parse(at);
  if (!Number.isNaN(time)) difference = time - Date.now();
  if (offset !== undefined) offsetSeconds = offset;
}

/** @type {Map<string, any>} */
const kept = new Map();

/** Formatters are dear to make. @template T @param {string} key @param {() => T} make @returns {T} */
function keep(key, make) {
  const full = `${language()} ${key}`;
  if (!kept.has(full)) kept.set(full, make());
  return kept.get(full);
}

/** @param {number | null | undefined} n @returns {string} */
export const number = (n) =>
  n === null || n === undefined ? '–' : keep('n', () => new Intl.NumberFormat(language())).format(n);

/** A share of 0 to 1. @param {number | null | undefined} n @returns {string} */
export const percent = (n) =>
  n === null || n === undefined || Number.isNaN(n)
    ? '–'
    : keep('%', () => new Intl.NumberFormat(language(), { style: 'percent', maximumFractionDigits: 1 })).format(n);

/** @param {number | null | undefined} n @returns {string} */
export function bytes(n) {
  if (n === null || n === undefined) return '–';
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'];
  const power = Math.min(4, Math.floor(Math.log10(Math.max(1, n)) / 3));
  const format = keep(
    `b${power}`,
    () =>
      new Intl.NumberFormat(language(), {
        style: 'unit',
        unit: units[power] ?? 'byte',
        unitDisplay: 'short',
        maximumFractionDigits: 1,
      }),
  );
  return format.format(n / 1000 ** power);
}

/** @param {string | null | undefined} at @returns {string} */
export function dateTime(at) {
  if (!at) return '–';
  const format = keep('dt', () => new Intl.DateTimeFormat(language(), { dateStyle: 'medium', timeStyle: 'medium' }));
  return format.format(new Date(at));
}

/** The hour and minute today, the day before, the year where it is another. @param {string} at @returns {string} */
export function short(at) {
  const [date, today] = [new Date(at), new Date(now())];
  /** @type {Intl.DateTimeFormatOptions} */
  const minute = { hour: '2-digit', minute: '2-digit' };
  if (today.toDateString() === date.toDateString())
    return keep('t', () => new Intl.DateTimeFormat(language(), minute)).format(date);
  const other = today.getFullYear() !== date.getFullYear();
  const day = { month: 'short', day: 'numeric', ...(other ? { year: 'numeric' } : {}), ...minute };
  return keep(`d${other}`, () => new Intl.DateTimeFormat(language(), /** @type {any} */ (day))).format(date);
}

/** Relative below an hour, else local. @param {string} at @returns {string} */
export function ago(at) {
  const seconds = Math.round((Date.parse(at) - now()) / 1000);
  if (Math.abs(seconds) >= 3600) return short(at);
  const format = keep('r', () => new Intl.RelativeTimeFormat(language(), { numeric: 'auto', style: 'narrow' }));
  return Math.abs(seconds) < 60
    ? format.format(Math.min(0, seconds) || 0, 'second')
    : format.format(Math.round(seconds / 60), 'minute');
}

/** A time; its title has the date, here and in UTC. @param {string | null | undefined} at @param {(at: string) => string} [how] */
export const time = (at, how = ago) =>
  at
    ? html`<time datetime=${at} title=${`${dateTime(at)} · ${at.replace('T', ' ').replace(/(\.\d+)?Z$/, '')} UTC`}>${how(at)}</time>`
    : '–';

/** "23 h 59 min", "12 min", "40 s". @param {number} seconds @returns {string} */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  const unit = (/** @type {number} */ n, /** @type {string} */ name) => {
    const format = keep(
      `u${name}`,
      () => new Intl.NumberFormat(language(), { style: 'unit', unit: name, unitDisplay: 'short' }),
    );
    // English shortens an hour to "hr"; the field writes "h", and one "sec" is "s".
    return format
      .format(n)
      .replace(/ hrs?$/, ' h')
      .replace(/ mins?$/, ' min')
      .replace(/ secs?$/, ' s');
  };
  const days = Math.floor(s / 86400);
  const hours = Math.floor((s % 86400) / 3600);
  const minutes = Math.floor((s % 3600) / 60);
  if (days) return hours ? `${unit(days, 'day')} ${unit(hours, 'hour')}` : unit(days, 'day');
  if (hours) return minutes ? `${unit(hours, 'hour')} ${unit(minutes, 'minute')}` : unit(hours, 'hour');
  return minutes ? unit(minutes, 'minute') : unit(s, 'second');
}

/** Asia/Dubai's date of today is not UTC's: days of statistics are UTC. @param {number} back @returns {string} */
export const day = (back) => new Date(now() - back * 86_400_000).toISOString().slice(0, 10);

/** A word of the interface, for people: "opted_out" is "Opted out". @param {string | null | undefined} word */
export function words(word) {
  const text = word === 'otp' ? 'code' : String(word ?? '').replaceAll('_', ' ');
  return t(text.charAt(0).toUpperCase() + text.slice(1));
}

/** The digits that all national forms of a phone end with. Two phones with one end may be one person: only the server
 * knows. @param {string} phone */
export const end = (phone) => phone.slice(-6);

/** How a code comes to its person. @param {string} channel @returns {string} */
export const way = (channel) => ({ messaging: t('Chat'), sms: t('SMS'), email: t('E-mail') })[channel] ?? words(channel);

/** Two letters for a person. @param {string} name @returns {string} */
export function initials(name) {
  const parts = name
    .replace(/[^\p{L}\p{N} ]/gu, '')
    .trim()
    .split(/\s+/);
  const first = [...(parts[0] ?? '')][0] ?? '?';
  const last = parts.length > 1 ? ([...(parts[parts.length - 1] ?? '')][0] ?? '') : '';
  return (first + last).toUpperCase();
}
