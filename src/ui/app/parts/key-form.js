/** The dialogs "New key" and "Edit key". */
import { part, patch, post } from '../lib/api.js';
import { submit, ticked } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { adminPath, can } from '../lib/session.js';
import { bound, sending } from './bound.js';
import { dialog, overlay } from './dialog.js';
import { onceShown } from './endpoint.js';
import { errorFor, formError } from './form.js';
import { Moment } from './moment.js';

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
    // What is no number is left to the server to refuse.
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
      // An end that is past is not one that can be set.
      ...(ends.isTouched ? { expires_at: ends.date?.toISOString() ?? null } : {}),
    };
    if (Object.keys(body).length) after(await patch(adminPath(`/keys/${part(key?.id ?? '')}`), body));
    close();
  };
  const save = () => (ends.check(true) ? sending(state, key ? change : create) : undefined);
  const title = key ? t('Edit key') : t('New key');
  const form = () => html`<form class="stack" onsubmit=${submit(save)}>
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
    ${ends.view({ label: t('Expires'), hint: t('Empty: never'), error: errorFor(state.error, 'expires_at') })}
    <div class="columns tight">${bound(state, 'hourly', { label: t('Requests in an hour'), inputmode: 'numeric', hint: t('Empty: as the workspace') }, 'limits.key_requests_per_hour')}
      ${key ? '' : bound(state, 'subnets', { label: t('Addresses'), placeholder: '192.0.2.7, 10.1.0.0/16', dir: 'ltr', hint: t('From which it may be used. Empty: any') }, 'allowed_subnets')}</div>
    ${formError(state.error, ['name', 'expires_at', 'limits.key_requests_per_hour', 'allowed_subnets'])}
    <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button>
      <button class="primary" ?disabled=${state.busy || (!key && !state.chosen.size)}>${key ? t('Save') : t('Create key')}</button></div></form>`;
  const close = overlay(() =>
    dialog(title, () => close(), state.key ? onceShown(t('API key'), state.key, t('Copy key'), () => close()) : form()),
  );
}
