/** "Confirm it is you": a sensitive call asks for a sign-in within ten minutes, and then continues. */
import { call } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { session, signIn } from '../lib/session.js';
import { bound, focusCode, oneTimeCode, password, sending } from './bound.js';
import { dialog, overlay } from './dialog.js';
import { formError, submitButton } from './form.js';

/** @returns {Promise<boolean>} whether it was confirmed */
export function confirmDialog() {
  const byToken = session.me?.principal.kind === 'admin_token';
  return new Promise((done) => {
    const state = { password: '', totp: '', token: '', asked: false, busy: false, error: /** @type {any} */ (null) };
    const end = (/** @type {boolean} */ yes) => {
      close();
      done(yes);
    };
    const prove = async () => {
      if (byToken) return signIn({ admin_token: state.token.trim() });
      const { totp } = state;
      const body = { ...(state.password ? { password: state.password } : {}), ...(totp ? { totp: totp.trim() } : {}) };
      return call('POST', '/ui/api/session/elevate', { quiet: true, body });
    };
    const send = () =>
      sending(state, async () => {
        try {
          await prove();
        } catch (error) {
          const first = /** @type {any} */ (error).reason === 'totp_required' && !state.asked;
          if (!first) throw error;
          state.asked = true;
          focusCode();
          return;
        }
        end(true);
      });
    const fields = () =>
      byToken
        ? bound(state, 'token', { label: t('Admin token'), type: 'password', required: true, focus: true, error: null })
        : html`${password(state, 'password', { focus: true, error: null })}
          ${state.asked ? oneTimeCode(state, 'totp', { error: null }) : ''}`;
    const close = overlay(() =>
      dialog(
        t('Confirm it is you'),
        () => end(false),
        html`<form class="stack" onsubmit=${submit(send)}>
      <p class="muted">${t('This action requires a sign-in within the last ten minutes. Sign in again here, or use a new sign-in link.')}</p>
      ${fields()}${formError(state.error)}
      <div class="row end">${submitButton(t('Confirm'), state.busy)}</div></form>`,
        { kind: 'small' },
      ),
    );
  });
}
