import { number, time } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t, tv } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { empty, shown } from '../parts/empty.js';
import { outcomeCell } from '../parts/outcomes.js';
import { badge } from '../parts/status.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {import('../lib/types.js').Broadcast} Broadcast */

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  const rows = new Rows(
    '/v1/messaging/broadcasts',
    () => ({}),
    (/** @type {Broadcast} */ b) => b.broadcast_id,
  );
  return {
    title: 'Broadcasts',
    open(_, s) {
      signal = s;
      return rows.load(s);
    },
    onEvent(event) {
      const d = event.data;
      if (event.type === 'broadcast.progress')
        rows.change(d.broadcast_id, { status: d.status, counts: d.counts, total_recipients: d.total_recipients });
      else if (event.type.startsWith('broadcast.')) rows.refetch();
    },
    resync: () => rows.load(signal),
    actions: () =>
      can('broadcasts:write')
        ? html`<a class="button primary" href="/ui/broadcasts/new">${icon('plus')}${t('New broadcast')}</a>`
        : '',
    view: () =>
      shown(
        rows,
        () =>
          html`${table({
            label: t('Broadcasts'),
            rows: rows.rows,
            key: (b) => b.broadcast_id,
            href: (b) => `/ui/broadcasts/${b.broadcast_id}`,
            columns: [
              { name: t('Name'), cell: (b) => html`<span dir="auto">${b.name}</span>` },
              { name: t('Status'), cell: (b) => badge(b.status) },
              { name: t('Recipients'), kind: 'num', cell: (b) => number(b.total_recipients) },
              { name: t('Progress'), cell: outcomeCell },
              {
                name: t('Started'),
                kind: 'when',
                cell: (b) =>
                  b.started_at
                    ? time(b.started_at)
                    : b.schedule_at
                      ? html`<span class="muted">${tv('Scheduled: {time}', { time: time(b.schedule_at) })}</span>`
                      : '–',
              },
            ],
          })}${moreButton(rows)}`,
        () =>
          empty({
            icon: 'broadcast',
            title: t('No broadcasts yet'),
            text: t('A broadcast sends one template to many recipients, now or at a scheduled time.'),
            action: can('broadcasts:write')
              ? html`<a class="button primary" href="/ui/broadcasts/new">${t('New broadcast')}</a>`
              : '',
            call: {
              method: 'POST',
              path: '/v1/messaging/broadcasts',
              body: { name: 'Spring', template_name: 'spring_sale', recipients: ['+15550123456'] },
            },
          }),
      ),
  };
}
