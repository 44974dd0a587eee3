import { get } from '../lib/api.js';
import { bytes, dateTime, duration, number, time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go, query, setQuery } from '../lib/router.js';
import { Resource, Rows } from '../lib/store.js';
import { beside } from '../parts/beside.js';
import { idText } from '../parts/code.js';
import { empty, shown } from '../parts/empty.js';
import { search } from '../parts/filter.js';
import { json } from '../parts/json.js';
import { numbersTab } from '../parts/operator-numbers.js';
import { workspacesTab } from '../parts/operator-workspaces.js';
import { badge, facts, figure, label } from '../parts/status.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {{open: (signal: AbortSignal) => unknown, view: () => unknown, actions?: () => unknown, onEvent?: (event: any) => unknown}} Tab */

/** @returns {[string, string, () => Tab][]} */
const tabs = () => [
  ['workspaces', t('Workspaces'), workspacesTab],
  ['numbers', t('Numbers'), numbersTab],
  ['system', t('System'), systemTab],
  ['audit', t('Audit log'), auditTab],
];

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let name = 'workspaces';
  /** @type {Tab | null} */
  let tab = null;
  /** The tab that is shown, and its workspace. */
  let shown = '';
  /** @type {AbortSignal} */
  let signal;
  /** @param {string} wanted */
  const choose = (wanted) => {
    const found = tabs().find(([key]) => key === (wanted || 'workspaces'));
    if (!found) return go('/operator', true);
    // This is another row of the same tab. The audit log itself filters by workspace.
    const here = found[0] === 'audit' ? 'audit' : `${found[0]} ${query('workspace')}`;
    if (here === shown) return undefined;
    shown = here;
    name = found[0];
    tab = found[2]();
    return tab.open(signal);
  };
  return {
    title: 'Operator',
    wide: true,
    open(params, s) {
      signal = s;
      return choose(params['tab'] ?? '');
    },
    changed: (params) => choose(params['tab'] ?? ''),
    onEvent: (event) => (/^number\./.test(event.type) ? tab?.onEvent?.(event) : undefined),
    actions: () => tab?.actions?.(),
    view: () =>
      html`<nav class="tabs" aria-label=${t('Operator')}>${tabs().map(([key, title]) => html`<a key=${key}
        href=${`/ui/operator${key === 'workspaces' ? '' : `/${key}`}`} aria-current=${key === name ? 'page' : null}>${title}</a>`)}</nav>${tab?.view()}`,
  };
}

function systemTab() {
  const all = new Resource((s) => get('/admin/v1/system', {}, s));
  return {
    /** @param {AbortSignal} s */
    open: (s) => all.load(s),
    view: () =>
      shown(all, () => {
        const s = all.data;
        return html`<div class="stack"><dl class="figures">
          ${figure(t('Ready'), s.ready ? label('good', 'check', t('Yes')) : label('bad', 'stop', t('No')))}
            ${figure(t('Storage'), badge(s.storage.state), t('commit p99 {n} ms', { n: number(s.storage.commit_p99_ms) }))}
        ${figure(t('Data'), bytes(s.storage.data_bytes))}${figure(t('Disk free'), bytes(s.storage.disk_free_bytes))}
          ${figure(t('Last snapshot'), s.snapshots.last_at ? time(s.snapshots.last_at) : '–', bytes(s.snapshots.bytes))}
        ${figure(t('Workspaces'), number(s.workspaces.live), t('{n} parked', { n: s.workspaces.parked }))}</dl>
        <section class="card">${facts([
          [t('Version'), s.version],
          [t('Started'), time(s.started_at, dateTime)],
          [t('Engine clock'), time(s.now, dateTime)],
          [t('Ahead of real time'), s.offset_seconds ? duration(s.offset_seconds) : t('No')],
        ])}</section>
        ${table({
          label: t('Effective settings'),
          rows: Object.entries(s.settings ?? {}),
          key: ([k]) => k,
          columns: [
            { name: t('Setting'), cell: ([k]) => html`<code>${k}</code>` },
            {
              name: t('Value'),
              cell: ([, v]) => html`<code class="wrap">${typeof v === 'string' ? v : JSON.stringify(v)}</code>`,
            },
          ],
        })}</div>`;
      }),
  };
}

/** The maximum length of a change that a row shows whole. */
const SHORT = 60;

/** The key of a record: each shard of a cluster has its own sequence. @param {import('../lib/types.js').Audit} a */
const key = (a) => `${a.shard ?? ''}.${a.sequence}`;

/** Shows the changes in a line; a long one can be opened. @param {import('../lib/types.js').Audit} a */
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
  [t('Actor'), a.actor ? (a.actor.name ?? a.actor.id) : a.damage],
  [t('Type'), a.actor ? words(a.actor.kind) : null],
  [t('Workspace'), a.workspace],
  [t('Target'), a.target ? html`<code class="wrap">${a.target}</code>` : null],
  [t('Address'), a.address],
  [t('Request ID'), a.request_id ? idText(a.request_id) : null],
];

function auditTab() {
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
              {
                name: t('Actor'),
                cell: (a) =>
                  a.actor
                    ? html`<span class="nowrap-text">${a.actor.name ?? a.actor.id ?? ''} <span class="muted">${words(a.actor.kind)}</span></span>`
                    : html`<span class="error">${a.damage ?? '–'}</span>`,
              },
              { name: t('Action'), kind: 'tight', cell: (a) => html`<code>${a.action}</code>` },
              { name: t('Workspace'), cell: (a) => a.workspace ?? '–' },
              { name: t('Target'), cell: (a) => html`<code class="clip" title=${a.target ?? ''}>${a.target ?? '–'}</code>` },
              { name: t('Address'), kind: 'tight', cell: (a) => a.address ?? '–' },
              { name: t('Changes'), cell: changes },
              { name: t('Time'), kind: 'when', cell: (a) => time(a.at) },
            ],
          })}${moreButton(rows)}`),
        () =>
          empty({
            icon: 'operator',
            title: t('No audit records'),
            text: t('Every administrative change is recorded here, in the same commit as the change itself.'),
          }),
      )}`,
  };
}
