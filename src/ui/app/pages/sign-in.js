import { submit } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go, query } from '../lib/router.js';
import { session, signIn } from '../lib/session.js';
import { bound, focusCode, oneTimeCode, password, sending } from '../parts/bound.js';
import { formError, submitButton } from '../parts/form.js';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  const state = { email: '', password: '', totp: '', asked: false, busy: false, error: /** @type {any} */ (null) };
  const admin = { token: '', busy: false, error: /** @type {any} */ (null) };

  const next = () => {
    const wanted = query('next');
    // Only a path of this page is followed: a foreign address would lead away.
    const own = /^\/[\w/-]*(\?[^#]*)?$/.test(wanted) && !wanted.startsWith('//');
    go(own ? wanted : session.sandbox && !wanted ? '/phone' : '/', true);
  };
  const withPassword = () =>
    sending(state, async () => {
      try {
        const known = { email: state.email.trim(), password: state.password };
        await signIn(state.asked ? { ...known, totp: state.totp.trim() } : known);
      } catch (error) {
        const first = /** @type {any} */ (error).reason === 'totp_required' && !state.asked;
        if (!first) throw error;
        state.asked = true;
        focusCode();
        return;
      }
      next();
    });
  const withToken = () =>
    sending(admin, async () => {
      await signIn({ admin_token: admin.token.trim() });
      next();
    });
  const form = () => html`<form class="stack" onsubmit=${submit(withPassword)}>
    ${bound(state, 'email', { label: t('E-mail'), type: 'email', autocomplete: 'username', required: true, error: null })}
    ${password(state, 'password', { required: true, error: null })}
    ${
      state.asked
        ? oneTimeCode(state, 'totp', {
            focus: true,
            required: true,
            error: null,
            hint: t('Enter the code from your authenticator app, or a recovery code.'),
          })
        : ''
    }
    ${formError(state.error)}${submitButton(t('Sign in'), state.busy)}</form>`;

  return {
    title: 'Sign in',
    view: () => html`<div class="sign-in card">
      ${session.refused ? html`<div class="problem" role="alert">${icon('warning')}<p>${t('This link has been used or is too old')}</p></div>` : ''}
      ${session.methods.length === 0 || session.methods.includes('password') ? form() : ''}
      <details><summary>${t('Use an admin token')}</summary>
        <form class="stack" onsubmit=${submit(withToken)}>
          ${bound(admin, 'token', { label: t('Admin token'), type: 'password', required: true, error: null })}
          ${formError(admin.error)}<button ?disabled=${admin.busy}>${t('Sign in with token')}</button></form></details>
      <p class="muted">${session.sandbox ? t('The server prints a sign-in link when it starts. The link signs you in without a password.')
        : t('An operator can create a sign-in link for you: postrider users link.')}</p>
    </div>`,
  };
}
