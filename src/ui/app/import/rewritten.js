import { number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { table } from '../parts/table.js';

/** Phones that are sent in another form than the file has. @param {import('./rows.js').Rewritten[]} rows @param {number} count of them all */
export const rewrittenView = (rows, count) => html`<section class="section"><h2>${t('Phones in another form')}</h2>
  ${table({
    label: t('Phones in another form'),
    rows,
    key: (r) => String(r.row),
    columns: [
      { name: t('Row'), kind: 'num', cell: (r) => number(r.row) },
      { name: t('In the file'), cell: (r) => html`<bdi dir="ltr">${r.written}</bdi>` },
      { name: t('Sent as'), cell: (r) => html`<bdi dir="ltr">${r.sent}</bdi>` },
    ],
  })}
  ${count > rows.length ? html`<p class="hint foot">${t('{shown} of {n}', { shown: rows.length, n: count })}</p>` : ''}</section>`;
