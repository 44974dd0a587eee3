import { submit } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go, query } from '../lib/router.js';
import { session, signIn } from '../lib/session.js';
import { field, formError, submitButton } from '../parts/form.js';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  const state = {
    email: '',
    password: '',
    totp: '',
    asked: false,
    token: '',
    busy: false,
    error: /** @type {any} */ (null),
    tokenError: /** @type {any} */ (null),
  };

  /** @param {Record<string, string>} body @param {'error' | 'tokenError'} where */
  const enter = async (body, where) => {
    state.busy = true;
    state.error = state.tokenError = null;
    try {
      await signIn(body);
      const next = query('next');
      // Only a path of this page: an address of elsewhere would lead away.
      go(
        /^\/[\w/-]*(\?[^#]*)?$/.test(next) && !next.startsWith('//') ? next : session.sandbox && !next ? '/phone' : '/',
        true,
      );
    } catch (error) {
      const { reason } = /** @type {any} */ (error);
      if (reason === 'totp_required') state.asked = true;
      else state[where] = error;
    }
    state.busy = false;
  };
  const withPassword = () =>
    enter(
      { email: state.email.trim(), password: state.password, ...(state.asked ? { totp: state.totp.trim() } : {}) },
      'error',
    );

  return {
    title: 'Sign in',
    view: () => html`<div class="sign-in card">
      ${session.refused ? html`<div class="problem" role="alert">${icon('warning')}<p>${t('This link has been used or is too old')}</p></div>` : ''}
      <form class="stack" onsubmit=${submit(withPassword)}>
        ${field({
          label: t('E-mail'),
          type: 'email',
          value: state.email,
          input: (v) => {
            state.email = v;
          },
          autocomplete: 'username',
          required: true,
        })}
        ${field({
          label: t('Password'),
          type: 'password',
          value: state.password,
          input: (v) => {
            state.password = v;
          },
          autocomplete: 'current-password',
          required: true,
        })}
        ${
          state.asked
            ? field({
                label: t('Authenticator code'),
                value: state.totp,
                input: (v) => {
                  state.totp = v;
                },
                autocomplete: 'one-time-code',
                inputmode: 'numeric',
                focus: true,
                hint: t('The six digits that your authenticator shows, or a recovery code'),
              })
            : ''
        }
        ${formError(state.error)}
        ${submitButton(t('Sign in'), state.busy)}
      </form>
      <details><summary>${t('Use an admin token')}</summary>
        <form class="stack" onsubmit=${submit(() => enter({ admin_token: state.token.trim() }, 'tokenError'))}>
          ${field({
            label: t('Admin token'),
            type: 'password',
            value: state.token,
            input: (v) => {
              state.token = v;
            },
            required: true,
          })}
          ${formError(state.tokenError)}
          <button>${t('Sign in with token')}</button>
        </form></details>
      <p class="muted">${session.sandbox ? t('The server prints a link when it starts; it signs you in without a password.')
        : t('An operator can print a link for you: postrider users link.')}</p>
    </div>`,
  };
}
