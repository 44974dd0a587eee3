/** The workspace's own numbers, and the connection of a new one. */
import { get, post } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go } from '../lib/router.js';
import { adminPath } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { bound, sending } from './bound.js';
import { dialog, notify, overlay } from './dialog.js';
import { empty, shown } from './empty.js';
import { e164, formError, phoneNote, submitButton } from './form.js';
import { numberColumns } from './operator-numbers.js';
import { table } from './table.js';

/** The provider's data of a number. @returns {[string, string, Partial<import('../lib/types.js').Field>][]} */
const fields = () => [
  ['phone', t('Phone number'), { type: 'tel', placeholder: '+15550001111', focus: true }],
  ['phone_number_id', t('Phone number ID'), { hint: t('Copy this ID from your provider account.'), mono: true }],
  ['account_id', t('Account ID'), { hint: t('Copy this ID from your provider account.'), mono: true }],
  ['token', t('Access token'), { type: 'password' }],
  ['app_secret', t('App secret'), { type: 'password', hint: t('The provider signs callbacks with this secret.') }],
  ['verify_token', t('Verify token'), { hint: t('Choose any value. The provider sends it to verify the callback URL.'), mono: true }],
];

/** @param {() => unknown} after */
function connect(after) {
  /** @type {any} */
  const state = { busy: false, error: null };
  const save = () =>
    sending(state, async () => {
      const body = Object.fromEntries(fields().map(([name]) => [name, String(state[name] ?? '').trim()]));
      const made = await post(adminPath('/numbers'), { kind: 'cloud_api', ...body, phone: await e164(body['phone'] ?? '') });
      close();
      notify(t('Number connected'));
      await after();
      go(`/settings/numbers/${made.id}`);
    });
  const close = overlay(() =>
    dialog(
      t('Connect number'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(save)}>${fields().map(([name, label, how]) =>
        html`${bound(state, name, { label, required: true, dir: 'ltr', ...how })}${name === 'phone' ? phoneNote(state.phone ?? '') : ''}`,
      )}${formError(
        state.error,
        fields().map(([name]) => name),
      )}<div class="row end">${submitButton(t('Connect number'), state.busy)}</div></form>`,
    ),
  );
}

export function numbers() {
  /** @type {AbortSignal} */
  let signal;
  const all = new Resource((s) => get(adminPath('/numbers'), { limit: 100 }, s));
  const add = () => connect(() => all.load(signal));
  return {
    /** @param {AbortSignal} s */
    open(s) {
      signal = s;
      return all.load(s);
    },
    view: () => html`<div class="row end tab-actions"><button type="button" onclick=${add}>${icon('plus')}${t('Connect number')}</button></div>
      ${shown(all, () =>
        all.data.data.length
          ? table({
              label: t('Numbers'),
              rows: all.data.data,
              key: (n) => n.id,
              href: (n) => `/ui/settings/numbers/${n.id}`,
              columns: numberColumns(),
            })
          : empty({ icon: 'phone', title: t('No numbers'), text: t('Connect a number to send messages.') }),
      )}`,
  };
}
