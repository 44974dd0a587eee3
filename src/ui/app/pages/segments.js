import { time } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go } from '../lib/router.js';
import { can } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { empty, shown } from '../parts/empty.js';
import { describe, segmentDialog } from '../parts/segment-form.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {import('../lib/types.js').Segment} Segment */

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  const rows = new Rows(
    '/v1/segments',
    () => ({}),
    (/** @type {Segment} */ s) => s.id,
  );
  const add = () => segmentDialog({ after: (s) => go(`/segments/${s.id}`) });
  return {
    title: 'Segments',
    open(_, s) {
      signal = s;
      return rows.load(s);
    },
    resync: () => rows.load(signal),
    actions: () =>
      can('contacts:write')
        ? html`<button type="button" class="primary" onclick=${add}>${icon('plus')}${t('New segment')}</button>`
        : '',
    view: () =>
      shown(
        rows,
        () =>
          html`${table({
            label: t('Segments'),
            rows: rows.rows,
            key: (s) => s.id,
            href: (s) => `/ui/segments/${s.id}`,
            columns: [
              { name: t('Name'), cell: (s) => s.name },
              { name: t('Filter'), cell: (s) => html`<span class="muted">${describe(s.filter)}</span>` },
              { name: t('Created'), kind: 'when', cell: (s) => time(s.created_at) },
            ],
          })}${moreButton(rows)}`,
        () =>
          empty({
            icon: 'segments',
            title: t('No segments yet'),
            text: t('A segment is a saved contact filter. A broadcast goes to the contacts that match when it starts.'),
            action: can('contacts:write')
              ? html`<button type="button" class="primary" onclick=${add}>${t('New segment')}</button>`
              : '',
            call: { method: 'POST', path: '/v1/segments', body: { name: 'VIPs', filter: { tags_any: ['vip'] } } },
          }),
      ),
  };
}
