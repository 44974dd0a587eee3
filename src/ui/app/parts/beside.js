/** The row of a list that the address names, with all its facts, beside the list. */
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { query } from '../lib/router.js';
import { facts } from './status.js';

/** Returns the address of the list with a chosen row. @param {string} id none closes it */
export function rowHref(id) {
  const search = new URLSearchParams(location.search);
  id ? search.set('row', id) : search.delete('row');
  return `${location.pathname}${search.size ? `?${search}` : ''}`;
}

/**
 * @template T
 * @param {{label: string, rows: T[], key: (row: T) => string, title: (row: T) => unknown, facts: (row: T) => [string, unknown][],
 *   more?: (row: T) => unknown}} of what stands beside the list, which is given `href` and `selected`
 * @param {(chosen: {href: (row: T) => string, selected: (row: T) => boolean}) => unknown} list
 */
export function beside(of, list) {
  const id = query('row');
  const row = of.rows.find((it) => of.key(it) === id);
  const chosen = list({ href: (it) => rowHref(of.key(it)), selected: (it) => it === row });
  return html`<div class=${row ? 'with-side' : ''}><div>${chosen}</div>${
    row
      ? html`<aside class="side card" aria-label=${of.label}><div class="card-head"><h2>${of.title(row)}</h2><a class="button quiet icon-only"
          aria-label=${t('Close')} href=${rowHref('')}>${icon('close')}</a></div>${facts(of.facts(row))}${of.more?.(row) ?? ''}</aside>`
      : ''
  }</div>`;
}
