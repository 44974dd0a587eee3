import { get, part } from '../lib/api.js';
import { dateTime, time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { idText } from '../parts/code.js';
import { shown } from '../parts/empty.js';
import { badge, facts } from '../parts/status.js';
import { eventsAbout, timelineOf } from '../parts/timeline.js';

/** The meanings of the channel's errors, in words. @type {Record<string, string>} */
const MEANINGS = {
  131026: 'This phone cannot receive the message. It may not have the app, or the app may be outdated.',
  131047: 'More than 24 hours have passed since the customer last wrote. Send a template instead.',
  131051: 'The channel does not support this message type.',
  131049: 'The channel did not deliver this message because the recipient has received many marketing messages.',
  131050: 'The recipient has turned off marketing messages from you in the app.',
  130472: 'The recipient is part of a channel experiment and receives no marketing messages.',
  190: 'The access token is no longer valid. Replace the number’s token.',
};

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let id = '';
  /** @type {AbortSignal | undefined} */
  let signal;
  const message = new Resource((s) => get(`/v1/messaging/messages/${part(id)}`, {}, s));
  const events = eventsAbout(() => id);
  const load = () => Promise.all([message.load(signal), can('events:read') ? events.load(signal) : null]);
  /** @param {any} m */
  const body = (m) => html`
    ${
      m.error
        ? html`<div class="problem">${problemIcon()}<div><p><b>${words(m.error.reason)}</b> ${m.error.code ? html`<code>${m.error.code}</code>` : ''}</p>
      <p>${t(MEANINGS[m.error.code ?? ''] ?? '') || m.error.details}</p></div></div>`
        : ''
    }
    <section class="card">${facts([
      [t('Status'), badge(m.status)],
      [t('To'), html`<span dir="ltr">${m.to ?? m.recipient}</span>`],
      [t('Type'), words(m.type)],
      [t('Template'), m.template ? html`<code>${m.template.name}</code> ${m.template.language}` : null],
      [t('Broadcast'), m.broadcast_id ? html`<a href=${`/ui/broadcasts/${m.broadcast_id}`}>${m.broadcast_id}</a>` : null],
      [t('Reference'), m.reference],
      [t('Price'), t('{n} credits', { n: m.price })],
      [t('Created'), time(m.created_at, dateTime)],
      [t('Sent'), m.sent_at ? time(m.sent_at, dateTime) : null],
      [t('Delivered'), m.delivered_at ? time(m.delivered_at, dateTime) : null],
      [t('Read'), m.read_at ? time(m.read_at, dateTime) : null],
      [t('Failed'), m.failed_at ? time(m.failed_at, dateTime) : null],
      [t('Number'), idText(m.number_id)],
      [t('ID'), idText(m.message_id)],
    ])}</section>`;
  return {
    title: () =>
      message.data ? t('Message to {to}', { to: message.data.to ?? message.data.recipient ?? '–' }) : t('Message'),
    open(params, s) {
      [id, signal] = [params['id'] ?? '', s];
      return load();
    },
    onEvent: (event) => (event.data?.message_id === id ? load() : undefined),
    resync: load,
    view: () => html`${shown(message, () => body(message.data))}
      ${can('events:read') ? html`<section class="section"><h2>${t('Timeline')}</h2>
        ${timelineOf(events)}</section>` : ''}`,
  };
}

const problemIcon = () => html`<span class="badge bad">!</span>`;
