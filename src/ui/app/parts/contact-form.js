import { submit } from '../lib/dom.js';
import { member, members, object } from '../lib/exact.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { bound, sending } from './bound.js';
import { chips } from './chips.js';
import { dialog, overlay } from './dialog.js';
import { e164, errorFor, formError, phoneNote, submitButton } from './form.js';
import { ownFields } from './own-fields.js';

/**
 * The dialog of a contact's fields. Only changed fields are sent. Tags and custom fields are sent as they are
 * by then, with the changes, because the server replaces them as a whole.
 * @param {{title: string, contact?: any, read?: () => Promise<string>, save: (json: string) => Promise<unknown>}} options
 * `contact` as `whole` made it; `read` reads it once more
 */
export function contactForm({ title, contact, read = async () => '{}', save }) {
  const before = { name: contact?.name ?? '', phone: contact?.phone ?? '', email: contact?.email ?? '' };
  const state = { ...before, busy: false, error: /** @type {any} */ (null) };
  const tags = chips(contact?.tags ?? []);
  const own = ownFields(members(member(contact?.written ?? '{}', 'custom_fields', '{}')));
  /** @param {'name' | 'phone' | 'email'} name */
  const touched = (name) => state[name] !== before[name];
  /** @param {string} now the contact */
  const body = (now) => {
    /** @type {[string, string][]} */
    const all = [['name', touched('name') ? JSON.stringify(state.name.trim()) : member(now, 'name', '""')]];
    if (touched('phone')) all.push(['phone', JSON.stringify(state.phone.trim() || null)]);
    if (touched('email')) all.push(['email', JSON.stringify(state.email.trim() || null)]);
    if (tags.touched()) all.push(['tags', JSON.stringify(tags.of(JSON.parse(member(now, 'tags', '[]'))))]);
    if (own.touched()) all.push(['custom_fields', object(own.of(members(member(now, 'custom_fields', '{}'))))]);
    return object(all);
  };
  const isTouched = () => touched('name') || touched('phone') || touched('email') || tags.touched() || own.touched();
  const send = () =>
    sending(state, async () => {
      if (!own.ready()) return;
      if (touched('phone')) state.phone = await e164(state.phone);
      if (isTouched()) await save(body(await read()));
      close();
    });
  /** Returns the refusal that another contact has the phone. */
  const taken = () => (state.error?.status === 409 ? state.error.message : null);
  const close = overlay(() =>
    dialog(
      title,
      () => close(),
      html`<form class="stack" onsubmit=${submit(send)}>
    ${bound(state, 'name', { label: t('Name'), required: true, focus: true, dir: 'auto' })}
    <div class="columns tight">
      ${bound(state, 'phone', { label: t('Phone'), type: 'tel', placeholder: '+15550123456', dir: 'ltr', error: errorFor(state.error, 'phone') ?? taken() })}
      ${bound(state, 'email', { label: t('E-mail'), inputmode: 'email', dir: 'ltr' })}</div>
    ${phoneNote(state.phone)}
    ${tags.view({ label: t('Tags'), hint: t('Press Enter to add one. Commas are allowed.'), error: errorFor(state.error, 'tags') })}
    ${own.view({ label: t('Custom fields'), hint: t('Press Shift+Enter to add a line break.'), error: errorFor(state.error, 'custom_fields') })}
    ${taken() ? '' : formError(state.error, ['name', 'phone', 'email', 'tags', 'custom_fields'])}
    <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button>${submitButton(t('Save'), state.busy)}</div></form>`,
    ),
  );
}
