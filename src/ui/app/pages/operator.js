import { get } from '../lib/api.js';
import { bytes, dateTime, duration, number, time } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go, query } from '../lib/router.js';
import { Resource } from '../lib/store.js';
import { shown } from '../parts/empty.js';
import { auditTab } from '../parts/operator-audit.js';
import { numbersTab } from '../parts/operator-numbers.js';
import { workspacesTab } from '../parts/operator-workspaces.js';
import { badge, facts, figure, label } from '../parts/status.js';
import { table } from '../parts/table.js';

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
  /** Which tab is shown, and of which workspace. */
  let shown = '';
  /** @type {AbortSignal} */
  let signal;
  /** @param {string} wanted */
  const choose = (wanted) => {
    const found = tabs().find(([key]) => key === (wanted || 'workspaces'));
    if (!found) return go('/operator', true);
    // Another row of the same tab. The audit log itself looks for a workspace.
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
          [t('Engine’s clock'), time(s.now, dateTime)],
          [t('Ahead of real time'), s.offset_seconds ? duration(s.offset_seconds) : t('No')],
        ])}</section>
        ${table({
          label: t('Settings in force'),
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
