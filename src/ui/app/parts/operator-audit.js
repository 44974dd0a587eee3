import { time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { Rows } from '../lib/store.js';
import { empty, shown } from './empty.js';
import { search } from './filter.js';
import { moreButton, table } from './table.js';

export function auditTab() {
  /** @type {AbortSignal} */
  let signal;
  const rows = new Rows(
    '/admin/v1/audit',
    () => ({ order: 'newest', workspace: query('workspace'), action: query('action') }),
    (/** @type {import('../lib/types.js').Audit} */ a) => String(a.sequence),
  );
  /** @param {Record<string, string>} values */
  const set = (values) => {
    setQuery(values);
    return rows.load(signal);
  };
  return {
    /** @param {AbortSignal} s */
    open(s) {
      signal = s;
      return rows.load(s);
    },
    view: () => html`<div class="toolbar">${search(t('Workspace'), query('workspace'),
      (v) => set({ workspace: v }))}${search(t('Action'), query('action'), (v) => set({ action: v }), 'key.create')}</div>
      ${shown(
        rows,
        () =>
          html`${table({
            label: t('Audit log'),
            rows: rows.rows,
            key: (a) => String(a.sequence),
            columns: [
              { name: t('Time'), kind: 'tight', cell: (a) => time(a.at) },
              {
                name: t('Who'),
                cell: (a) =>
                  a.actor
                    ? html`<span class="nowrap-text">${a.actor.name ?? a.actor.id ?? ''} <span class="muted">${words(a.actor.kind)}</span></span>`
                    : html`<span class="error">${a.damage ?? '–'}</span>`,
              },
              { name: t('Action'), kind: 'tight', cell: (a) => html`<code>${a.action}</code>` },
              { name: t('Workspace'), cell: (a) => a.workspace ?? '–' },
              { name: t('What'), cell: (a) => html`<code class="clip" title=${a.target ?? ''}>${a.target ?? '–'}</code>` },
              { name: t('Address'), kind: 'tight', cell: (a) => a.address ?? '–' },
              {
                name: t('Changes'),
                cell: (a) =>
                  html`<code class="wrap">${Object.keys(a.changes ?? {}).length ? JSON.stringify(a.changes) : '–'}</code>`,
              },
            ],
          })}${moreButton(rows)}`,
        () =>
          empty({
            icon: 'operator',
            title: t('Nothing is recorded'),
            text: t('Each change by an administrator is recorded here in the commit of the change.'),
          }),
      )}`,
  };
}
