/** The state of a code, in one word: how it ended, or else how far its message has come. */
import { words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { badge, label } from './status.js';

/** @typedef {import('../lib/types.js').Otp} Otp */

/** The number of wrong attempts that end a code. */
const ATTEMPTS = 5;

/** @param {Otp} r */
function state(r) {
  const isOver = r.status === 'verified' || r.status === 'invalidated' || r.status === 'cancelled';
  if (!isOver && r.delivery_status === 'failed') return badge('failed', t('Not delivered'));
  if (r.status !== 'active') return badge(r.status);
  return r.mode === 'inbound' ? badge('active', t('Waiting for the user')) : badge(r.delivery_status);
}

/** Shows the state, and the guard's decision if it was not simply to send it. @param {Otp} r */
export const codeState = (r) =>
  html`${state(r)} ${r.decision && r.decision !== 'allowed' ? label('warning', 'question', words(r.decision)) : ''}`;

/** Returns the wrong attempts of all that there are; null if there was none. @param {Otp} r */
export const wrongAttempts = (r) =>
  r.attempts_remaining < ATTEMPTS ? t('{n} of {total}', { n: ATTEMPTS - r.attempts_remaining, total: ATTEMPTS }) : null;
