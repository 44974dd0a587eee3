import { t, tv } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { ticked, typed } from '../lib/dom.js';

let serial = 0;
/** @type {Map<string, string>} */
const ids = new Map();

/** Returns an id for references from a label, a hint and an error. @param {string} name */
function idOf(name) {
  const known = ids.get(name);
  if (known) return known;
  const made = `f${++serial}`;
  ids.set(name, made);
  return made;
}

/** @import { Field } from '../lib/types.js' */

/** A labelled text field. @param {Field} f */
export function field(f) {
  const id = idOf(`${location.pathname} ${f.label}`);
  const described = [f.hint ? `${id}h` : '', f.error ? `${id}e` : ''].filter(Boolean).join(' ') || null;
  const change = f.input ? typed(f.input) : null;
  const control = f.rows
    ? html`<textarea id=${id} rows=${f.rows} .value=${f.value ?? ''} oninput=${change} placeholder=${f.placeholder ?? null}
        ?readonly=${f.readonly} aria-describedby=${described} aria-invalid=${f.error ? 'true' : null} dir=${f.dir ?? 'auto'}
        class=${f.mono ? 'mono' : null} onkeydown=${f.keydown ?? null} ?autofocus=${f.focus}></textarea>`
    : html`<input id=${id} type=${f.type ?? 'text'} .value=${f.value ?? ''} oninput=${change} placeholder=${f.placeholder ?? null}
        ?readonly=${f.readonly} ?required=${f.required} autocomplete=${f.autocomplete ?? 'off'} inputmode=${f.inputmode ?? null}
        aria-describedby=${described} aria-invalid=${f.error ? 'true' : null} class=${f.mono ? 'mono' : null} maxlength=${f.max ?? null}
        onkeydown=${f.keydown ?? null} oninvalid=${f.invalid ?? null} ref=${f.ref ?? null} ?autofocus=${f.focus} list=${f.list ? `${id}l` : null} dir=${f.dir ?? null} spellcheck="false">`;
  return html`<div class="field">
    <label for=${id} class=${f.hidden ? 'sr' : null}>${f.label}</label>${f.inside ? html`<div class="chips">${f.inside}${control}</div>` : control}
    ${f.list ? html`<datalist id=${`${id}l`}>${f.list.map((v) => html`<option value=${v}></option>`)}</datalist>` : ''}
    ${f.hint ? html`<p class="hint" id=${`${id}h`}>${f.hint}</p>` : ''}
    ${f.error ? html`<p class="error" id=${`${id}e`} role="alert">${f.error}</p>` : ''}
  </div>`;
}

/**
 * @param {{label: string, value: string, options: [string, string][], change: (value: string) => unknown,
 *   hint?: unknown, hidden?: boolean, disabled?: boolean, error?: string | null}} s
 */
export function select(s) {
  const id = idOf(`${location.pathname} ${s.label}`);
  return html`<div class="field">
    <label for=${id} class=${s.hidden ? 'sr' : null}>${s.label}</label>
    <select id=${id} .value=${s.value} onchange=${typed(s.change)} ?disabled=${s.disabled} aria-invalid=${s.error ? 'true' : null}
      aria-describedby=${s.error ? `${id}e` : null}>
      ${s.options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
    </select>
    ${s.hint ? html`<p class="hint">${s.hint}</p>` : ''}
    ${s.error ? html`<p class="error" id=${`${id}e`} role="alert">${s.error}</p>` : ''}
  </div>`;
}

/** @param {string} label @param {boolean} checked @param {(on: boolean) => unknown} change @param {unknown} [hint] */
export const checkbox = (label, checked, change, hint) => html`<label class="check">
  <input type="checkbox" .checked=${checked} onchange=${ticked(change)}>
  <span>${label}${hint ? html`<span class="hint"> ${hint}</span>` : ''}</span></label>`;

/**
 * Returns a choice of few options, as a row of buttons.
 * @param {string} label @param {string} value @param {[string, string][]} options @param {(value: string) => unknown} change
 * @param {{shown?: boolean}} [how]
 */
export function radios(label, value, options, change, how = {}) {
  const name = idOf(`${location.pathname} ${label}`);
  return html`<div class="field" role="radiogroup" aria-label=${label}>
    ${how.shown ? html`<span class="label" aria-hidden="true">${label}</span>` : ''}
    <div class="segmented">${options.map(
      ([key, text]) => html`<label key=${key}>
      <input type="radio" name=${name} value=${key} .checked=${key === value} onchange=${() => change(key)}><span>${text}</span></label>`,
    )}
    </div></div>`;
}

/** @typedef {{path: string, rule: string}} Refused */

/** The forms of a refusal that names a sent value, each rewritten to the one of `field`. In a place of a recipient, the
 * number is last; a wrong type becomes a rule about the type. @type {[RegExp, string][]} */
