import { html, refresh } from '../lib/render.js';
import { t } from '../lib/i18n.js';

/** Above this number of rows only those in sight, and some around them, are in the document. */
const MANY = 60;
const AROUND = 12;
const narrow = matchMedia('(max-width: 44rem)');
let sighted = 0;
addEventListener('scroll', () => Date.now() - sighted < 60_000 && refresh(), { passive: true });

/** Returns the rows in sight. Cards have no common height, so all of them are in the document.
 * @param {string} label of the table @param {number} count */
function sight(label, count) {
  if (count <= MANY || narrow.matches) return { from: 0, to: count, height: 0 };
  sighted = Date.now();
  const body = document.querySelector(`main table[aria-label="${CSS.escape(label)}"] tbody`);
  const height = body?.querySelector('tr:not(.rest)')?.clientHeight || 33;
  const above = Math.floor(-(body?.getBoundingClientRect().top ?? 0) / height) - AROUND;
  const shown = Math.ceil(innerHeight / height) + 2 * AROUND;
  const from = Math.max(0, Math.min(above, count - shown));
  return { from, to: Math.min(count, from + shown), height };
}

/** Takes the place of the rows that are not in the document. @param {string} key @param {number} pixels */
const rest = (key, pixels) =>
  pixels > 0 ? html`<tr key=${key} class="rest" aria-hidden="true"><td style=${{ 'block-size': `${pixels}px` }}></td></tr>` : '';

/**
 * @template T
 * @typedef {{name: string, cell: (row: T) => unknown, kind?: 'num' | 'main' | 'tight' | 'wide' | 'when' | 'text'}} Column
 */

/** Makes a table that is wider than its place scroll, by the keyboard too. */
const sizes = new ResizeObserver((seen) => {
  for (const { target } of seen) {
    const box = target.closest('.table-box');
    if (box && box.scrollWidth > box.clientWidth) box.setAttribute('tabindex', '0');
    else box?.removeAttribute('tabindex');
  }
});
/** @param {Element | null} box @param {Element} [gone] */
const watched = (box, gone) => {
  for (const it of [box, box?.firstElementChild]) if (it) sizes.observe(it);
  for (const it of [gone, gone?.firstElementChild]) if (it) sizes.unobserve(it);
};

/**
 * A table whose rows are links. On a narrow screen a row is a card, so the roles are explicit.
 * @template T
 * @param {{label: string, columns: Column<T>[], rows: T[], key: (row: T) => string, href?: (row: T) => string | null,
 *   selected?: (row: T) => boolean, onpick?: (row: T) => unknown, actions?: (row: T) => unknown, small?: boolean}} table a small one stays a table
 */
export function table({ label, columns, rows, key, href, selected, onpick, actions, small }) {
  /** @param {T} row @param {unknown} content */
  const lead = (row, content) => {
    const to = href?.(row);
    if (to) return html`<a class="row-link" href=${to} aria-current=${selected?.(row) ? 'true' : null}>${content}</a>`;
    return onpick
      ? html`<button type="button" class="row-link" aria-pressed=${Boolean(selected?.(row))} onclick=${() => onpick(row)}>${content}</button>`
      : content;
  };
  const { from, to, height } = sight(label, rows.length);
  return html`<div class="table-box" ref=${watched}><table role="table" aria-label=${label} aria-rowcount=${height ? rows.length + 1 : null}
      class=${small ? 'table' : height ? 'table cards even' : 'table cards'} style=${{ '--columns': columns.length }}>
    <thead role="rowgroup"><tr role="row">${columns.map((c) => html`<th key=${c.name} role="columnheader" scope="col" class=${c.kind ?? null}>${c.name}</th>`)}
      ${actions ? html`<td role="cell"></td>` : ''}</tr></thead>
    <tbody role="rowgroup">${rest('above', from * height)}${rows.slice(from, to).map(
      (row, at) => html`<tr key=${key(row)} role="row" aria-rowindex=${height ? from + at + 2 : null}
        class=${selected?.(row) ? 'selected' : null}>
      ${columns.map((c, i) => html`<td key=${c.name} role="cell" class=${c.kind ?? null} data-label=${c.name}>
        ${i === 0 ? lead(row, c.cell(row)) : c.cell(row)}</td>`)}
      ${actions ? html`<td role="cell" class="row-actions">${actions(row)}</td>` : ''}</tr>`,
    )}${rest('below', (rows.length - to) * height)}</tbody>
  </table></div>`;
}

/** Requests more rows before the end is in sight. @param {{loading: boolean, loadMore: () => unknown}} list */
function near(list) {
  /** @type {IntersectionObserver | null} */
  let watch = null;
  return (/** @type {Element | null} */ node) => {
    watch?.disconnect();
    if (!node) return;
    watch = new IntersectionObserver(
      ([seen]) => seen?.isIntersecting && scrollY > 0 && !list.loading && list.loadMore(),
      { rootMargin: '600px' },
    );
    watch.observe(node);
  };
}

/** @param {{more: boolean, loading: boolean, loadMore: () => unknown, rows: any[], total: number}} list */
export const moreButton = (list) =>
  list.more
    ? html`<div class="row center more" ref=${near(list)}><button type="button" ?disabled=${list.loading} onclick=${() => list.loadMore()}>${t('Show more')}</button>
      ${list.total ? html`<span class="muted">${t('{shown} of {n}', { shown: list.rows.length, n: list.total })}</span>` : ''}</div>`
    : '';
