import { get } from '../lib/api.js';
import { time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { Resource, Rows } from '../lib/store.js';
import { downloadLink } from '../parts/csv.js';
import { empty, shown } from '../parts/empty.js';
import { errorCell } from '../parts/channel-errors.js';
import { choice, filters } from '../parts/filter.js';
import { e164Now } from '../parts/form.js';
import { freshRows, scrolled } from '../parts/fresh.js';
import { period } from '../parts/period.js';
import { clearTyped, otherSearch, person, personSearch } from '../parts/person.js';
import { badge } from '../parts/status.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {import('../lib/types.js').Message} Message */
const KINDS = [
  'template', 'text', 'image', 'video', 'document', 'audio', 'sticker', 'location', 'contacts', 'reaction', 'interactive',
];
const STATUSES = ['queued', 'held', 'sent', 'delivered', 'read', 'failed', 'unknown'];

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {Rows<Message>} */
  const rows = new Rows(
    '/v1/messaging/messages',
    /** @returns {Record<string, unknown>} */ () => ({ ...filter.values, ...range.moments(), to: e164Now(filter.values.to) }),
    (/** @type {Message} */ m) => m.message_id,
  );
  const filter = filters(['to', 'status', 'type', 'template', 'reference'], () => rows.load(signal));
  const range = period(() => rows.load(signal));
  const used = () => filter.used || range.used;
  rows.held = scrolled;
  const templates = new Resource((s) => get('/v1/messaging/templates', { limit: 100 }, s));
  const option = (/** @type {string} */ s) => /** @type {[string, string]} */ ([s, words(s)]);
  return {
    title: 'Messages',
    async open(_, s) {
      signal = s;
      await Promise.all([rows.load(s), can('templates:read') ? templates.load(s) : null]);
    },
    onEvent(event) {
      if (!event.type.startsWith('message.') || event.type === 'message.received') return;
      const known = !used() && rows.change(event.data.message_id, { status: event.data.status, error: event.data.error ?? null });
      if (!known) rows.refetch();
    },
    resync: () => rows.load(signal),
    actions: () => downloadLink({ path: rows.path, query: rows.query, name: 'messages.csv' }),
    view: () => html`
      <div class="toolbar">${personSearch(filter, 'to', { ids: true })}
        ${choice(t('Status'), filter.values.status, [['', t('All')], ...STATUSES.map(option)], (v) => filter.set('status', v))}
        ${choice(t('Type'), filter.values.type, [['', t('All')], ...KINDS.map(option)], (v) => filter.set('type', v))}
        ${choice(t('Template'), filter.values.template, [['', t('All')], ...names(templates.data?.data ?? [])], (v) => filter.set('template', v))}
        ${range.view()}</div>
      ${shown(
        rows,
        () =>
          html`${freshRows(rows.fresh, () => rows.load(signal))}${table({
            label: t('Messages'),
            rows: rows.rows,
            key: (m) => m.message_id,
            href: (m) => `/ui/messages/${m.message_id}`,
            columns: [
              { name: t('To'), kind: 'main', cell: (m) => person(m.contact, m.to ?? m.recipient) },
              { name: t('Message'), kind: 'text', cell: snippet },
              { name: t('Status'), kind: 'tight', cell: (m) => badge(m.status) },
              { name: t('Time'), kind: 'when', cell: (m) => time(m.created_at) },
            ],
          })}${moreButton(rows)}`,
        () =>
          used()
            ? empty({
                icon: 'search',
                title: t('No matching messages'),
                text: t('Try different filters.'),
                action: html`${otherSearch(filter, 'to')}<button type="button" onclick=${() => (range.clear(), clearTyped(), filter.clear())}>${t('Clear filters')}</button>`,
              })
            : empty({
                icon: 'message',
                title: t('No messages yet'),
                text: t(
                  'Individual messages sent from the API or the inbox appear here with their delivery status.',
                ),
                call: {
                  method: 'POST',
                  path: '/v1/messaging/send',
                  body: { to: '+15550123456', type: 'template', template: { name: 'welcome', language: 'en' } },
                },
              }),
      )}`,
  };
}

/** Shows the text, or the error of a message that failed. @param {Message} m */
const snippet = (m) =>
  html`<span class="snippet"><span class="one-line" dir="auto">${m.text ?? words(m.type)}</span>${m.template
    ? html`<code>${m.template.name}</code>` : ''}</span>${errorCell(m.error)}`;

/** Returns the names of templates, each once. @param {any[]} templates @returns {[string, string][]} */
const names = (templates) => [...new Set(templates.map((x) => x.name))].map((name) => [name, name]);
