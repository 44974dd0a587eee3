/**
 * Pure: converts phones of people and spreadsheets to E.164, or says why not. `src/cli/contacts/phones.rs`
 * does the same, and `tests/fixtures/phones.json` holds both to it.
 *
 * `countries.json` has for each country of ISO 3166 its calling code, the prefix before a national number that is no
 * part of it (`-`: nothing, so that a 0 stays, as in Italy; `|` between several), the number of digits of a national
 * number, then, where it is not 00, the prefix of a calling code (`*`: more than one), and the first digits of a
 * number without either prefix, where its length does not show whether it has a calling code. They are those of
 * libphonenumber 9.0.33 for fixed lines and mobiles, without the lengths that only machines and switchboards have.
 *
 * @typedef {Record<string, string>} Countries by ISO 3166, two letters
 * @typedef {{phone: string, reason?: undefined} | {phone?: undefined, reason: 'phone' | 'country' | 'unclear' | 'rounded' | 'length'}} Reading
 */

const E164 = /^\+[1-9]\d{6,14}$/;
/** The invisible characters of a copied number. */
const UNSEEN = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;
const BETWEEN = /[\s().\u00b7/\u2010-\u2015\u2212-]/g;
/** Arabic, Persian and wide digits, and the wide plus. */
const DIGITS = /[\u0660-\u0669\u06f0-\u06f9\uff10-\uff19]/g;
const POWER = /^(\+?)(\d)(?:[.,](\d+))?e\+?(\d{1,2})$/i;

/** @param {string} text as a text of digits @returns {{text: string, rounded: boolean}} */
function plain(text) {
  const seen = text
    .replace(UNSEEN, '')
    .replace(DIGITS, (c) => String(c.charCodeAt(0) & 15))
    .replaceAll('\uff0b', '+')
    .trim()
    // A spreadsheet does not interpret the text after a quote.
    .replace(/^['\u2019]+\s*/, '')
    .replace(/^tel:\s*/i, '');
  const [power, plus = '', first = '', decimals = '', zeros = '0'] = POWER.exec(seen) ?? [];
  // With fewer digits than the power needs, the spreadsheet has dropped the rest.
  if (power) return { text: plus + first + decimals, rounded: decimals.length !== Number(zeros) };
  return { text: seen.replace(/^(\+?\d{7,15})[.,]0+$/, '$1'), rounded: false };
}

/** @param {string | undefined} row of `countries.json` */
function ruleOf(row) {
  const [code = '', trunks = '-', lengths = '', out = '00', first = ''] = row?.split(' ') ?? [];
  const [least = 0, most = 0] = lengths.split('-').map(Number);
  return { code, trunks: trunks === '-' ? [] : trunks.split('|'), least, most, out, first };
}

/** Returns the digits after the prefix for calls abroad, if there is one. @param {string} digits @param {string} out */
function abroad(digits, out) {
  const way = out !== '*' && digits.startsWith(out) && digits[out.length] !== '0' ? out : '00';
  // No number of calling code 1 continues with 0 or 1: it is another country's prefix for calls abroad.
  return digits.startsWith(way) && !/^1[01]/.test(digits.slice(way.length)) ? digits.slice(way.length) : '';
}

/** @param {string} digits @param {ReturnType<typeof ruleOf>} rule @returns {Reading} */
function national(digits, rule) {
  const { code, trunks, least, most, first } = rule;
  const fits = (/** @type {string} */ rest) =>
    rest.length >= least && rest.length <= most && (!trunks.length || rest[0] !== '0');
  const trunk = trunks.find((it) => digits.startsWith(it) && fits(digits.slice(it.length)));
  if (trunk) return { phone: `+${code}${digits.slice(trunk.length)}` };
  // A spreadsheet may have removed a 0 or a +.
  const bare = (/** @type {string} */ rest) => fits(rest) && (!first || first.includes(rest[0] ?? ''));
  const [own, whole] = [bare(digits), digits.startsWith(code) && bare(digits.slice(code.length))];
  if (own && whole) return { reason: 'unclear' };
  return own || whole ? { phone: `+${own ? code : ''}${digits}` } : { reason: 'length' };
}

/** @param {string} written @param {string} country of a national number, or empty @param {Countries} countries @returns {Reading} */
export function readPhone(written, country, countries) {
  const { text, rounded } = plain(written);
  if (E164.test(text) && !rounded) return { phone: text };
  if (rounded) return { reason: 'rounded' };
  const zero = /\(\s*0\s*\)/;
  const digits = text.replace(BETWEEN, '');
  if (!/^[+(\d]/.test(text) || !/^\+?\d+$/.test(digits)) return { reason: 'phone' };
  const rule = ruleOf(countries[country]);
  if (rule.out === '*' && digits.startsWith('00')) return { reason: 'unclear' };
  const plus = digits.startsWith('+');
  const rest = plus ? digits.slice(1) : abroad(digits, rule.out);
  if (!rest) return digits.startsWith('00') ? { reason: 'phone' } : rule.code ? checked(national(digits, rule)) : { reason: 'country' };
  if (!zero.test(text)) return checked({ phone: `+${rest}` });
  // `+49 (0)30`: the 0 is for calls within the country.
  const [before = ''] = text.split(zero);
  const code = before.replace(BETWEEN, '').replace(/^\+/, '').slice(plus ? 0 : digits.length - rest.length);
  const drops = Object.values(countries).map(ruleOf).some((it) => it.code === code && it.trunks.includes('0'));
  return checked({ phone: `+${drops ? code + rest.slice(code.length + 1) : rest}` });
}

/** @param {Reading} found @returns {Reading} */
const checked = (found) => (found.phone !== undefined && !E164.test(found.phone) ? { reason: 'phone' } : found);
