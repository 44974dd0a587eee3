/** The meanings of a file's columns, as for `postrider contacts import`. */
import { t } from '../lib/i18n.js';

/** @import { Meaning } from './rows.js' */
/** The columns of a download of refused rows, which come before the file's own. */
export const REFUSED = ['row', 'column', 'value', 'reason'];
const KNOWN = ['name', 'phone', 'email', 'tags', 'custom_fields'];
const SET_BY_SERVER = ['id', 'created_at', 'updated_at', 'user_id', 'username'];
/** The names that other programs use. @type {Record<string, string>} */
const ALIASES = {
  'e-mail': 'email',
  mail: 'email',
  'full name': 'name',
  'phone number': 'phone',
  mobile: 'phone',
  telephone: 'phone',
  tag: 'tags',
  telefon: 'phone',
  telefono: 'phone',
  nombre: 'name',
  nome: 'name',
};

/** @param {string[]} head @returns {Meaning[]} */
export function guess(head) {
  const names = head.map((h) => h.trim().toLowerCase());
  const again = REFUSED.every((name, i) => names[i] === name);
  const used = new Set();
  return names.map((name, i) => {
    if (again && i < REFUSED.length) return '';
    const plain = ALIASES[name] ?? name.replaceAll(' ', '_');
    if (SET_BY_SERVER.includes(plain)) return '';
    if (KNOWN.includes(plain) && !used.has(plain)) {
      used.add(plain);
      return /** @type {Meaning} */ (plain);
    }
    return name ? /** @type {Meaning} */ (`custom.${(head[i] ?? '').trim().replace(/^custom\./i, '')}`) : '';
  });
}

/** @param {string} column @returns {[string, string][]} what a column may mean */
export function choices(column) {
  const own = column.trim().replace(/^custom\./i, '');
  return [
    ['', t('Skip')],
    ['name', t('Name')],
    ['phone', t('Phone')],
    ['email', t('E-mail')],
    ['tags', t('Tags')],
    ['custom_fields', t('Custom fields as JSON')],
    ...(own ? [/** @type {[string, string]} */ ([`custom.${own}`, t('Custom field {name}', { name: own })])] : []),
  ];
}

/** @param {string | undefined} reason why a row is refused, in words @returns {string} */
export const inWords = (reason) =>
  ({
    json: t('is not valid JSON'),
    cells: t('has more cells than the file has columns'),
    missing: t('is missing'),
    name: t('must have at most 200 characters and no control characters'),
    phone: t('is not a valid phone number (example: +15550123456)'),
    country: t('has no + or calling code: choose a country for local numbers'),
    unclear: t('is ambiguous: enter it with + and the calling code'),
    rounded: t('was rounded by a spreadsheet: format the column as text and enter it again'),
    length: t('is not a valid number for the chosen country'),
    email: t('is not a valid e-mail address'),
    tags: t('must have at most 50 tags of up to 64 characters each'),
    fields: t('must be at most 16 KiB'),
    twice: t('also appears in an earlier row'),
  })[reason ?? ''] ?? reason ?? '';
