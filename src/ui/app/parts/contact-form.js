import { submit } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { dialog, overlay } from './dialog.js';
import { e164, errorFor, field, formError, phoneNote, submitButton } from './form.js';

/**
 * The dialog of a contact's fields.
 * @param {{title: string, contact?: any, save: (body: any) => Promise<unknown>}} options
 */
export function contactForm({ title, contact, save }) {
  const state = {
    name: contact?.name ?? '',
    phone: contact?.phone ?? '',
    email: contact?.email ?? '',
    tags: (contact?.tags ?? []).join(', '),
    fields: Object.entries(contact?.custom_fields ?? {})
      .map(([k, v]) => `${k}: ${v}`)
      .join('\n'),
    busy: false,
    error: /** @type {any} */ (null),
  };
  const body = () => ({
    name: state.name.trim(),
    phone: state.phone.trim() || null,
    email: state.email.trim() || null,
    tags: state.tags
      .split(',')
      .map((/** @type {string} */ x) => x.trim())
      .filter(Boolean),
    custom_fields: Object.fromEntries(
      state.fields
        .split('\n')
        .filter((x) => x.includes(':'))
        .map((x) => [x.slice(0, x.indexOf(':')).trim(), x.slice(x.indexOf(':') + 1).trim()]),
    ),
  });
  const send = async () => {
    state.busy = true;
    state.error = null;
    try {
      await save({ ...body(), phone: (await e164(state.phone)) || null });
      close();
    } catch (error) {
      state.error = error;
    }
    state.busy = false;
  };
  const close = overlay(() =>
    dialog(
      title,
      () => close(),
      html`<form class="stack" onsubmit=${submit(send)}>
    ${field({
      label: t('Name'),
      value: state.name,
      input: (v) => {
        state.name = v;
      },
      required: true,
      focus: true,
      dir: 'auto',
      error: errorFor(state.error, 'name'),
    })}
    ${field({
      label: t('Phone'),
      type: 'tel',
      value: state.phone,
      input: (v) => {
        state.phone = v;
      },
      placeholder: '+15550123456',
      dir: 'ltr',
      error: errorFor(state.error, 'phone'),
    })}${phoneNote(state.phone)}
    ${field({
      label: t('E-mail'),
      type: 'email',
      value: state.email,
      input: (v) => {
        state.email = v;
      },
      dir: 'ltr',
      error: errorFor(state.error, 'email'),
    })}
    ${field({
      label: t('Tags'),
      value: state.tags,
      input: (v) => {
        state.tags = v;
      },
      hint: t('Separated by commas'),
    })}
    ${field({
      label: t('Custom fields'),
      rows: 3,
      value: state.fields,
      input: (v) => {
        state.fields = v;
      },
      hint: t('One in a line, such as city: Paris'),
    })}
    ${formError(state.error, ['name', 'phone', 'email'])}
    <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button>${submitButton(t('Save'), state.busy)}</div></form>`,
    ),
  );
}
