import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { ticked, typed } from '../lib/dom.js';

let serial = 0;
/** @type {Map<string, string>} */
const ids = new Map();

/** An id that a label, a hint and an error can name. @param {string} name */
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
        onkeydown=${f.keydown ?? null} ?autofocus=${f.focus} list=${f.list ? `${id}l` : null} dir=${f.dir ?? null} spellcheck="false">`;
  return html`<div class="field">
    <label for=${id} class=${f.hidden ? 'sr' : null}>${f.label}</label>${control}
    ${f.list ? html`<datalist id=${`${id}l`}>${f.list.map((v) => html`<option value=${v}></option>`)}</datalist>` : ''}
    ${f.hint ? html`<p class="hint" id=${`${id}h`}>${f.hint}</p>` : ''}
    ${f.error ? html`<p class="error" id=${`${id}e`} role="alert">${f.error}</p>` : ''}
  </div>`;
}

/**
 * @param {{label: string, value: string, options: [string, string][], change: (value: string) => unknown,
 *   hint?: unknown, hidden?: boolean, disabled?: boolean}} s
 */
export function select(s) {
  const id = idOf(`${location.pathname} ${s.label}`);
  return html`<div class="field">
    <label for=${id} class=${s.hidden ? 'sr' : null}>${s.label}</label>
    <select id=${id} .value=${s.value} onchange=${typed(s.change)} ?disabled=${s.disabled}>
      ${s.options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
    </select>
    ${s.hint ? html`<p class="hint">${s.hint}</p>` : ''}
  </div>`;
}

/** @param {string} label @param {boolean} checked @param {(on: boolean) => unknown} change @param {unknown} [hint] */
export const checkbox = (label, checked, change, hint) => html`<label class="check">
  <input type="checkbox" .checked=${checked} onchange=${ticked(change)}>
  <span>${label}${hint ? html`<span class="hint"> ${hint}</span>` : ''}</span></label>`;

/**
 * A choice of few, as a row of buttons.
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

/** The message of a refusal that names a field, for that field. @param {any} error @param {string} name */
export const errorFor = (error, name) =>
  error && String(error.message).includes(`\`${name}\``) ? String(error.message) : null;

/** Seconds until a refused call may be made again; they count down. @param {any} error */
export function secondsLeft(error) {
  if (error.status === 429 && error.wait && !error.until) {
    error.until = Date.now() + error.wait * 1000;
    const timer = setInterval(() => (refresh(), Date.now() > error.until && clearInterval(timer)), 1000);
  }
  return error.until ? Math.max(0, Math.ceil((error.until - Date.now()) / 1000)) : 0;
}

/** A screen reader does not say each second. @param {number} seconds */
export const waits = (seconds) =>
  seconds ? html`<span class="muted" aria-live="off">${t('Try again in {seconds} s', { seconds })}</span>` : '';

/** A form's refusal where no field is named. @param {any} error @param {string[]} [named] */
export function formError(error, named = []) {
  if (!error || named.some((name) => errorFor(error, name))) return '';
  return html`<p class="error block" role="alert">${error.message} ${waits(secondsLeft(error))}${error.requestId ? html` <code>${error.requestId}</code>` : ''}</p>`;
}

/** A button that does something once at a time. @param {string} text @param {() => unknown} run
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
