import { get, part, post } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { bytes, dateTime, duration, number, time } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { Resource, Rows } from '../lib/store.js';
import { attempt, dialog, notify, overlay } from './dialog.js';
import { empty, shown } from './empty.js';
import { search } from './filter.js';
import { button, errorFor, field, formError } from './form.js';
import { badge, facts, figure, label } from './status.js';
import { moreButton, table } from './table.js';

export function workspacesTab() {
  /** @type {AbortSignal} */
  let signal;
  const all = new Resource((s) => get('/admin/v1/overview', {}, s));
  const add = () => {
    const state = { id: '', name: '', error: /** @type {any} */ (null) };
    const save = async () => {
      try {
        await post('/admin/v1/workspaces', { id: state.id.trim(), name: state.name.trim() });
        close();
        await all.load(signal);
      } catch (error) {
        state.error = error;
      }
    };
    const close = overlay(() =>
      dialog(
        t('New workspace'),
        () => close(),
        html`<form class="stack" onsubmit=${submit(save)}>${field({
          label: t('Id'),
          value: state.id,
          input: (v) => {
            state.id = v;
          },
          required: true,
          focus: true,
          mono: true,
          error: errorFor(state.error, 'id'),
        })}
      ${field({
        label: t('Name'),
        value: state.name,
        input: (v) => {
          state.name = v;
        },
        required: true,
        error: errorFor(state.error, 'name'),
      })}${formError(state.error, ['id', 'name'])}<div class="row end"><button class="primary">${t('Make workspace')}</button></div></form>`,
        { kind: 'small' },
      ),
    );
  };
  /** @param {any} w */
  const credits = (w) => {
    const state = { add: '', error: /** @type {any} */ (null) };
    const save = async () => {
      try {
        await post(`/admin/v1/workspaces/${part(w.workspace)}/credits`, { add: Number(state.add) });
        close();
        await all.load(signal);
      } catch (error) {
        state.error = error;
      }
    };
    const close = overlay(() =>
      dialog(
        t('Credits of {name}', { name: w.workspace }),
        () => close(),
        html`<form class="stack" onsubmit=${submit(save)}>${field({
          label: t('Add'),
          value: state.add,
          input: (v) => {
            state.add = v;
          },
          inputmode: 'numeric',
          focus: true,
          required: true,
          hint: t('There are {n} now', { n: w.credits }),
        })}
      ${formError(state.error)}<div class="row end"><button class="primary">${t('Add credits')}</button></div></form>`,
        { kind: 'small' },
      ),
    );
  };
  const unpark = (/** @type {any} */ w) =>
    attempt(async () => {
      await post(`/admin/v1/workspaces/${part(w.workspace)}/unpark`);
      notify(t('{name} is being started again', { name: w.workspace }));
      await all.load(signal);
    });
  return {
    /** @param {AbortSignal} s */
    open(s) {
      signal = s;
      return all.load(s);
    },
    actions: () => html`<button type="button" onclick=${add}>${icon('plus')}${t('New workspace')}</button>`,
    view: () =>
      shown(all, () =>
        table({
          label: t('Workspaces'),
          rows: all.data.data,
          key: (/** @type {any} */ w) => w.workspace,
          columns: [
            { name: t('Workspace'), cell: (w) => html`<b>${w.workspace}</b>` },
            {
              name: t('State'),
              cell: (w) => html`${badge(w.state)} <span class="muted">${w.parked_reason ?? ''}</span>`,
            },
            { name: t('Credits'), kind: 'num', cell: (w) => number(w.credits) },
            { name: t('Codes, last hour'), kind: 'num', cell: (w) => number(w.otp_last_hour) },
            { name: t('Messages, last hour'), kind: 'num', cell: (w) => number(w.messages_last_hour) },
            {
              name: t('Numbers stopped'),
              kind: 'num',
              cell: (w) => (w.numbers_stopped ? label('bad', 'stop', number(w.numbers_stopped)) : '0'),
            },
            {
              name: t('Webhooks failing'),
              kind: 'num',
              cell: (w) => (w.webhooks_failing ? label('warning', 'warning', number(w.webhooks_failing)) : '0'),
            },
          ],
          actions: (w) =>
            html`${w.state === 'parked' ? button(t('Start again'), () => unpark(w)) : ''}${button(t('Credits'), () => credits(w), { kind: 'quiet' })}`,
        }),
      ),
  };
}

export function numbersTab() {
  /** @type {any[]} */
  let rows = [];
  const all = new Resource(async (s) => {
    const workspaces = await get('/admin/v1/workspaces', { limit: 100 }, s);
    const lists = await Promise.all(
      workspaces.data.map(async (/** @type {any} */ w) =>
        (await get(`/admin/v1/workspaces/${part(w.id)}/numbers`, { limit: 100 }, s)).data.map(
          (/** @type {any} */ n) => ({ ...n, workspace: w.id }),
        ),
      ),
    );
    rows = lists.flat();
    return rows;
  });
  /** @param {any} n @param {string} lane */
  const waits = (n, lane) => number(n.lanes?.[lane]?.waiting);
  return {
    /** @param {AbortSignal} s */
    open: (s) => all.load(s),
    view: () =>
      shown(all, () =>
        rows.length
          ? table({
              label: t('Numbers'),
              rows,
              key: (n) => n.id,
              href: (n) => `/ui/operator/numbers/${part(n.workspace)}/${n.id}`,
              columns: [
                { name: t('Number'), cell: (n) => n.phone ?? n.kind },
                { name: t('Workspace'), cell: (n) => n.workspace },
                {
                  name: t('State'),
                  cell: (n) =>
                    html`${badge(n.state ?? (n.trouble ? 'stopped' : 'open'))} <span class="muted">${n.reason ?? n.trouble ?? ''}</span>`,
                },
                {
                  name: t('Rate'),
                  kind: 'num',
                  cell: (n) => (n.pace?.now ? t('{n} a second', { n: n.pace.now }) : '–'),
                },
                { name: t('Codes'), kind: 'num', cell: (n) => waits(n, 'otp') },
                { name: t('Single'), kind: 'num', cell: (n) => waits(n, 'single') },
                { name: t('Broadcast'), kind: 'num', cell: (n) => waits(n, 'broadcast') },
              ],
            })
          : empty({
              icon: 'phone',
              title: t('No numbers'),
              text: t('Messages leave from a number. Connect one with postrider numbers.'),
            }),
      ),
  };
}

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
            ${figure(t('Storage'), s.storage.state, t('commit p99 {n} ms', { n: s.storage.commit_p99_ms ?? 0 }))}
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
                    ? html`${a.actor.name ?? a.actor.id ?? a.actor.kind} <span class="muted">${a.actor.kind}</span>`
                    : html`<span class="error">${a.damage ?? '–'}</span>`,
              },
              { name: t('Action'), cell: (a) => html`<code>${a.action}</code>` },
              { name: t('Workspace'), cell: (a) => a.workspace ?? '–' },
              { name: t('What'), cell: (a) => html`<code class="wrap">${a.target ?? '–'}</code>` },
              { name: t('Address'), cell: (a) => a.address ?? '–' },
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
