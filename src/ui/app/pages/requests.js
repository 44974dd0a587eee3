import { number, time } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { Rows } from '../lib/store.js';
import { idText } from '../parts/code.js';
import { empty, shown } from '../parts/empty.js';
import { choice } from '../parts/filter.js';
import { button } from '../parts/form.js';
import { badge } from '../parts/status.js';
import { moreButton, table } from '../parts/table.js';
import { icon } from '../lib/icons.js';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  const rows = new Rows(
    '/v1/requests',
    () => ({ status: query('status') }),
    (/** @type {any} */ r) => r.request_id,
  );
  return {
    title: 'Requests',
    open(_, s) {
      signal = s;
      return rows.load(s);
    },
    actions: () => button(t('Refresh'), () => rows.load(signal), { icon: icon('refresh') }),
    view: () => html`<div class="toolbar">${choice(
      t('Status'),
      query('status'),
      [
        ['', t('All')],
        ...['400', '401', '403', '404', '409', '422', '429', '500', '503'].map(
          (s) => /** @type {[string, string]} */ ([s, s]),
        ),
      ],
      (v) => {
        setQuery({ status: v });
        return rows.load(signal);
      },
    )}</div>
      ${shown(
        rows,
        () =>
          html`${table({
            label: t('Requests'),
            rows: rows.rows,
            key: (r) => r.request_id,
            columns: [
              { name: t('Time'), kind: 'tight', cell: (r) => time(r.at) },
              { name: t('Method'), cell: (r) => html`<b class="method">${r.method}</b>` },
              { name: t('Route'), cell: (r) => html`<code>${r.route}</code>` },
              { name: t('Status'), cell: (r) => badge(r.status < 400 ? 'ok' : 'failed', String(r.status)) },
              { name: 'ms', kind: 'num', cell: (r) => number(Math.round(r.ms)) },
              { name: t('Key'), cell: (r) => r.principal?.name ?? '–' },
              { name: t('Request id'), cell: (r) => idText(r.request_id) },
            ],
          })}${moreButton(rows)}`,
        () =>
          empty({
            icon: 'requests',
            title: t('No requests'),
            text: t('The newest thousand calls of the interface are kept in memory, with their answers’ status.'),
            call: { method: 'GET', path: '/v1/me' },
          }),
      )}`,
  };
}
