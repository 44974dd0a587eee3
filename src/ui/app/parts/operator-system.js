import { get } from '../lib/api.js';
import { bytes, dateTime, duration, number, time } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { Resource } from '../lib/store.js';
import { shown } from './empty.js';
import { badge, facts, figure, label } from './status.js';
import { table } from './table.js';

export function systemTab() {
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

