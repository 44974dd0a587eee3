import { get } from '../lib/api.js';
import { time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { Resource, Rows } from '../lib/store.js';
import { empty, shown } from '../parts/empty.js';
import { choice, filters, search } from '../parts/filter.js';
import { e164, e164Now } from '../parts/form.js';
import { freshRows, scrolled } from '../parts/fresh.js';
import { badge } from '../parts/status.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {import('../lib/types.js').Message} Message */
const KINDS = ['template', 'text'];
const STATUSES = ['queued', 'held', 'sent', 'delivered', 'read', 'failed', 'unknown'];

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {Rows<Message>} */
  const rows = new Rows(
    '/v1/messaging/messages',
    /** @returns {Record<string, unknown>} */ () => ({ ...filter.values, to: e164Now(filter.values.to) }),
    (/** @type {Message} */ m) => m.message_id,
  );
  const filter = filters(['to', 'status', 'type', 'template', 'reference'], () => rows.load(signal));
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
      const known = !filter.used && rows.change(event.data.message_id, { status: event.data.status });
      if (!known) rows.refetch();
    },
    resync: () => rows.load(signal),
    view: () => html`
      <div class="toolbar">${search(t('Phone'), filter.values.to, (v) => e164(v).then(() => filter.set('to', v)))}
        ${choice(t('Status'), filter.values.status, [['', t('All')], ...STATUSES.map(option)], (v) => filter.set('status', v))}
        ${choice(t('Type'), filter.values.type, [['', t('All')], ...KINDS.map(option)], (v) => filter.set('type', v))}
        ${choice(t('Template'), filter.values.template, [['', t('All')], ...names(templates.data?.data ?? [])], (v) => filter.set('template', v))}
        ${search(t('Reference'), filter.values.reference, (v) => filter.set('reference', v))}</div>
      ${shown(
        rows,
        () =>
          html`${freshRows(rows.fresh, () => rows.load(signal))}${table({
            label: t('Messages'),
            rows: rows.rows,
            key: (m) => m.message_id,
            href: (m) => `/ui/messages/${m.message_id}`,
            columns: [
              { name: t('Time'), cell: (m) => time(m.created_at) },
              { name: t('To'), cell: (m) => html`<span dir="ltr">${m.to ?? m.recipient ?? '–'}</span>` },
              { name: t('Type'), cell: (m) => words(m.type) },
              {
                name: t('Template'),
                cell: (m) =>
                  m.template
                    ? html`<code>${m.template.name}</code> <span class="muted">${m.template.language}</span>`
                    : '–',
              },
              { name: t('Status'), cell: (m) => badge(m.status) },
            ],
          })}${moreButton(rows)}`,
        () =>
          filter.used
            ? empty({
                icon: 'search',
                title: t('No matching messages'),
                text: t('Try different filters.'),
                action: html`<button type="button" onclick=${() => filter.clear()}>${t('Clear filters')}</button>`,
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

/** Returns the names of templates, each once. @param {any[]} templates @returns {[string, string][]} */
const names = (templates) => [...new Set(templates.map((x) => x.name))].map((name) => [name, name]);
