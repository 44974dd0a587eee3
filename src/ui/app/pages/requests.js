import { dateTime, number, time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { Rows } from '../lib/store.js';
import { beside } from '../parts/beside.js';
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
    () => ({ status: query('status'), ...(query('request') ? { limit: 200 } : {}) }),
    (/** @type {any} */ r) => r.request_id,
  );
  const sought = () => `${query('request')} ${query('status')}`;
  let looked = '';
  /** Looks for a request by its id among the newest, which are kept. */
  const look = async () => {
    looked = sought();
    await rows.load(signal);
    const there = () => rows.rows.some((r) => r.request_id === query('request'));
    while (query('request') && !there() && rows.more && !rows.error && !signal?.aborted) await rows.loadMore(signal);
  };
  const some = () => {
    const id = query('request');
    return id ? rows.rows.filter((r) => r.request_id === id) : rows.rows;
  };
  const all = () => {
    setQuery({ request: '' });
    return look();
  };
  /** @param {any} r @returns {[string, unknown][]} */
  const known = (r) => [
    [t('Time'), time(r.at, dateTime)],
    [t('Status'), badge(r.status < 400 ? 'ok' : 'failed', String(r.status))],
    [t('Latency'), t('{n} ms', { n: Math.round(r.ms) })],
    [t('Actor'), r.principal?.name],
    [t('Type'), r.principal ? words(r.principal.kind) : null],
    [t('ID'), r.principal?.id ? idText(r.principal.id) : null],
    [t('Request ID'), idText(r.request_id)],
  ];
  return {
    title: 'Requests',
    wide: true,
    // Another row does not change the list.
    changed: () => (sought() === looked ? undefined : look()),
    open(_, s) {
      signal = s;
      return look();
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
        return look();
      },
    )}</div>
      ${shown(
        rows,
        () =>
          beside({ label: t('Request'), rows: some(), key: rows.id, facts: known,
            title: (r) => html`<b class="method">${r.method}</b> <code class="wrap">${r.route}</code>` }, (chosen) => html`${table({
            label: t('Requests'),
            rows: some(),
            key: rows.id,
            ...chosen,
            columns: [
              { name: t('Route'), cell: (r) => html`<b class="method">${r.method}</b> <code>${r.route}</code>` },
              { name: t('Status'), cell: (r) => badge(r.status < 400 ? 'ok' : 'failed', String(r.status)) },
              { name: 'ms', kind: 'num', cell: (r) => number(Math.round(r.ms)) },
              { name: t('Key'), cell: (r) => html`<span class="clip" title=${r.principal?.name ?? ''}>${r.principal?.name ?? '–'}</span>` },
              { name: t('Time'), kind: 'when', cell: (r) => time(r.at) },
            ],
          })}${
            query('request')
              ? html`<p class="row">${some().length ? '' : t('This request was not found. Only the newest 1,000 are retained.')}${button(t('Show all'), all)}</p>`
              : moreButton(rows)
          }`),
        () =>
          empty({
            icon: 'requests',
            title: t('No requests'),
            text: t('The newest 1,000 API requests are retained in memory, with the status of each response.'),
            call: { method: 'GET', path: '/v1/me' },
          }),
      )}`,
  };
}
