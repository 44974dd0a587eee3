/** The dialogs "New key" and "Edit key". */
import { part, patch, post } from '../lib/api.js';
import { submit, ticked } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { adminPath, can } from '../lib/session.js';
import { bound, parseLocal, sending, typedTime } from './bound.js';
import { dialog, overlay } from './dialog.js';
import { onceShown } from './endpoint.js';
import { formError } from './form.js';

/** @typedef {import('../lib/types.js').Key} Key */

/** What a scope lets a program do, and the permission without which nobody gives it. @returns {[string, string, string][]} */
const allScopes = () => [
  ['messaging:send', 'messages:send', t('send codes, messages and broadcasts, and read what became of them')],
  ['contacts:read', 'contacts:read', t('read contacts, segments and conversations')],
  ['contacts:write', 'contacts:write', t('make and change contacts and segments')],
  ['webhooks:manage', 'webhooks:manage', t('read events, manage webhooks')],
  ['analytics:read', 'analytics:read', t('read statistics')],
];

const scopes = () => allScopes().filter(([, needs]) => can(needs));

/** @param {Key | null} key none: a new one @param {(key: Key) => unknown} after */
export function keyDialog(key, after) {
  const own = /** @type {any} */ (key?.limits ?? {}).key_requests_per_hour;
  const state = {
    name: key?.name ?? '',
    chosen: new Set(scopes().slice(0, 1).map(([scope]) => scope)),
    ends: typedTime(key?.expires_at),
    hourly: own === undefined || own === null ? '' : String(own),
    subnets: '',
    key: '',
    busy: false,
    error: /** @type {any} */ (null),
  };
  const ends = () => (state.ends.trim() ? (parseLocal(state.ends)?.toISOString() ?? state.ends.trim()) : null);
  const limits = () => {
    const { key_requests_per_hour: _, ...others } = /** @type {any} */ (key?.limits ?? {});
    return state.hourly.trim() ? { ...others, key_requests_per_hour: Number(state.hourly) } : others;
  };
  const create = async () => {
    const subnets = state.subnets.split(/[\s,]+/).filter(Boolean);
    const made = await post(adminPath('/keys'), {
      name: state.name.trim(),
      scopes: [...state.chosen],
      limits: limits(),
      ...(ends() ? { expires_at: ends() } : {}),
      ...(subnets.length ? { allowed_subnets: subnets } : {}),
    });
    state.key = made.key;
    after(made);
  };
  const change = async () => {
    // An end that is past is not one that can be set.
    const end = state.ends === typedTime(key?.expires_at) ? {} : { expires_at: ends() };
    const body = { name: state.name.trim(), limits: limits(), ...end };
    after(await patch(adminPath(`/keys/${part(key?.id ?? '')}`), body));
    close();
  };
  const title = key ? t('Edit key') : t('New key');
  const form = () => html`<form class="stack" onsubmit=${submit(() => sending(state, key ? change : create))}>
    ${bound(state, 'name', { label: t('Name'), required: true, focus: true, hint: t('Such as the program that uses it') })}
    ${
      key
        ? ''
        : html`<fieldset class="field"><legend class="label">${t('Scopes')}</legend>${scopes().map(
            ([scope, , text]) => html`<label key=${scope} class="check">
      <input type="checkbox" .checked=${state.chosen.has(scope)} onchange=${ticked((on) => (on ? state.chosen.add(scope) : state.chosen.delete(scope)))}>
      <span><code>${scope}</code> <span class="hint">${text}</span></span></label>`,
          )}</fieldset>`
    }
    <div class="columns tight">${bound(state, 'ends', { label: t('Expires'), placeholder: '2030-01-31 09:30', dir: 'ltr', hint: t('Empty: never') })}
      ${bound(state, 'hourly', { label: t('Requests in an hour'), inputmode: 'numeric', hint: t('Empty: as the workspace') })}</div>
    ${key ? '' : bound(state, 'subnets', { label: t('Addresses'), placeholder: '192.0.2.7, 10.1.0.0/16', dir: 'ltr', hint: t('From which it may be used. Empty: any') })}
    ${formError(state.error, ['name'])}
    <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button>
      <button class="primary" ?disabled=${state.busy || (!key && !state.chosen.size)}>${key ? t('Save') : t('Create key')}</button></div></form>`;
  const close = overlay(() =>
    dialog(title, () => close(), state.key ? onceShown(t('API key'), state.key, t('Copy key'), () => close()) : form()),
  );
}
