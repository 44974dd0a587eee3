import { dateTime, time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { Rows } from '../lib/store.js';
import { beside } from './beside.js';
import { idText } from './code.js';
import { empty, shown } from './empty.js';
import { search } from './filter.js';
import { json } from './json.js';
import { moreButton, table } from './table.js';

/** Letters of changes that a row shows as they are. */
const SHORT = 60;

/** Each shard of a cluster counts its own. @param {import('../lib/types.js').Audit} a */
const key = (a) => `${a.shard ?? ''}.${a.sequence}`;

/** What was set, in a line; what is long opens. @param {import('../lib/types.js').Audit} a */
function changes(a) {
  const all = Object.entries(a.changes ?? {}).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  const text = all.join(', ') || '–';
  return text.length < SHORT
    ? html`<code class="wrap">${text}</code>`
    : html`<details><summary><code class="clip">${text}</code></summary><code class="wrap">${text}</code></details>`;
}

/** @param {import('../lib/types.js').Audit} a @returns {[string, unknown][]} */
const known = (a) => [
  [t('Time'), time(a.at, dateTime)],
  [t('Who'), a.actor ? (a.actor.name ?? a.actor.id) : a.damage],
  [t('Kind'), a.actor ? words(a.actor.kind) : null],
  [t('Workspace'), a.workspace],
  [t('What'), a.target ? html`<code class="wrap">${a.target}</code>` : null],
  [t('Address'), a.address],
  [t('Request id'), a.request_id ? idText(a.request_id) : null],
];

export function auditTab() {
  /** @type {AbortSignal} */
  let signal;
  const rows = new Rows(
    '/admin/v1/audit',
    () => ({ order: 'newest', workspace: query('workspace'), action: query('action') }),
    key,
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
          beside({ label: t('Audit record'), rows: rows.rows, key, facts: known, title: (a) => html`<code>${a.action ?? '–'}</code>`,
            more: (a) => (a.changes ? json(a.changes, t('Changes')) : '') }, (chosen) => html`${table({
            label: t('Audit log'),
            rows: rows.rows,
            key,
            ...chosen,
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
                cell: changes,
              },
            ],
          })}${moreButton(rows)}`),
        () =>
          empty({
            icon: 'operator',
            title: t('Nothing is recorded'),
            text: t('Each change by an administrator is recorded here in the commit of the change.'),
          }),
      )}`,
  };
}
