import { dateTime, time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { icon } from '../lib/icons.js';
import { Rows } from '../lib/store.js';
import { meaning } from './channel-errors.js';
import { shown } from './empty.js';
import { tone } from './status.js';
import { moreButton } from './table.js';

/** @param {any} e */
function note(e) {
  const d = e.data;
  if (e.type === 'otp.sent' && d.resend) return t('Resent');
  if (d.error?.reason) return meaning(d.error);
  if (d.reason) return /^[a-z_]+$/.test(d.reason) ? words(d.reason) : d.reason;
  return (d.text ? d.text : (d.name ?? ''));
}

/** @type {Record<string, string>} */
const SIGNS = {
  otp: 'code',
  message: 'message',
  conversation: 'inbox',
  contact: 'person',
  broadcast: 'broadcast',
  webhook: 'webhook',
  number: 'phone',
  template: 'template',
};

/** Shows events as a list, in their order. @param {any[]} events */
export const timeline = (events) => html`<ol class="timeline" aria-label=${t('Timeline')}>${events.map(
  (e) => html`<li key=${e.id} class=${tone(e.type.split('.')[1])}>
  <span class="timeline-sign">${icon(SIGNS[e.type.split('.')[0]] ?? 'events')}</span>
  <div><b>${words(e.type.split('.')[0])} · ${words(e.type.split('.')[1])}</b><p class="muted" dir="auto">${note(e)}</p></div>
  <span class="muted">${time(e.timestamp, dateTime)}</span></li>`,
)}</ol>
  ${events.length ? '' : html`<p class="muted">${t('The event log has no entries for this item.')}</p>`}`;

/** Returns the events about one thing, newest first. @param {() => string} id @returns {Rows<any>} */
export const eventsAbout = (id) =>
  new Rows(
    '/v1/events',
    () => ({ about: id(), order: 'desc', limit: 100 }),
    (e) => e.id,
  );

/** Shows these events as a list, oldest first. @param {Rows<any>} events */
export const timelineOf = (events) =>
  shown(events, () => html`${events.more ? moreButton(events) : ''}${timeline([...events.rows].reverse())}`);
