/** The progress of a broadcast: the delivered, in-flight, failed and unsent messages, as parts of all. */
import { number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';

/** @typedef {{key: string, name: string, n: number}} Part */

/** Returns parts that add up to all recipients. @param {any} b a broadcast @returns {Part[]} */
function parts(b) {
  const sum = (/** @type {string[]} */ ...names) => names.reduce((all, name) => all + (b.counts?.[name] ?? 0), 0);
  return [
    { key: 'delivered', name: t('Delivered'), n: sum('delivered', 'read') },
    { key: 'sent', name: t('Sent'), n: sum('sent', 'held') },
    { key: 'unknown', name: t('Unknown'), n: sum('unknown') },
    { key: 'failed', name: t('Failed'), n: sum('failed') },
    { key: 'unsent', name: t('Not sent'), n: sum('pending', 'suppressed', 'cancelled') },
  ].filter(({ key, n }) => n || key !== 'unknown');
}

/** Returns the number of recipients that were sent to, or could not be. @param {any} b */
export const settled = (b) => parts(b).reduce((all, { key, n }) => all + (key === 'unsent' ? 0 : n), 0);

/** @param {any} b */
export const ofAll = (b) => t('{done} of {total}', { done: settled(b), total: b.total_recipients });

/** @param {any} b */
const said = (b) => parts(b).map(({ name, n }) => `${name}: ${number(n)}`).join(' · ');

/** Shows the parts; the unsent messages are the empty rest. @param {any} b */
const pieces = (b) =>
  parts(b).filter(({ key, n }) => n && key !== 'unsent').map(({ key, n }) => html`<i key=${key} class=${`part-${key}`}
    style=${{ 'inline-size': `${(100 * n) / Math.max(1, b.total_recipients)}%` }}></i>`);

/** Shows the progress in a row. @param {any} b */
export const outcomeCell = (b) => html`<span class="progress-cell" title=${said(b)}><span class="progress" role="img"
  aria-label=${said(b)}>${pieces(b)}</span> <span class="muted">${ofAll(b)}</span></span>`;

/** Shows the progress on the broadcast's own page. @param {any} b */
export const outcomeBar = (b) => html`<div class="progress" role="progressbar" aria-label=${t('Progress')} aria-valuemin="0"
    aria-valuenow=${settled(b)} aria-valuemax=${b.total_recipients} aria-valuetext=${`${ofAll(b)}. ${said(b)}`}>${pieces(b)}</div>
  <p class="legend">${parts(b).map(({ key, name, n }) => html`<span key=${key}><i class=${`part-${key}`}></i>${name} <b>${number(n)}</b></span>`)}</p>`;
