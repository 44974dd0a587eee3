import { part, patch, post, remove } from '../lib/api.js';
import { submit, ticked } from '../lib/dom.js';
import { ago, dateTime, now, number, time, words } from '../lib/format.js';
import { list, t, tv } from '../lib/i18n.js';
import { icon } from '../lib/icons.js';
import { html } from '../lib/render.js';
import { adminPath, can } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { beside } from '../parts/beside.js';
import { bound, sending } from '../parts/bound.js';
import { idText } from '../parts/code.js';
import { ask, attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { empty, shown } from '../parts/empty.js';
import { onceShown } from '../parts/endpoint.js';
import { button, errorFor, formError } from '../parts/form.js';
import { Moment } from '../parts/moment.js';
import { label } from '../parts/status.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {import('../lib/types.js').Key} Key */
/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  const rows = new Rows(
    '',
    () => ({}),
    (/** @type {Key} */ k) => k.id,
  );
  const load = () => rows.load(signal);

  const add = () => keyDialog(null, load);

  /** @param {Key} key */
  const revoke = (key) =>
    ask({
      title: t('Revoke key?'),
      text: html`<p><b>${key.name}</b> <code>${key.prefix}…</code></p>
      <p>${key.last_used_at ? tv('Last used: {time}.', { time: time(key.last_used_at, dateTime) })
        : t('This key has never been used.')} ${t('Requests with this key will fail immediately.')}</p>`,
      action: t('Revoke key'),
      run: () =>
        attempt(async () => {
          await remove(adminPath(`/keys/${part(key.id)}`));
          notify(t('{name} was revoked', { name: key.name }));
          await load();
        }),
    });
  /** @param {Key} k */
  const ending = (k) =>
    !k.expires_at
      ? ''
      : Date.parse(k.expires_at) <= now()
        ? label('warning', 'clock', t('Expired'))
        : html`<span class="hint"> ${tv('expires {time}', { time: time(k.expires_at, dateTime) })}</span>`;

  /** @param {Key} k @returns {[string, unknown][]} */
  const known = (k) => [
    [t('Key'), html`<code>${k.prefix}…</code>`],
    [t('ID'), idText(k.id)],
    [t('Scopes'), list(k.scopes)],
    [t('Requests per hour'), number(/** @type {any} */ (k.limits ?? {}).key_requests_per_hour)],
    [t('Allowed IPs'), list(k.allowed_subnets ?? [])],
    [t('Expires'), k.expires_at ? time(k.expires_at, dateTime) : t('Never')],
    [t('Last used'), k.last_used_at ? time(k.last_used_at, dateTime) : t('Never')],
    [t('Created'), time(k.created_at, dateTime)],
    [t('By'), k.created_by.name ?? words(k.created_by.kind)],
  ];

  return {
    title: 'API keys',
    changed: () => {},
    open(_, s) {
      signal = s;
      rows.path = adminPath('/keys');
      return load();
    },
    actions: () => html`<button type="button" class="primary" onclick=${add}>${icon('plus')}${t('New key')}</button>`,
    view: () =>
      shown(
        rows,
        () =>
          beside({ label: t('API key'), rows: rows.rows, key: rows.id, facts: known, title: (k) => k.name }, (chosen) => html`${table({
            label: t('API keys'),
            rows: rows.rows,
            key: rows.id,
            ...chosen,
            columns: [
              { name: t('Name'), kind: 'main', cell: (k) => html`<b>${k.name}</b>${ending(k)}` },
              { name: t('Key'), kind: 'tight', cell: (k) => html`<code>${k.prefix}…</code>` },
              {
                name: t('Scopes'),
                cell: (k) =>
                  html`<span class="tags">${k.scopes.map((s) => html`<span key=${s} class="tag">${s}</span>`)}</span>`,
              },
              {
                name: t('Last used'),
                cell: (k) => (k.last_used_at ? time(k.last_used_at, ago) : label('neutral', 'clock', t('Never'))),
              },
              { name: t('Created'), cell: (k) => html`${time(k.created_at)} <span class="hint">${k.created_by.name ?? words(k.created_by.kind)}</span>` },
            ],
            actions: (k) =>
              html`${button(t('Edit'), () => keyDialog(k, load), { kind: 'quiet' })}${button(t('Revoke'), () => revoke(k), { kind: 'danger' })}`,
          })}${moreButton(rows)}`),
        () =>
          empty({
            icon: 'key',
            title: t('No keys yet'),
            text: t('Programs authenticate with an API key. The key is shown only once, when you create it.'),
            action: html`<button type="button" class="primary" onclick=${add}>${t('New key')}</button>`,
          }),
      ),
  };
}


