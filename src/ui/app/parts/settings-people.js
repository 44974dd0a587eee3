import { part, patch, post, remove } from '../lib/api.js';
import { submit, typed } from '../lib/dom.js';
import { ago, dateTime, time, words } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { adminPath, can, session } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { beside } from './beside.js';
import { copyButton, idText } from './code.js';
import { ask, attempt, dialog, notify, overlay } from './dialog.js';
import { shown } from './empty.js';
import { button, errorFor, field, formError, select } from './form.js';
import { label } from './status.js';
import { moreButton, table } from './table.js';

const ROLES = ['owner', 'admin', 'marketer', 'agent', 'analyst', 'developer'];
/** @returns {[string, string][]} */
const roles = () =>
  ROLES.filter((r) => r !== 'owner' || can('owners:manage')).map((r) => [r, t(r.charAt(0).toUpperCase() + r.slice(1))]);

export function people() {
  /** @type {AbortSignal} */
  let signal;
  const members = new Rows(
    adminPath('/members'),
    () => ({}),
    (/** @type {any} */ m) => m.user_id,
  );
  const invites = new Rows(
    adminPath('/invites'),
    () => ({}),
    (/** @type {any} */ i) => i.id,
  );
  /** @param {any} m @param {string} role @param {boolean} [back] it is put back */
  const change = (m, role, back) =>
    attempt(async () => {
      const row = await patch(adminPath(`/members/${part(m.user_id)}`), { role });
      members.change(m.user_id, row);
      const undo = back ? {} : { undo: () => change(m, m.role, true) };
      notify(t('Role updated for {name}', { name: m.name || m.email }), undo);
    });
  /** @param {any} m */
  const drop = (m) =>
    ask({
      title: t('Remove {name}?', { name: m.name || m.email }),
      text: t('Their sessions lose access to this workspace immediately.'),
      action: t('Remove'),
      run: () =>
        attempt(async () => {
          await remove(adminPath(`/members/${part(m.user_id)}`));
          members.drop(m.user_id);
        }),
    });
  const invite = () => {
    const state = {
      email: '',
      role: 'agent',
      busy: false,
      error: /** @type {any} */ (null),
      made: /** @type {any} */ (null),
    };
    const create = async () => {
      state.busy = true;
      state.error = null;
      try {
        state.made = await post(adminPath('/invites'), { email: state.email.trim(), role: state.role });
        invites.load(signal);
      } catch (error) {
        state.error = error;
      }
      state.busy = false;
    };
    const close = overlay(() =>
      dialog(
        t('Invite'),
        () => close(),
        state.made
          ? html`<div class="stack">
            ${field({ label: t('Invite link'), value: state.made.url, readonly: true, mono: true, dir: 'ltr',
              hint: t('Send this link to {email}. It works once and expires after 72 hours.', { email: state.made.email }) })}
        <div class="row end">${copyButton(state.made.url, t('Copy link'))}<button type="button" class="primary"
          onclick=${() => close()}>${t('Done')}</button></div></div>`
          : html`<form class="stack" onsubmit=${submit(create)}>${field({
              label: t('E-mail'),
              type: 'email',
              value: state.email,
              input: (v) => {
                state.email = v;
              },
              required: true,
              focus: true,
              dir: 'ltr',
              error: errorFor(state.error, 'email'),
            })}
        ${select({
          label: t('Role'),
          value: state.role,
          options: roles(),
          change: (v) => {
            state.role = v;
          },
        })}${formError(state.error, ['email'])}
        <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button><button class="primary"
          ?disabled=${state.busy}>${t('Create invite')}</button></div></form>`,
        { kind: 'small' },
      ),
    );
  };
  /** @param {any} m @returns {[string, unknown][]} */
  const known = (m) => [
    [t('E-mail'), m.email],
    [t('Role'), words(m.role)],
    [t('Authenticator'), m.totp ? t('On') : t('Off')],
    [t('Last seen'), time(m.seen_at, dateTime)],
    [t('ID'), idText(m.user_id)],
  ];
  return {
    /** @param {AbortSignal} s */
    open(s) {
      signal = s;
      return Promise.all([members.load(s), invites.load(s)]);
    },
    view: () => html`<div class="row end tab-actions"><button type="button" class="primary" onclick=${invite}>${icon('plus')}${t('Invite')}</button></div>
      ${shown(
        members,
        () =>
          beside({ label: t('Member'), rows: members.rows, key: members.id, facts: known,
            title: (m) => html`<span dir="auto">${m.name || m.email}</span>` }, (chosen) => html`${table({
            label: t('Members'),
            rows: members.rows,
            key: members.id,
            ...chosen,
            columns: [
              { name: t('Name'), cell: (m) => html`<span dir="auto">${m.name || '–'}</span>` },
              { name: t('E-mail'), cell: (m) => m.email },
              {
                name: t('Role'),
                cell: (m) =>
                  html`<select aria-label=${t('Role of {name}', { name: m.name || m.email })} .value=${m.role}
                    ?disabled=${m.user_id === session.me?.principal.id} onchange=${typed((v) => change(m, v))}>
                    ${(roles().some(([r]) => r === m.role) ? roles()
                      : [[m.role, m.role], ...roles()]).map(([v, text]) => html`<option key=${v} value=${v}>${text}</option>`)}</select>`,
              },
              {
                name: t('Authenticator'),
                cell: (m) => (m.totp ? label('good', 'check', t('On')) : label('neutral', 'dot', t('Off'))),
              },
              { name: t('Last seen'), cell: (m) => time(m.seen_at, ago) },
            ],
            actions: (m) =>
              button(t('Remove'), () => drop(m), { kind: 'quiet', disabled: m.user_id === session.me?.principal.id }),
          })}${moreButton(members)}`),
      )}
      ${
        invites.rows.length
          ? html`<section class="section"><h2>${t('Invites')}</h2>${table({
              label: t('Invites'),
              rows: invites.rows,
              key: (i) => i.id,
              columns: [
                { name: t('E-mail'), cell: (i) => i.email },
                { name: t('Role'), cell: (i) => words(i.role) },
                { name: t('Expires'), cell: (i) => time(i.expires_at, dateTime) },
              ],
              actions: (i) =>
                button(t('Revoke invite'), () =>
                  attempt(async () => {
                    await remove(adminPath(`/invites/${part(i.id)}`));
                    invites.drop(i.id);
                  }),
                ),
            })}</section>`
          : ''
      }`,
  };
}
