import { intent, post } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { bound, sending } from './bound.js';
import { dialog, notify, overlay } from './dialog.js';
import { e164, formError, phoneNote, submitButton } from './form.js';

/** The phone that a test went to last. */
let last = '';

/** Sends a broadcast's text to one phone. @param {any} body of the broadcast */
export function testDialog(body) {
  const key = intent();
  const state = { to: last, busy: false, error: /** @type {any} */ (null) };
  const send = () =>
    sending(state, async () => {
      last = await e164(state.to);
      await post('/v1/messaging/broadcasts/test', { ...body, to: last }, key);
      notify(t('The test is on its way to {phone}', { phone: last }));
      close();
    });
  const phone = { label: t('Phone'), type: 'tel', dir: 'ltr', placeholder: '+15550123456', focus: true, required: true };
  const close = overlay(() =>
    dialog(
      t('Send test'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(send)}>${bound(state, 'to', phone)}${phoneNote(state.to)}${formError(state.error, ['to'])}
        <div class="row end">${submitButton(t('Send test'), state.busy)}</div></form>`,
      { kind: 'small' },
    ),
  );
}
