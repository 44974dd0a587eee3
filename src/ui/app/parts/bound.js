/** Forms: fields that write into a state, and a send of it, one at a time. */
import { t } from '../lib/i18n.js';
import { errorFor, field, select } from './form.js';

/** @import { Field } from '../lib/types.js' */

/** Returns a field whose text is `state[name]`; a refusal that names it is shown below it.
 * @param {any} state @param {string} name @param {Field} how @param {string[]} paths where the interface has it */
export const bound = (state, name, how, ...paths) =>
  field({
    error: errorFor(state.error, ...(paths.length ? paths : [name])),
    ...how,
    value: state[name],
    input: (v) => {
      state[name] = v;
      how.input?.(v);
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
    ...(how.autocomplete === 'new-password' ? { hint: t('Use at least 12 characters. A few random words work well.') } : {}),
    ...how,
  });

/** @param {any} state @param {string} name @param {Partial<Field>} [how] */
export const oneTimeCode = (state, name, how = {}) =>
  bound(state, name, { label: t('Authenticator code'), autocomplete: 'one-time-code', inputmode: 'numeric', ...how });

/** Focuses the field of the requested code. */
export const focusCode = () =>
  requestAnimationFrame(() =>
    requestAnimationFrame(() => /** @type {any} */ (document.querySelector('[autocomplete="one-time-code"]'))?.focus()),
  );

/** Sends a form; its state keeps a refusal. @param {any} state @param {() => Promise<unknown>} run */
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
