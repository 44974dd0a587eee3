/** Charts: own SVG, each with a table behind it. */
import { number, percent } from './format.js';
import { t } from './i18n.js';
import { html } from './render.js';
import { table } from '../parts/table.js';

/** The number of codes that reached each step. @param {Record<string, number>} totals */
export function funnel(totals) {
  const sent = totals['sent'] ?? 0;
  /** @type {[string, number][]} */
  const steps = [
    [t('Sent'), sent],
    [t('Delivered'), totals['delivered'] ?? 0],
    [t('Verified'), totals['verified'] ?? 0],
    [t('Expired'), totals['expired'] ?? 0],
    [t('Failed'), totals['failed'] ?? 0],
  ];
  return html`<dl class="funnel">${steps.map(
    ([name, n], i) => html`<div key=${name}><dt>${name}</dt>
    <dd><span class="bar" aria-hidden="true"><i class=${i > 2 ? 'bar-bad' : null} style=${{ 'inline-size': `${sent ? (100 * n) / sent : 0}%` }}></i></span>
      <b>${number(n)}</b><span class="muted">${percent(sent ? n / sent : null)}</span></dd></div>`,
  )}</dl>`;
}

const narrow = matchMedia('(max-width: 44rem)');
const HEIGHT = 200;
const PAD = { start: 44, end: 8, top: 12, bottom: 22 };

/** Returns a round number at or above. @param {number} n */
function ceiling(n) {
  if (n <= 4) return 4;
  const unit = 10 ** Math.floor(Math.log10(n));
  return ([1, 2, 4, 6, 8, 10].find((m) => m * unit >= n) ?? 10) * unit;
}

/**
 * Bars for days: the first series is the whole, each next one is drawn over it.
 * @param {{label: string, rows: any[], x: (row: any) => string, series: {name: string, key: string, tone: string}[]}} chart
 */
export function bars({ label, rows, x, series }) {
  // Texts keep their size on a narrow screen.
  const WIDTH = narrow.matches ? 340 : 720;
  const top = ceiling(Math.max(1, ...rows.flatMap((r) => series.map((s) => Number(r[s.key] ?? 0)))));
  const step = (WIDTH - PAD.start - PAD.end) / Math.max(1, rows.length);
  const width = Math.min(26, step * 0.64);
  const y = (/** @type {number} */ n) => HEIGHT - PAD.bottom - (n / top) * (HEIGHT - PAD.top - PAD.bottom);
  const every = Math.ceil(rows.length / (narrow.matches ? 4 : 8));
  return html`<figure class="chart"><svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${label}>
    ${[0, 0.25, 0.5, 0.75, 1].map(
      (
        share,
      ) => html`<g key=${share}><line class="grid" x1=${PAD.start} x2=${WIDTH - PAD.end} y1=${y(top * share)} y2=${y(top * share)}></line>
      ${share === 0 || share === 0.5 || share === 1 ? html`<text x=${PAD.start - 7} y=${y(top * share) + 4} text-anchor="end">
        ${number(Math.round(top * share))}</text>` : ''}</g>`,
    )}
    ${rows.map(
      (row, i) =>
        html`<g key=${x(row)}>${series.map((s, at) => {
          const n = Number(row[s.key] ?? 0);
          const w = width * (1 - at * 0.22);
          return html`<rect key=${s.key} class=${`series ${s.tone}`} rx="2" x=${PAD.start + step * (i + 0.5) - w / 2} width=${w}
            y=${y(n)} height=${Math.max(0, y(0) - y(n))}><title>${`${x(row)} · ${s.name}: ${number(n)}`}</title></rect>`;
        })}${i % every === 0 ? html`<text x=${PAD.start + step * (i + 0.5)} y=${HEIGHT - 6} text-anchor="middle">${x(row)}</text>` : ''}</g>`,
    )}
  </svg><figcaption class="legend">${series.map((s) => html`<span key=${s.key}><i class=${`series ${s.tone}`}></i>${s.name}</span>`)}</figcaption></figure>`;
}

/** The table behind a chart. @param {string} label @param {string} first
 * @param {any[]} rows @param {(row: any) => string} x @param {{name: string, key: string}[]} series */
export const asTable = (label, first, rows, x, series) =>
  table({
    label,
    rows,
    key: x,
    columns: [
      { name: first, cell: x },
      ...series.map((s) => ({
        name: s.name,
        kind: /** @type {'num'} */ ('num'),
        cell: (/** @type {any} */ r) => number(r[s.key]),
      })),
    ],
  });
