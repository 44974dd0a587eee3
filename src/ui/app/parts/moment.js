/** A chosen day and time, in the local time zone. */
import { on } from '../lib/dom.js';
import { now } from '../lib/format.js';
import { language, t } from '../lib/i18n.js';
import { field } from './form.js';

/** Returns the value of a picker, in local time. @param {string | number | null | undefined} at @returns {string} */
function written(at) {
  if (at === null || at === undefined) return '';
  const d = new Date(at);
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  const year = String(d.getFullYear()).padStart(4, '0');
  return `${year}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}`;
}

/** Returns the local zone with its offset to UTC at that time, which differs in summer. @param {Date | null} at */
function zone(at) {
  const format = new Intl.DateTimeFormat(language(), { timeZoneName: 'shortOffset' });
  const offset = format.formatToParts(at ?? now()).find((it) => it.type === 'timeZoneName')?.value ?? '';
  return `${format.resolvedOptions().timeZone} (${offset})`;
}

export class Moment {
  /** @param {string | null} [at] what it is before somebody chooses */
  constructor(at) {
    this.before = this.value = written(at);
    /** Set if faults are shown; a picker that is being filled in is not wrong yet. */
    this.asked = false;
    /** @type {HTMLInputElement | null} */
    this.node = null;
  }

  /** `true` if the picker is half filled in, and so has no value. */
  get isPartial() {
    return Boolean(this.node?.validity.badInput);
  }

  get isTouched() {
    return this.value !== this.before || this.isPartial;
  }

  get isEmpty() {
    return !this.value && !this.isPartial;
  }

  /** @returns {Date | null} none: not chosen, or an hour that the clocks leave out */
  get date() {
    const at = this.value ? new Date(this.value) : null;
    return at && written(at.getTime()) === this.value.slice(0, 16) ? at : null;
  }

  /** The fault, in words. @returns {string | null} */
  get fault() {
    if (this.isEmpty) return t('Choose a date and time');
    if (!/^\d{4}-/.test(this.value)) return t('Enter a complete date and time');
    if (!this.date) return t('This time does not exist on that day because the clocks change');
    return this.date.getTime() <= now() ? t('This time is in the past') : null;
  }

  /** Shows faults from now on; an untouched value stays as it was. @param {boolean} [optional]
   * @returns {boolean} whether it may be sent */
  check(optional = false) {
    this.asked = this.isTouched && !(optional && this.isEmpty);
    if (!this.asked || !this.fault) return true;
    this.node?.focus();
    return false;
  }

  /** @param {{label: string, hint?: string, required?: boolean, focus?: boolean, error?: string | null, change?: () => unknown}} how */
  view(how) {
    const hint = t('Time zone: {zone}', { zone: zone(this.date) });
    return field({
      label: how.label,
      type: 'datetime-local',
      value: this.value,
      required: how.required ?? false,
      focus: how.focus ?? false,
      dir: 'ltr',
      hint: how.hint ? `${how.hint}. ${hint}` : hint,
      error: (this.asked ? this.fault : null) ?? how.error ?? null,
      input: (v) => {
        this.value = v;
        how.change?.();
      },
      // The message is under the field, not in a bubble that disappears.
      invalid: on((e) => {
        e.preventDefault();
        this.asked = true;
        e.target.focus();
      }),
      ref: (node, closed) => {
        this.node = closed ? null : node;
        // A year has four digits.
        if (node) node.max = '9999-12-31T23:59';
      },
    });
  }
}
