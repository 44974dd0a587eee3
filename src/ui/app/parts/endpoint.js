import { part, patch, post } from '../lib/api.js';
import { submit, ticked } from '../lib/dom.js';
import { words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { EVENT_TYPES } from '../lib/live.js';
import { html } from '../lib/render.js';
import { go } from '../lib/router.js';
import { copyButton } from './code.js';
import { dialog, overlay } from './dialog.js';
import { bound, sending } from './bound.js';
import { errorFor, field, formError } from './form.js';

/** Returns the event types by their subject. @returns {[string, string[]][]} */
export function typeGroups() {
  /** @type {Map<string, string[]>} */
  const groups = new Map();
  for (const type of EVENT_TYPES) {
    const group = type.split('.')[0] ?? '';
    groups.set(group, [...(groups.get(group) ?? []), type]);
  }
  return [...groups];
}

/** @param {Set<string>} chosen */
export const typeBoxes = (chosen) =>
  html`<div class="type-boxes">${typeGroups().map(
    ([group, types]) => html`<fieldset key=${group}><legend>${words(group)}</legend>
  ${types.map(
    (type) => html`<label key=${type} class="check"><input type="checkbox" .checked=${chosen.has(type)}
    onchange=${ticked((on) => (on ? chosen.add(type) : chosen.delete(type)))}><span><code>${type}</code></span></label>`,
  )}</fieldset>`,
  )}</div>`;

/** Shows a secret, only this once. @param {string} name @param {string} secret @param {string} copyName @param {() => void} done */
export const onceShown = (name, secret, copyName, done) => html`<div class="stack">
  ${field({ label: name, value: secret, readonly: true, mono: true, hint: t('This value is shown only once. Store it where your program reads its secrets.') })}
  <div class="row end">${copyButton(secret, copyName)}<button type="button" class="primary" onclick=${done}>${t('Done')}</button></div></div>`;

/** Opens the dialog "New endpoint": its address and types, then its secret; or "Edit endpoint".
 * @param {() => unknown} after @param {import('../lib/types.js').Webhook} [old] */
export function endpointDialog(after, old) {
  const state = {
    url: old?.url ?? '',
    chosen: new Set(old?.events ?? []),
    busy: false,
    error: /** @type {any} */ (null),
    made: /** @type {any} */ (null),
  };
  const save = async () => {
    const [url, events] = [state.url.trim(), [...state.chosen]];
    if (!old) state.made = await post('/v1/webhooks', { url, events });
    else {
      const isSame = events.length === old.events.length && events.every((type) => old.events.includes(type));
      const body = { ...(state.url === old.url ? {} : { url }), ...(isSame ? {} : { events }) };
      if (Object.keys(body).length) await patch(`/v1/webhooks/${part(old.id)}`, body);
      close();
    }
    await after();
  };
  const close = overlay(() =>
    dialog(
      old ? t('Edit endpoint') : t('New endpoint'),
      () => close(),
      state.made
        ? onceShown(t('Signing secret'), state.made.secret, t('Copy'), () => {
            close();
            go(`/webhooks/${state.made.id}`);
          })
        : html`<form class="stack" onsubmit=${submit(() => sending(state, save))}>
      ${bound(state, 'url', { label: t('Address'), type: 'url', placeholder: `${location.protocol}//example.com/hooks`,
        required: true, focus: true, dir: 'ltr' })}
      <div class="field"><span class="label">${t('Event types')}</span><p class="hint">${t('Select none to receive all event types.')}</p>${typeBoxes(state.chosen)}
        ${errorFor(state.error, 'events') ? html`<p class="error" role="alert">${errorFor(state.error, 'events')}</p>` : ''}</div>
      ${formError(state.error, ['url', 'events'])}
      <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button><button class="primary"
        ?disabled=${state.busy}>${old ? t('Save') : t('Create endpoint')}</button></div>
    </form>`,
    ),
  );
}
