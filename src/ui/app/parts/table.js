import { html } from '../lib/render.js';
import { t } from '../lib/i18n.js';

/**
 * @template T
 * @typedef {{name: string, cell: (row: T) => unknown, kind?: 'num' | 'main' | 'tight' | 'wide'}} Column
 */

/**
 * A table whose rows are links. On a narrow screen a row is a card, so the roles are said.
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
  return html`<div class="table-box"><table role="table" aria-label=${label} class=${small ? 'table' : 'table cards'}>
    <thead role="rowgroup"><tr role="row">${columns.map((c) => html`<th key=${c.name} role="columnheader" scope="col" class=${c.kind ?? null}>${c.name}</th>`)}
      ${actions ? html`<td role="cell"></td>` : ''}</tr></thead>
    <tbody role="rowgroup">${rows.map(
      (row) => html`<tr key=${key(row)} role="row" class=${selected?.(row) ? 'selected' : null}>
      ${columns.map((c, i) => html`<td key=${c.name} role="cell" class=${c.kind ?? null} data-label=${c.name}>
        ${i === 0 ? lead(row, c.cell(row)) : c.cell(row)}</td>`)}
      ${actions ? html`<td role="cell" class="row-actions">${actions(row)}</td>` : ''}</tr>`,
    )}</tbody>
  </table></div>`;
}

/** @param {{more: boolean, loading: boolean, loadMore: () => unknown, rows: any[], total: number}} list */
export const moreButton = (list) =>
  list.more
    ? html`<div class="row center more"><button type="button" ?disabled=${list.loading} onclick=${() => list.loadMore()}>${t('Show more')}</button>
      ${list.total ? html`<span class="muted">${t('{shown} of {n}', { shown: list.rows.length, n: list.total })}</span>` : ''}</div>`
    : '';