const SHAPES = [
  [/; and \d+ more$/, ''],
  [/`([^`]+)`: `[^`]*?(\[\d+\])?`/g, '`$1$2`'],
  [/^(`[^`]+`): invalid (?:type|value): .*, expected /, '$1 must be '],
];

/** Returns the rules of a refusal, each with the path of its value in the request: "`name` must be …", or
 * "`recipients[0]`, `recipients[2]` must be …; `components` must be …". Empty if it names no value.
 * @param {any} error @returns {Refused[]} */
export function refusals(error) {
  const message = SHAPES.reduce((text, [from, to]) => text.replace(from, to), String(error?.message ?? ''));
  const all = message.split(/; (?=`)/).map((text) => /^((?:`[^`]+`(?:, )?)+) ([^]+)$/.exec(text));
  if (all.some((it) => it === null)) return [];
  return all.flatMap((it) => [...(it?.[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, path = '']) => ({ path, rule: it?.[2] ?? '' })));
}

/** Returns whether a path is that of a field, or of a value in it; `[]` in a field is any place of a list.
 * @param {string} path @param {string} field */
function isOf(path, field) {
  const known = field.replace(/[.*+?^${}()|\\]/g, '\\$&').replace(/\[(\d*)\]/g, (_, at) => `\\[${at || '\\d+'}\\]`);
  return new RegExp(`^${known}(?=$|[.[])`).exec(path)?.[0].length ?? 0;
}

/** Returns the rules in words, without the interface's names: the field's label is above.
 * @param {Refused[]} all @param {string[]} fields @returns {string | null} */
function said(all, fields) {
  const texts = all.flatMap(({ path, rule }) => {
    const own = Math.max(...fields.map((field) => isOf(path, field)));
    if (!own) return [];
    const within = path.slice(own).replace(/^\./, '');
    const text = t(rule.replace(/^of the contact with (\S+) /, '$1: '));
    // In a list, people count the entries from one.
    const [, at, rest = ''] = /^(?:\[(\d+)\]\.?)?([^]*)$/.exec(within) ?? [];
    const whole = rest ? `${rest}: ${text}` : text;
    if (at !== undefined) return t('Entry {n}: {text}', { n: Number(at) + 1, text: whole });
    return rest ? whole : text.charAt(0).toUpperCase() + text.slice(1);
  });
  return texts.length ? [...new Set(texts)].join('; ') : null;
}

/** Returns the rules of a field. @param {any} error @param {string[]} fields the paths that the field writes */
export const errorFor = (error, ...fields) => said(refusals(error), fields);

/** Returns the same for a form in which a field's path may be within another's: the nearest shows it.
 * @param {any} error @param {Record<string, string[]>} form paths by field @param {string} name of the field */
export function errorIn(error, form, name) {
  const near = (/** @type {string[]} */ fields, /** @type {string} */ path) => Math.max(0, ...fields.map((it) => isOf(path, it)));
  const own = refusals(error).filter(({ path }) => {
    const most = Math.max(...Object.values(form).map((fields) => near(fields, path)));
    return near(form[name] ?? [], path) === most;
  });
  return said(own, form[name] ?? []);
}

/** Returns the seconds until a refused call may be repeated; they count down. @param {any} error */
export function secondsLeft(error) {
  if (error.status === 429 && error.wait && !error.until) {
    error.until = Date.now() + error.wait * 1000;
    const timer = setInterval(() => (refresh(), Date.now() > error.until && clearInterval(timer)), 1000);
  }
  return error.until ? Math.max(0, Math.ceil((error.until - Date.now()) / 1000)) : 0;
}

/** Shows the wait, which screen readers do not repeat each second. @param {number} seconds */
export const waits = (seconds) =>
  seconds ? html`<span class="muted" aria-live="off">${t('Try again in {seconds} s', { seconds })}</span>` : '';

/** Shows the rest of a refusal, which no field of the form shows. @param {any} error @param {string[]} [fields] paths of those
 * that show it */
export function formError(error, fields = []) {
  const named = refusals(error);
  const left = named.filter(({ path }) => !fields.some((field) => isOf(path, field)));
  if (!error || (named.length && !left.length)) return '';
  const text = left.length ? left.map(({ path, rule }) => `${path} ${t(rule)}`).join('; ') : error.message;
  return html`<p class="error block" role="alert">${text} ${waits(secondsLeft(error))}${error.requestId ? html` <code>${error.requestId}</code>` : ''}</p>`;
}

/** Focuses the first field with a fault. @param {ParentNode | null} form */
export const focusWrong = (form) =>
  requestAnimationFrame(() =>
    requestAnimationFrame(() => /** @type {HTMLElement | null} */ (form?.querySelector('[aria-invalid="true"]'))?.focus()),
  );

/** Returns a button whose action runs one at a time. @param {string} text @param {() => unknown} run
 * @param {{busy?: boolean, kind?: string, disabled?: boolean, icon?: unknown}} [how] */
export const button = (
  text,
  run,
  how = {},
) => html`<button type="button" class=${how.kind ?? null} aria-busy=${how.busy ? 'true' : null}
  ?disabled=${how.disabled || how.busy} onclick=${run}>${how.icon ?? ''}${text}</button>`;

/** @param {string} text @param {boolean} busy @param {boolean} [disabled] */
export const submitButton = (text, busy, disabled) =>
  html`<button class="primary" ?disabled=${busy || disabled} aria-busy=${busy ? 'true' : null}>${text}</button>`;

export const optional = () => html`<span class="hint">${t('optional')}</span>`;

// Phones that are typed as people write them: the interface accepts only E.164.

const E164 = /^\+[1-9]\d{6,14}$/;
/** The maximum number of a text's phones that are shown in the form in which they are sent. */
const SHOWN = 3;

/** The rules of phones, loaded when another form than E.164 is typed.
 * @type {(typeof import('../import/phones.js') & typeof import('../import/countries.js') & {inWords: (reason?: string) => string}) | null} */
let rules = null;
/** @type {Promise<unknown> | null} */
let asked = null;

const load = () =>
  (asked ??= Promise.all([import('../import/phones.js'), import('../import/countries.js'), import('../import/map.js')])
    .then(async ([phones, countries, { inWords }]) => {
      await countries.loadCountries();
      rules = { ...phones, ...countries, inWords };
      refresh();
    })
    .catch(() => {
      asked = null;
    }));

/** @param {string} text @param {string} [country] @returns {Partial<import('../import/phones.js').Reading>} */
const read = (text, country = rules?.chosenCountry() ?? '') => rules?.readPhone(text, country, rules.countries) ?? {};

/** Returns a phone in E.164, or the text if it is none or the rules are not loaded. @param {string} text */
export const e164Now = (text) => read(text).phone ?? text.trim();

/** Returns a phone in E.164, or the text if it is none, which the server then refuses. @param {string} text */
export async function e164(text) {
  if (text.trim() && !E164.test(text.trim())) await load();
  return e164Now(text);
}

/** @typedef {{written: string, phone?: string | undefined, reason?: string | undefined}} Typed */
/** The last result, because a long list is rendered often. @type {{of: string, all: Typed[]}} */
let last = { of: '', all: [] };

/** Returns the phones of a text, separated by lines, commas, semicolons or the next `+`. @param {string} text @returns {Typed[]} */
function typedPhones(text) {
  const of = `${rules?.chosenCountry()} ${text}`;
  if (last.of === of) return last.all;
  const all = text.split(/[\n,;]+|\s+(?=\+)/).map((it) => it.trim()).filter(Boolean);
  last = { of, all: all.map((written) => ({ written, ...(E164.test(written) ? { phone: written } : read(written)) })) };
  return last.all;
}

/** Returns the phones of a text in E.164. @param {string} text */
export const phonesOf = (text) => typedPhones(text).map((it) => it.phone ?? it.written);

/** Shows the sent form of phones that are not in E.164 yet, and their country.
 * @param {string} text @param {() => unknown} [after] is called when another country is chosen */
export function phoneNote(text, after) {
  const all = typedPhones(text);
  const odd = all.filter((it) => it.phone !== it.written);
  if (odd.length && !rules) load();
  if (!odd.length || !rules) return '';
  // A phone that is still being typed is no mistake yet.
  const wrong = odd.find((it) => it.reason && !['phone', 'country'].includes(it.reason) && it.written.length > 6);
  const national = odd.some((it) => /(\D*\d){5}/.test(it.written) && read(it.written, '').reason === 'country');
  const sent = odd.filter((it) => it.phone).slice(0, SHOWN);
  const { inWords, chooseCountry, chosenCountry, countryOptions } = rules;
  return html`<div class="stack tight">${sent.map(({ written, phone }) => html`<p class="hint" role="status">${all.length > 1
    ? html`<bdi dir="ltr">${written} → ${phone}</bdi>` : tv('Sent as {phone}', { phone: html`<bdi dir="ltr">${phone}</bdi>` })}</p>`)}
    ${wrong ? html`<p class="error" role="status">${all.length > 1 ? html`<bdi dir="ltr">${wrong.written}</bdi> ` : ''}${inWords(wrong.reason)}</p>` : ''}
    ${national ? select({
      label: t('Country for local numbers'),
      value: chosenCountry(),
      options: countryOptions(t('Choose')),
      change: (v) => {
        chooseCountry(v);
        (after ?? refresh)();
      },
    }) : ''}</div>`;
}
