import { part, remove } from '../lib/api.js';
import { ago, dateTime, number, now, time, words } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { list, t, tv } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { adminPath } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { beside } from '../parts/beside.js';
import { idText } from '../parts/code.js';
import { ask, attempt, notify } from '../parts/dialog.js';
import { empty, shown } from '../parts/empty.js';
import { button } from '../parts/form.js';
import { keyDialog } from '../parts/key-form.js';
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
      <p>${key.last_used_at ? tv('It was last used {time}.', { time: time(key.last_used_at, dateTime) })
        : t('It has not been used.')} ${t('Programs that use it are refused at once.')}</p>`,
      action: t('Revoke key'),
      run: () =>
        attempt(async () => {
          await remove(adminPath(`/keys/${part(key.id)}`));
          notify(t('{name} is revoked', { name: key.name }));
          await load();
        }),
    });
  /** @param {Key} k */
  const ending = (k) =>
    !k.expires_at
      ? ''
      : Date.parse(k.expires_at) <= now()
        ? label('warning', 'clock', t('Expired'))
        : html`<span class="hint"> ${tv('until {time}', { time: time(k.expires_at, dateTime) })}</span>`;

  /** @param {Key} k @returns {[string, unknown][]} */
  const known = (k) => [
    [t('Key'), html`<code>${k.prefix}…</code>`],
    [t('Id'), idText(k.id)],
    [t('Scopes'), list(k.scopes)],
    [t('Requests in an hour'), number(/** @type {any} */ (k.limits ?? {}).key_requests_per_hour)],
    [t('Addresses'), list(k.allowed_subnets ?? [])],
    [t('Expires'), k.expires_at ? time(k.expires_at, dateTime) : t('Never')],
    [t('Last used'), k.last_used_at ? time(k.last_used_at, dateTime) : t('Never')],
    [t('Made'), time(k.created_at, dateTime)],
    [t('By'), k.created_by?.name ?? (k.created_by ? words(k.created_by.kind) : null)],
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
              { name: t('Made'), cell: (k) => html`${time(k.created_at)}${k.created_by ? html` <span class="hint">${k.created_by.name ?? words(k.created_by.kind)}</span>` : ''}` },
            ],
            actions: (k) =>
              html`${button(t('Edit'), () => keyDialog(k, load), { kind: 'quiet' })}${button(t('Revoke'), () => revoke(k), { kind: 'danger' })}`,
          })}${moreButton(rows)}`),
        () =>
          empty({
            icon: 'key',
            title: t('No keys yet'),
            text: t('A program proves who it is with a key. It is shown once, when it is made.'),
            action: html`<button type="button" class="primary" onclick=${add}>${t('New key')}</button>`,
          }),
      ),
  };
}