/** The scopes, each with the permission to grant it and a text of its rights. @returns {[string, string, string][]} */
const allScopes = () => [
  ['messaging:send', 'messages:send', t('send codes, messages and broadcasts, and read their status')],
  ['contacts:read', 'contacts:read', t('read contacts, segments and conversations')],
  ['contacts:write', 'contacts:write', t('create and edit contacts and segments')],
  ['webhooks:manage', 'webhooks:manage', t('read events and manage webhooks')],
  ['analytics:read', 'analytics:read', t('read analytics')],
];

const scopes = () => allScopes().filter(([, needs]) => can(needs));

/** @param {Key | null} key none: a new one @param {(key: Key) => unknown} after */
function keyDialog(key, after) {
  const own = /** @type {any} */ (key?.limits ?? {}).key_requests_per_hour;
  const before = { name: key?.name ?? '', hourly: String(own ?? '') };
  const state = {
    ...before,
    chosen: new Set(scopes().slice(0, 1).map(([scope]) => scope)),
    subnets: '',
    key: '',
    busy: false,
    error: /** @type {any} */ (null),
  };
  const ends = new Moment(key?.expires_at);
  const limits = () => {
    const { key_requests_per_hour: _, ...others } = /** @type {any} */ (key?.limits ?? {});
    const typed = state.hourly.trim();
    // The server refuses a value that is no number.
    return typed ? { ...others, key_requests_per_hour: /^\d+$/.test(typed) ? Number(typed) : typed } : others;
  };
  const create = async () => {
    const subnets = state.subnets.split(/[\s,]+/).filter(Boolean);
    const made = await post(adminPath('/keys'), {
      name: state.name.trim(),
      scopes: [...state.chosen],
      limits: limits(),
      ...(ends.date ? { expires_at: ends.date.toISOString() } : {}),
      ...(subnets.length ? { allowed_subnets: subnets } : {}),
    });
    state.key = made.key;
    after(made);
  };
  const change = async () => {
    const body = {
      ...(state.name === before.name ? {} : { name: state.name.trim() }),
      ...(state.hourly === before.hourly ? {} : { limits: limits() }),
      // A past end cannot be set.
      ...(ends.isTouched ? { expires_at: ends.date?.toISOString() ?? null } : {}),
    };
    if (Object.keys(body).length) after(await patch(adminPath(`/keys/${part(key?.id ?? '')}`), body));
    close();
  };
  const save = () => (ends.check(true) ? sending(state, key ? change : create) : undefined);
  const title = key ? t('Edit key') : t('New key');
  const form = () => html`<form class="stack" onsubmit=${submit(save)}>
    ${bound(state, 'name', { label: t('Name'), required: true, focus: true, hint: t('Name it after the program that uses it.') })}
    ${
      key
        ? ''
        : html`<fieldset class="field"><legend class="label">${t('Scopes')}</legend>${scopes().map(
            ([scope, , text]) => html`<label key=${scope} class="check">
      <input type="checkbox" .checked=${state.chosen.has(scope)} onchange=${ticked((on) => (on ? state.chosen.add(scope) : state.chosen.delete(scope)))}>
      <span><code>${scope}</code> <span class="hint">${text}</span></span></label>`,
          )}</fieldset>`
    }
    ${ends.view({ label: t('Expires'), hint: t('Empty = never expires'), error: errorFor(state.error, 'expires_at') })}
    <div class="columns tight">${bound(state, 'hourly', { label: t('Requests per hour'), inputmode: 'numeric', hint: t('Empty = workspace limit') }, 'limits.key_requests_per_hour')}
      ${key ? '' : bound(state, 'subnets', { label: t('Allowed IPs'), placeholder: '192.0.2.7, 10.1.0.0/16', dir: 'ltr', hint: t('The key works only from these IP addresses or subnets. Empty = any address.') }, 'allowed_subnets')}</div>
    ${formError(state.error, ['name', 'expires_at', 'limits.key_requests_per_hour', 'allowed_subnets'])}
    <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button>
      <button class="primary" ?disabled=${state.busy || (!key && !state.chosen.size)}>${key ? t('Save') : t('Create key')}</button></div></form>`;
  const close = overlay(() =>
    dialog(title, () => close(), state.key ? onceShown(t('API key'), state.key, t('Copy key'), () => close()) : form()),
  );
}
