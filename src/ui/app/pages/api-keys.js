import { part, post, remove } from '../lib/api.js';
import { submit, ticked } from '../lib/dom.js';
import { ago, dateTime, time } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { adminPath } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { ask, attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { empty, shown } from '../parts/empty.js';
import { onceShown } from '../parts/endpoint.js';
import { button, errorFor, field, formError } from '../parts/form.js';
import { label } from '../parts/status.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {import('../lib/types.js').Key} Key */
/** What a scope lets a program do. @returns {[string, string][]} */
const scopes = () => [
  ['messaging:send', t('send codes, messages and broadcasts, and read what became of them')],
  ['contacts:read', t('read contacts, segments and conversations')],
  ['contacts:write', t('make and change contacts and segments')],
  ['webhooks:manage', t('read events, manage webhooks')],
  ['analytics:read', t('read statistics')],
];

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

  const add = () => {
    const state = {
      name: '',
      chosen: new Set(['messaging:send']),
      busy: false,
      error: /** @type {any} */ (null),
      key: '',
    };
    const create = async () => {
      state.busy = true;
      state.error = null;
      try {
        state.key = (await post(adminPath('/keys'), { name: state.name.trim(), scopes: [...state.chosen] })).key;
        load();
      } catch (error) {
        state.error = error;
      }
      state.busy = false;
    };
    const close = overlay(() =>
      dialog(
        t('New key'),
        () => close(),
        state.key
          ? onceShown(t('API key'), state.key, t('Copy key'), () => close())
          : html`<form class="stack" onsubmit=${submit(create)}>
        ${field({
          label: t('Name'),
          value: state.name,
          input: (v) => {
            state.name = v;
          },
          required: true,
          focus: true,
          error: errorFor(state.error, 'name'),
          hint: t('Such as the program that uses it'),
        })}
        <fieldset class="field"><legend class="label">${t('Scopes')}</legend>${scopes().map(
          ([scope, text]) => html`<label key=${scope} class="check">
          <input type="checkbox" .checked=${state.chosen.has(scope)} onchange=${ticked((on) => (on ? state.chosen.add(scope) : state.chosen.delete(scope)))}>
          <span><code>${scope}</code> <span class="hint">${text}</span></span></label>`,
        )}</fieldset>
        ${formError(state.error, ['name'])}
        <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button>
          <button class="primary" ?disabled=${state.busy || !state.chosen.size}>${t('Create key')}</button></div></form>`,
      ),
    );
  };

  /** @param {Key} key */
  const revoke = (key) =>
    ask({
      title: t('Revoke key?'),
      text: html`<p><b>${key.name}</b> <code>${key.prefix}…</code></p>
      <p>${key.last_used_at ? html`${t('It was last used')} ${time(key.last_used_at, dateTime)}.`
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
    k.expires_at ? html`<span class="hint"> ${t('until')} ${time(k.expires_at, dateTime)}</span>` : '';

  return {
    title: 'API keys',
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
          html`${table({
            label: t('API keys'),
            rows: rows.rows,
            key: (k) => k.id,
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
              { name: t('Made'), cell: (k) => time(k.created_at) },
            ],
            actions: (k) => button(t('Revoke'), () => revoke(k), { kind: 'danger' }),
          })}${moreButton(rows)}`,
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
