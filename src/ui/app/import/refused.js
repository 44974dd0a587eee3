import { csvCell, download, on } from '../lib/dom.js';
import { number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { table } from '../parts/table.js';
import { REFUSED } from './map.js';

/** @typedef {import('./rows.js').Refused} Refused */
const SHOWN = 100;

/** The refused rows with their reasons before them; it can be imported after mending.
 * @param {string[]} head @param {Refused[]} refused */
export function refusedCsv(head, refused) {
  const again = REFUSED.every((name, i) => head[i] === name);
  const own = again ? head.slice(REFUSED.length) : head;
  const lines = [[...REFUSED, ...own]];
  for (const r of refused)
    lines.push([String(r.row), r.column, r.value, r.reason, ...(again ? r.cells.slice(REFUSED.length) : r.cells)]);
  return lines.map((cells) => cells.map(csvCell).join(',')).join('\r\n') + '\r\n';
}

/** @param {string} name of the file @param {string[]} head @param {Refused[]} refused */
export const refusedView = (name, head, refused) => html`<section class="section">
  <div class="card-head"><h2>${t('Refused rows')}</h2>
    <a class="button" href="#refused" role="link" download=${`refused-${name}`} onclick=${on((e) => {
      e.preventDefault();
      download(`refused-${name}`, ['\ufeff', refusedCsv(head, refused)], 'text/csv');
    })}>${t('Download refused rows')}</a></div>
  <p class="muted">${t('Mend them in the download and import it; its first four columns are ignored.')}</p>
  ${table({
    label: t('Refused rows'),
    rows: refused.slice(0, SHOWN),
    key: (r) => String(r.row),
    columns: [
      { name: t('Row'), kind: 'num', cell: (r) => number(r.row) },
      { name: t('Column'), cell: (r) => r.column || '–' },
      { name: t('Value'), cell: (r) => html`<span dir="auto">${r.value || '–'}</span>` },
      { name: t('Reason'), cell: (r) => r.reason },
    ],
  })}
  ${refused.length > SHOWN ? html`<p class="hint foot">${t('The first {n} are shown; the download has all.', { n: SHOWN })}</p>` : ''}</section>`;
