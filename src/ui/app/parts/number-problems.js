/** The results of the last check of a number. */
import { time, words } from '../lib/format.js';
import { t, tv } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { badge, label } from './status.js';

/** @typedef {{code: string, message: string}} Problem */

/** @param {Problem} problem @returns {string} */
const named = (problem) =>
  ({
    unreachable: t('The channel does not respond'),
    token_refused: t('The channel rejects the token'),
    refused: t('The channel denies access to the number'),
    not_subscribed: t('No app is subscribed to the account'),
    no_callback_in_a_day: t('No callback received in the last 24 hours'),
    not_connected: t('The channel does not list the number as connected'),
    name_not_approved: t('The display name is not approved'),
    quality_red: t('Recipients often block or report the number'),
    template_missing: t('The code template is missing or not approved'),
  })[problem.code] ?? problem.message;

/** Returns the problems of a number, in words. @param {any} n @returns {string[]} */
export const problemTexts = (n) => (n.check?.problems ?? []).map(named);

/** Shows the recipients' rating of a number. @param {string} is */
export const quality = (is) =>
  label({ green: 'good', yellow: 'warning', red: 'bad' }[is] ?? 'neutral', is === 'green' ? 'check' : 'warning', words(is));

/** Shows the facts of a number beside its state, in a line. @param {any} n */
export const standing = (n) =>
  html`<span class="row">${n.quality && n.quality !== 'unknown' ? quality(n.quality) : ''}${n.pool ? '' : html`<span
    class="muted">${t('Not in the pool')}</span>`}${n.portfolio_id ? html`<span class="muted">${tv('Portfolio {id}', { id: html`<code>${n.portfolio_id}</code>` })}</span>` : ''}</span>`;

/** @param {any} n */
export const numberProblems = (n) =>
  n.check
    ? html`<section class="card" aria-label=${t('Last check')}><p class="row">${badge(n.check.problems.length ? 'failing' : 'ok')}
    <span class="muted">${time(n.check.checked_at)}</span></p>
    ${n.check.problems.length ? html`<ul>${problemTexts(n).map((text) => html`<li>${text}</li>`)}</ul>` : ''}</section>`
    : '';
