/** Custom fields, one in a row. A value keeps its type and, until it is touched, the way it is written. */
import { on } from '../lib/dom.js';
import { textOf } from '../lib/exact.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { field, select } from './form.js';

/** @typedef {[name: string, json: string]} Member */
/** @typedef {'text' | 'number' | 'boolean' | 'json'} Kind of a value; one of the last is shown, and cannot be changed */
/** @typedef {{name: string, kind: Kind, text: string}} Shown */
/** @typedef {Shown & {key: number, was: (Shown & {json: string}) | null}} Row */

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** @param {Member} member @returns {Shown & {json: string}} */
function shown([name, json]) {
  const kind = json.startsWith('"') ? 'text' : NUMBER.test(json) ? 'number' : /^[tf]/.test(json) ? 'boolean' : 'json';
  // A text field has only these line ends.
  return { name, json, kind, text: textOf(json).replace(/\r\n?/g, '\n') };
}

/** @param {Row} row */
const touched = ({ name, kind, text, was }) => !was || was.name !== name || was.kind !== kind || was.text !== text;

/** Returns whether a row counts: a new empty one does not. @param {Row} row */
const meant = (row) => Boolean(row.was || row.name.trim() || row.text.trim());

/** @param {Row} row */
const nameOf = (row) => (row.was?.name === row.name ? row.name : row.name.trim());

/** @param {Row} row @returns {string} */
function jsonOf({ kind, text, was }) {
  if (was?.kind === kind && was.text === text) return was.json;
  return kind === 'text' ? JSON.stringify(text) : text.trim();
}

/** Saves on Enter, as in other fields, unless the text has lines already. @param {any} e */
const keys = (e) => {
  if (e.key !== 'Enter' || e.shiftKey || e.isComposing || e.target.value.includes('\n')) return;
  e.preventDefault();
  e.target.form?.requestSubmit();
};

/**
 * @param {Member[]} before @param {{typed?: boolean, changed?: () => unknown}} [how] of typed ones the kind is chosen;
 * others are texts, such as of a filter, which compares texts
 */
export function ownFields(before, { typed = true, changed = () => {} } = {}) {
  let last = 0;
  /** @param {Member} [member] @returns {Row} */
  const made = (member) => {
    const was = member ? shown(member) : null;
    if (was && !typed && was.kind !== 'json') was.kind = 'text';
    return { name: '', kind: 'text', text: '', ...was, was, key: ++last };
  };
  let rows = before.map(made);
  let asked = false;
  const meantRows = () => rows.filter(meant);

  /** @param {Row} row */
  const nameFault = (row) => {
    if (row.was?.name === row.name || !meant(row)) return null;
    if (!nameOf(row)) return t('Enter a name');
    return meantRows().some((other) => other !== row && nameOf(other) === nameOf(row)) ? t('Another field already has this name') : null;
  };
  /** @param {Row} row */
  const valueFault = (row) =>
    row.kind === 'number' && touched(row) && meant(row) && !NUMBER.test(row.text.trim()) ? t('Enter a number, such as 3 or -2.5') : null;

  /** @param {Row} row @param {Partial<Shown>} to */
  const change = (row, to) => {
    Object.assign(row, to);
    changed();
  };
  /** @param {any} e */
  const add = (e) => {
    const set = e.currentTarget.closest('.own-fields');
    rows.push(made());
    requestAnimationFrame(() => requestAnimationFrame(() => [...set.querySelectorAll('.own-field')].pop()?.querySelector('input').focus()));
  };
  /** Removes a row and focuses the button that adds one. @param {any} e @param {Row} row */
  const drop = (e, row) => {
    e.currentTarget.closest('.own-fields').querySelector('.own-add button').focus();
    rows = rows.filter((other) => other !== row);
    changed();
  };
  /** @param {Row} row @param {string} kind */
  const turn = (row, kind) =>
    change(row, { kind: /** @type {Kind} */ (kind), ...(kind === 'boolean' ? { text: String(row.text.trim() !== 'false') } : {}) });

  /** @param {Row} row @param {number} n */
  const value = (row, n) => {
    const label = t('Value of field {n}', { n });
    if (row.kind === 'json') return html`<pre class="code" tabindex="0" role="group" aria-label=${label}>${row.text}</pre>`;
    if (row.kind === 'boolean')
      return select({ label, hidden: true, value: row.text, options: [['true', t('Yes')], ['false', t('No')]], change: (text) => change(row, { text }) });
    const lines = row.kind === 'text' ? { rows: Math.min(8, row.text.split('\n').length), keydown: on(keys) } : { dir: 'ltr', inputmode: 'decimal' };
    return field({ label, hidden: true, value: row.text, input: (text) => change(row, { text }), placeholder: t('Value'),
      error: asked ? valueFault(row) : null, ...lines });
  };
  /** @param {Row} row @param {number} n */
  const kind = (row, n) =>
    row.kind === 'json'
      ? html`<span class="own-json muted" title=${t('JSON values are kept unchanged.')}>JSON</span>`
      : select({ label: t('Type of field {n}', { n }), hidden: true, value: row.kind, change: (v) => turn(row, v),
        options: [['text', t('Plain text')], ['number', t('Numeric')], ['boolean', t('Yes or no')]] });
  /** @param {Row} row @param {number} at */
  const line = (row, at) => html`<div key=${row.key} class="own-field">
    ${field({ label: t('Name of field {n}', { n: at + 1 }), hidden: true, value: row.name, dir: 'auto', placeholder: t('Name'),
      input: (name) => change(row, { name }), error: asked ? nameFault(row) : null })}
    ${typed ? kind(row, at + 1) : ''}<div class="own-value">${value(row, at + 1)}</div><button type="button" class="quiet icon-only"
      aria-label=${t('Remove field {n}', { n: at + 1 })} onclick=${on((e) => drop(e, row))}>${icon('close')}</button></div>`;

  return {
    touched: () => rows.length < before.length || rows.some((row) => meant(row) && touched(row)),
    /** Returns whether it can be sent; faults are shown from now on. */
    ready() {
      asked = true;
      return !rows.some((row) => nameFault(row) || valueFault(row));
    },
    /** Applies the changes to fields that others may have changed. @param {Member[]} now @returns {Member[]} */
    of(now) {
      const all = new Map(now);
      const mine = meantRows().filter(touched);
      const there = new Set(rows.map((row) => row.was?.name));
      for (const [name] of before) if (!there.has(name)) all.delete(name);
      for (const { was } of mine) if (was) all.delete(was.name);
      for (const row of mine) if (nameOf(row) || row.was?.name === '') all.set(nameOf(row), jsonOf(row));
      return [...all];
    },
    /** @param {{label: string, hint?: unknown, error?: string | null}} how */
    view: ({ label, hint, error }) => html`<fieldset class=${typed ? 'field own-fields typed' : 'field own-fields'}><legend class="label">${label}</legend>
      ${rows.map(line)}
      <div class="row own-add"><button type="button" onclick=${on(add)}>${icon('plus')}${t('Add field')}</button>${hint && rows.length ? html`<span class="hint">${hint}</span>` : ''}</div>
      ${error ? html`<p class="error" role="alert">${error}</p>` : ''}</fieldset>`,
  };
}
