/** The dialog of a file by its id. */
import { get, part } from '../lib/api.js';
import { bytes, dateTime, time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { Resource } from '../lib/store.js';
import { keep } from './attached.js';
import { idText } from './code.js';
import { dialog, overlay } from './dialog.js';
import { shown } from './empty.js';
import { button } from './form.js';
import { picture } from './phone-file.js';
import { badge, facts } from './status.js';

/** @param {string} id */
export function openFile(id) {
  const one = new Resource((signal) => get(`/v1/media/${part(id)}`, {}, signal));
  const file = (/** @type {any} */ m) => html`<div class="stack">${m.state === 'ready' ? picture(m) : ''}${facts([
    [t('Name'), m.filename ? html`<span dir="auto">${m.filename}</span>` : null],
    [t('Type'), m.mime_type],
    [t('Size'), bytes(m.size)],
    [t('State'), badge(m.state === 'ready' ? 'ok' : m.state, words(m.state))],
    [t('Error'), m.error],
    [t('Created'), time(m.created_at, dateTime)],
    [t('Message'), m.message_id ? idText(m.message_id) : null],
    [t('ID'), idText(m.media_id)],
  ])}${m.state === 'ready' ? html`<div class="row end">${button(t('Download'), () => keep(m))}</div>` : ''}</div>`;
  const close = overlay(() => dialog(t('File'), () => close(), shown(one, () => file(one.data))));
  one.load();
}
