/** What the columns of a file mean: as for `postrider contacts import`. */
import { t } from '../lib/i18n.js';

/** @import { Meaning } from './rows.js' */
/** The columns of a download of refused rows, which come before the file's own. */
export const REFUSED = ['row', 'column', 'value', 'reason'];
const KNOWN = ['name', 'phone', 'email', 'tags', 'custom_fields'];
const SET_BY_SERVER = ['id', 'created_at', 'updated_at', 'user_id', 'username'];
/** Names that other programs give. @type {Record<string, string>} */
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
    ['', t('Leave out')],
    ['name', t('Name')],
    ['phone', t('Phone')],
    ['email', t('E-mail')],
    ['tags', t('Tags')],
    ['custom_fields', t('Custom fields as JSON')],
    ...(own ? [/** @type {[string, string]} */ ([`custom.${own}`, t('Custom field {name}', { name: own })])] : []),
  ];
}

/** @param {string | undefined} reason of a row that makes no contact, in words */
export const inWords = (reason) =>
  reason === 'json' ? t('is not JSON') : reason === 'cells' ? t('has more cells than the file has columns') : (reason ?? '');

/** What is surely wrong, before anything is sent. @param {any} contact @returns {{column: string, reason: string} | null} */
export function fault(contact) {
  if (!contact.name) return { column: 'name', reason: t('is missing') };
  if (contact.phone && !/^\+[1-9]\d{6,14}$/.test(contact.phone))
    return { column: 'phone', reason: t('must be + and 7 to 15 digits, the first not 0') };
  if (contact.email && !/^[^\s@]+@[^\s@]+$/.test(contact.email))
    return { column: 'email', reason: t('is no e-mail address') };
  return null;
}
