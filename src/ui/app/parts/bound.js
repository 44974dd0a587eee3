/** Forms: fields that write into a state, and what sends it, once at a time. */
import { t } from '../lib/i18n.js';
import { errorFor, field, select } from './form.js';

/** @import { Field } from '../lib/types.js' */

/** A field whose text is `state[name]`; a refusal that names it stands below it.
 * @param {any} state @param {string} name @param {Field} how */
export const bound = (state, name, how) =>
  field({
    error: errorFor(state.error, name),
    ...how,
    value: state[name],
    input: (v) => {
      state[name] = v;
    },
  });

/** @param {any} state @param {string} name @param {string} label @param {[string, string][]} options @param {string} [hint] */
export const boundSelect = (state, name, label, options, hint) =>
  select({
    label,
    value: state[name],
    options,
    hint,
    change: (v) => {
      state[name] = v;
    },
  });

/** @param {any} state @param {string} name @param {Partial<Field>} [how] a new one says how long it has to be */
export const password = (state, name, how = {}) =>
  bound(state, name, {
    label: t('Password'),
    type: 'password',
    autocomplete: 'current-password',
    ...(how.autocomplete === 'new-password' ? { hint: t('12 characters or more; a few words are good') } : {}),
    ...how,
  });

/** @param {any} state @param {string} name @param {Partial<Field>} [how] */
export const oneTimeCode = (state, name, how = {}) =>
  bound(state, name, { label: t('Authenticator code'), autocomplete: 'one-time-code', inputmode: 'numeric', ...how });

/** Where the code is asked for now. */
export const focusCode = () =>
  requestAnimationFrame(() =>
    requestAnimationFrame(() => /** @type {any} */ (document.querySelector('[autocomplete="one-time-code"]'))?.focus()),
  );

/** Sends a form; a refusal stays in its state. @param {any} state @param {() => Promise<unknown>} run */
export async function sending(state, run) {
  if (state.busy) return;
  state.busy = true;
  state.error = null;
  try {
    await run();
  } catch (error) {
    state.error = error;
  }
  state.busy = false;
}

/** A day and time that was typed, in this place's time. @param {string} text @returns {Date | null} */
export const parseLocal = (text) => {
  const found = /^(\d{4})-(\d\d?)-(\d\d?)[ T](\d\d?):(\d\d)$/.exec(text.trim())?.slice(1).map(Number);
  return found ? new Date(found[0] ?? 0, (found[1] ?? 1) - 1, found[2], found[3], found[4]) : null;
};

/** A time as it is typed, in this place's time. @param {string | null | undefined} at */
export function typedTime(at) {
  if (!at) return '';
  const d = new Date(at);
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}`;
}
