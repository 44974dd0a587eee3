/**
 * Rows become contacts for the server, and its answer gives the refused rows. The module
 * runs in the worker, so that a hundred thousand rows do not hold up the page.
 *
 * @typedef {'' | 'name' | 'phone' | 'email' | 'tags' | 'custom_fields' | `custom.${string}`} Meaning
 * @typedef {{line: number, cells: string[]}} Row
 * @typedef {{row: number, written: string, sent: string}} Rewritten a phone
 * @typedef {{row: number, column: string, value: string, reason: string, cells: string[]}} Refused
 * @typedef {{meanings: Meaning[], country: string, countries: import('./phones.js').Countries}} Sense what cells mean, and the
 *   country of phones without a calling code
 * @typedef {Sense & {head: string[], conflict: string}} How
 */
import { parse } from '../lib/api.js';
import { readPhone } from './phones.js';

/** Removes the quote that an export has before the start of a formula. @param {string} cell */
const unquote = (cell) => (/^'+[=+\-@\t\r]/.test(cell) ? cell.slice(1) : cell);

/** Returns the contact of the readable cells, and the first cell that cannot be read.
 * @param {string[]} cells @param {Sense} sense
 * @returns {{contact: any, wrong: {column: string, value: string, reason: string} | null}} */
export function toContact(cells, { meanings, country, countries }) {
  /** @type {any} */
  const contact = { name: '' };
  /** @type {Record<string, unknown>} */
  const fields = {};
  /** @type {{column: string, value: string, reason: string}[]} */
  const wrong = [];
  for (const [i, meaning] of meanings.entries()) {
    const cell = unquote(cells[i] ?? '').trim();
    if (!meaning || !cell) continue;
    if (meaning === 'tags')
      contact.tags = cell
        .split(';')
        .map((x) => x.trim())
        .filter(Boolean);
    else if (meaning === 'custom_fields') {
      try {
        Object.assign(fields, parse(cell));
      } catch {
        wrong.push({ column: meaning, value: cell, reason: 'json' });
      }
    } else if (meaning.startsWith('custom.')) fields[meaning.slice(7)] = cell;
    else if (meaning === 'phone') {
      const { phone, reason } = readPhone(cell, country, countries);
      if (phone) contact.phone = phone;
      else wrong.push({ column: meaning, value: cell, reason: reason ?? '' });
    } else contact[meaning] = cell;
  }
  if (Object.keys(fields).length) contact.custom_fields = fields;
  if (cells.length > meanings.length) wrong.push({ column: '', value: cells[meanings.length] ?? '', reason: 'cells' });
  return { contact, wrong: wrong[0] ?? null };
}

/** Returns a batch as the body of a call, and the rows that cannot be sent.
 * @param {Row[]} rows @param {How} how */
export function bodyOf(rows, how) {
  /** @type {Row[]} */
  const sent = [];
  /** @type {Refused[]} */
  const refused = [];
  const contacts = [];
  for (const row of rows) {
    const { contact, wrong } = toContact(row.cells, how);
    if (wrong) refused.push({ row: row.line, ...wrong, cells: row.cells });
    else (sent.push(row), contacts.push(contact));
  }
  const body = { contacts, ...(how.conflict === 'refuse' ? {} : { on_conflict: how.conflict }) };
  return { sent, refused, body: contacts.length ? JSON.stringify(body) : '' };
}

/** Returns the server's result of a batch. @param {string} answer @param {Row[]} sent @param {How} how */
export function outcomeOf(answer, sent, how) {
  /** @type {Refused[]} */
  const refused = [];
  let imported = 0;
  let skipped = 0;
  JSON.parse(answer).data.forEach((/** @type {any} */ result, /** @type {number} */ i) => {
    const row = sent[i];
    if (result.outcome === 'skipped') skipped++;
    else if (result.status < 300) imported++;
    else if (row) refused.push({ row: row.line, ...reasonOf(result, row.cells, how), cells: row.cells });
  });
  return { imported, skipped, refused };
}

/** @param {any} result @param {string[]} cells @param {How} how */
function reasonOf(result, cells, { head, meanings }) {
  const text = String(result.error?.message ?? result.status);
  const named = /`(?:contacts\[\d+\]\.)?([\w.]+)`/.exec(text)?.[1] ?? (/phone/.test(text) ? 'phone' : '');
  const at = meanings.findIndex((m) => m === named || m === `custom.${named}`);
  return { column: head[at] ?? named, value: cells[at] ?? '', reason: text };
}
