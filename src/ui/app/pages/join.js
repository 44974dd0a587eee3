import { submit } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go } from '../lib/router.js';
import { signIn } from '../lib/session.js';
import { bound, password, sending } from '../parts/bound.js';
import { formError, submitButton } from '../parts/form.js';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  const state = { invite: '', name: '', password: '', busy: false, error: /** @type {any} */ (null) };
  const join = () =>
    sending(state, async () => {
      const { invite, name, password: chosen } = state;
      await signIn({ invite, name: name.trim(), password: chosen }, '/ui/api/join');
      go('/', true);
    });
  return {
    title: 'Join',
    open() {
      // The token is removed from the address at once, and stays only in this page's memory.
      state.invite = /^#invite=([\w-]+)/.exec(location.hash)?.[1] ?? '';
      history.replaceState(history.state, '', location.pathname);
    },
    view: () => html`<div class="sign-in card">
      ${state.invite ? '' : html`<p class="error block" role="alert">${t('This link does not contain an invite. Ask for a new link.')}</p>`}
      <form class="stack" onsubmit=${submit(join)}>
        ${bound(state, 'name', { label: t('Name'), autocomplete: 'name', required: true })}
        ${password(state, 'password', { autocomplete: 'new-password', required: true })}
        ${formError(state.error, ['name', 'password'])}${submitButton(t('Join'), state.busy, !state.invite)}</form></div>`,
  };
}
