import { intent, post } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { attempt, dialog, notify, overlay } from './dialog.js';
import { field } from './form.js';

/** The phone that a test went to last. */
let to = '';

/** Sends a broadcast's text to one phone. @param {any} body of the broadcast */
export function testDialog(body) {
  const key = intent();
  const send = () =>
    attempt(async () => {
      await post('/v1/messaging/broadcasts/test', { ...body, to: to.trim() }, key);
      notify(t('The test is on its way to {phone}', { phone: to }));
      close();
    });
  const phone = {
    label: t('Phone'),
    type: 'tel',
    input: (/** @type {string} */ v) => {
      to = v;
    },
    dir: 'ltr',
    placeholder: '+15550123456',
    focus: true,
    required: true,
  };
  const close = overlay(() =>
    dialog(
      t('Send test'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(send)}>${field({ ...phone, value: to })}
        <div class="row end"><button class="primary">${t('Send test')}</button></div></form>`,
      { kind: 'small' },
    ),
  );
}
