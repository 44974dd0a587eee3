/** "Confirm it is you": what is dear asks for a sign-in within ten minutes, and then goes on. */
import { call } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { dialog, overlay } from './dialog.js';
import { field, formError, submitButton } from './form.js';

/** @returns {Promise<boolean>} whether it was confirmed */
export function confirmDialog() {
  return new Promise((done) => {
    const state = { password: '', totp: '', code: false, busy: false, error: /** @type {any} */ (null) };
    const end = (/** @type {boolean} */ yes) => {
      close();
      done(yes);
    };
    const send = async () => {
      state.busy = true;
      try {
        await call('POST', '/ui/api/session/elevate', {
          quiet: true,
          body: {
            ...(state.password ? { password: state.password } : {}),
            ...(state.totp ? { totp: state.totp } : {}),
          },
        });
        end(true);
      } catch (error) {
        if (/** @type {any} */ (error).reason === 'totp_required') state.code = true;
        state.error = error;
      }
      state.busy = false;
    };
    const close = overlay(() =>
      dialog(
        t('Confirm it is you'),
        () => end(false),
        html`<form class="stack" onsubmit=${submit(send)}>
      <p class="muted">${t('This needs a sign-in of the last ten minutes. A new link from the server does it too.')}</p>
      ${field({
        label: t('Password'),
        type: 'password',
        value: state.password,
        input: (v) => {
          state.password = v;
        },
        autocomplete: 'current-password',
        focus: true,
      })}
      ${
        state.code
          ? field({
              label: t('Authenticator code'),
              value: state.totp,
              input: (v) => {
                state.totp = v;
              },
              autocomplete: 'one-time-code',
              inputmode: 'numeric',
            })
          : ''
      }
      ${formError(state.error)}
      <div class="row end">${submitButton(t('Confirm'), state.busy)}</div></form>`,
        { kind: 'small' },
      ),
    );
  });
}
