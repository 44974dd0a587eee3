import { context, get, part, patch, remove } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { dateTime, number, time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go } from '../lib/router.js';
import { can, reload } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { bound, sending } from './bound.js';
import { idText } from './code.js';
import { attempt, dialog, notify, overlay } from './dialog.js';
import { shown } from './empty.js';
import { button, checkbox, formError } from './form.js';
import { facts, figure } from './status.js';
import { table } from './table.js';

/** @returns {Record<string, string>} */
const names = () => ({
  otp_per_phone_10m: t('Codes per phone per 10 minutes'),
  otp_per_phone_hour: t('Codes per phone per hour'),
  otp_per_ip_10m: t('Codes per IP address per 10 minutes'),
  otp_per_ip_hour: t('Codes per IP address per hour'),
  otp_per_session_10m: t('Codes per session per 10 minutes'),
  otp_per_session_hour: t('Codes per session per hour'),
  otp_per_workspace_hour: t('Codes per hour'),
  contacts_per_minute: t('New contacts per minute'),
  key_requests_per_hour: t('Requests per key per hour'),
  key_requests_per_minute: t('Requests per key per minute'),
  unauthenticated_per_minute: t('Unauthenticated requests per minute'),
  broadcasts_kept_max: t('Retained broadcasts'),
  bytes_max: t('Bytes on disk'),
});

/** Returns the limits, each with its use. @param {any} w @returns {{name: string, limit: number, used: number | null}[]} */
const limits = (w) =>
  Object.entries(w.limits ?? {}).map(([name, limit]) => ({
    name,
    limit: Number(limit),
    used: { otp_per_workspace_hour: w.usage?.otp_hour, contacts_per_minute: w.usage?.contacts_minute }[name] ?? null,
  }));

export function workspaceTab() {
  const one = new Resource((s) => get('/v1/workspace', {}, s));
  const state = { name: '', busy: false, error: /** @type {any} */ (null) };
  const save = () =>
    sending(state, async () => {
      one.data = await patch('/v1/workspace', { name: state.name.trim() });
      await reload();
      notify(t('Saved'));
    });
  const totp = (/** @type {boolean} */ on) =>
    attempt(async () => {
      one.data = await patch('/v1/workspace', { require_totp: on });
      notify(t('Saved'));
    });
  return {
    /** @param {AbortSignal} signal */
    async open(signal) {
      await one.load(signal);
      state.name = one.data?.name ?? '';
    },
    view: () =>
      shown(
        one,
        () => html`<div class="stack">
      <dl class="figures">${figure(t('Credits'), number(one.data.credits))}
        ${figure(t('Codes this hour'), number(one.data.usage?.otp_hour), one.data.limits?.otp_per_workspace_hour ? t('of {n}',
        { n: one.data.limits.otp_per_workspace_hour }) : '')}
        ${Object.entries(one.data.prices ?? {}).map(([key, n]) => figure(t('Price: {kind}',
          { kind: words(key.replace('template_', '')) }), number(Number(n))))}</dl>
      <div class="columns"><section class="card stack"><h2>${t('Workspace')}</h2>
        ${
          can('settings:write')
            ? html`<form class="stack" onsubmit=${submit(save)}>${bound(state, 'name', { label: t('Name') })}${formError(state.error, ['name'])}
          ${checkbox(t('Require authenticator for everyone'), Boolean(one.data.require_totp), totp)}<div class="row"><button
            ?disabled=${state.busy || !state.name.trim() || state.name === one.data.name}>${t('Save')}</button></div></form>`
            : ''
        }
        ${facts([
          [t('ID'), idText(one.data.id)],
          [t('Created'), time(one.data.created_at, dateTime)],
          [
            t('Code template'),
            one.data.otp_template
              ? html`<code>${one.data.otp_template.name}</code> ${one.data.otp_template.language}`
              : null,
          ],
        ])}</section>
      ${table({
        label: t('Limits'),
        rows: limits(one.data),
        key: (l) => l.name,
        columns: [
          { name: t('Name'), cell: (l) => names()[l.name] ?? words(l.name) },
          { name: t('Used'), kind: 'num', cell: (l) => number(l.used) },
          { name: t('Limit'), kind: 'num', cell: (l) => (l.limit ? number(l.limit) : t('No limit')) },
        ],
      })}</div>${
        can('workspace:delete')
          ? html`<div class="row end">${button(t('Delete workspace'), () => deleteWorkspace(one.data.id), { kind: 'danger' })}</div>`
          : ''
      }</div>`,
      ),
  };
}

/** @param {string} id */
function deleteWorkspace(id) {
  const state = { confirm: '', busy: false, error: /** @type {any} */ (null) };
  const run = () =>
    sending(state, async () => {
      if (state.confirm.trim() !== id) return;
      await remove(`/admin/v1/workspaces/${part(id)}`, { confirm: id });
      close();
      notify(t('{name} was deleted', { name: id }));
      // The next request must not name the deleted workspace.
      context.workspace = '';
      localStorage.removeItem('workspace');
      await reload();
      go('/');
    });
  const close = overlay(() =>
    dialog(
      t('Delete workspace?'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(run)}>
      <p>${t('All contacts, conversations, messages, keys and webhooks are permanently deleted. API keys stop working immediately.')}</p>
      ${bound(state, 'confirm', { label: t('Type {name} to confirm', { name: id }), focus: true, mono: true, dir: 'ltr' })}
      ${formError(state.error, ['confirm'])}
      <div class="row end"><button type="button" onclick=${() => close()}>${t('Keep')}</button>
        <button class="danger" ?disabled=${state.busy || state.confirm.trim() !== id}>${t('Delete workspace')}</button></div></form>`,
      { kind: 'small' },
    ),
  );
}
