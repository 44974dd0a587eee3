import { get, part } from '../lib/api.js';
import { dateTime, time, words } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can, session } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { bubble } from '../parts/bubble.js';
import { meaning } from '../parts/channel-errors.js';
import { idText } from '../parts/code.js';
import { shown } from '../parts/empty.js';
import { personLink } from '../parts/person.js';
import { badge, facts } from '../parts/status.js';
import { eventsAbout, timelineOf } from '../parts/timeline.js';

/** @typedef {import('../lib/types.js').Message} Message */

/** Shows the message as its recipient reads it. @param {Message} m */
const content = (m) =>
  m.text
    ? bubble({ key: m.message_id, direction: 'out', text: m.text, status: m.status, at: m.sent_at ?? m.created_at })
    : html`<p class="muted">${m.template
        ? t('The text is not retained: the template contains a code, or the contact was deleted or has another phone.')
        : t('This message has no text.')}</p>`;

/** @param {Message} m */
const failure = (m) =>
  m.error
    ? html`<div class="problem">${icon('warning')}<div><p><b>${meaning(m.error)}</b></p>
      <p>${words(m.error.reason)} ${m.error.code ? html`<code>${m.error.code}</code>` : ''}</p></div></div>`
    : '';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let id = '';
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {Resource<Message>} */
  const message = new Resource((s) => get(`/v1/messaging/messages/${part(id)}`, {}, s));
  const events = eventsAbout(() => id);
  const load = () => Promise.all([message.load(signal), can('events:read') ? events.load(signal) : null]);
  /** @param {Message} m */
  const about = (m) =>
    facts([
      [t('Status'), badge(m.status)],
      [t('To'), personLink(m.contact, m.to ?? m.recipient)],
      [t('Type'), words(m.type)],
      [t('Template'), m.template ? html`<code>${m.template.name}</code> ${m.template.language}` : null],
      [t('Broadcast'), m.broadcast_id ? html`<a href=${`/ui/broadcasts/${m.broadcast_id}`}>${t('Open broadcast')}</a>` : null],
      [t('Reference'), m.reference],
      [t('Price'), t('{n} credits', { n: m.price })],
      [t('Created'), time(m.created_at, dateTime)],
      [t('Sent'), m.sent_at ? time(m.sent_at, dateTime) : null],
      [t('Delivered'), m.delivered_at ? time(m.delivered_at, dateTime) : null],
      [t('Read'), m.read_at ? time(m.read_at, dateTime) : null],
      [t('Failed'), m.failed_at ? time(m.failed_at, dateTime) : null],
      [t('Number'), m.number_id ? idText(m.number_id) : null],
      [t('ID'), idText(m.message_id)],
    ]);
  const title = (/** @type {Message} */ m) => t('Message to {to}', { to: m.contact?.name || (m.to ?? m.recipient ?? '–') });
  return {
    title: () => (message.data ? title(message.data) : t('Message')),
    open(params, s) {
      [id, signal] = [params['id'] ?? '', s];
      return load();
    },
    onEvent: (event) => (event.data?.message_id === id ? load() : undefined),
    resync: load,
    actions: () =>
      session.sandbox && message.data?.to
        ? html`<a class="button" href=${`/ui/phone?phone=${part(message.data.to)}`}>${icon('phone')}${t('Open on the phone')}</a>`
        : '',
    view: () => html`${shown(message, () => {
      const m = /** @type {Message} */ (message.data);
      return html`${failure(m)}<div class="columns message-page"><section class="card" aria-label=${t('Message')}>${content(m)}</section>
        <section class="card" aria-label=${t('Details')}>${about(m)}</section></div>`;
    })}
      ${can('events:read') ? html`<section class="section"><h2>${t('Timeline')}</h2>
        ${timelineOf(events)}</section>` : ''}`,
  };
}
