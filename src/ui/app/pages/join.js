import { call } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go } from '../lib/router.js';
import { reload } from '../lib/session.js';
import { field, formError, submitButton } from '../parts/form.js';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  const state = { invite: '', name: '', password: '', busy: false, error: /** @type {any} */ (null) };
  const join = async () => {
    state.busy = true;
    state.error = null;
    try {
      await call('POST', '/ui/api/join', {
        quiet: true,
        body: { invite: state.invite, name: state.name.trim(), password: state.password },
      });
      await reload();
      go('/', true);
    } catch (error) {
      state.error = error;
    }
    state.busy = false;
  };
  return {
    title: 'Join',
    open() {
      // The token goes out of the address at once, and stays in this page's memory only.
      state.invite = /^#invite=([\w-]+)/.exec(location.hash)?.[1] ?? '';
      history.replaceState(history.state, '', location.pathname);
    },
    view: () => html`<div class="sign-in card">
      ${state.invite ? '' : html`<p class="error block" role="alert">${t('This address has no invite. Ask for a new link.')}</p>`}
      <form class="stack" onsubmit=${submit(join)}>
        ${field({
          label: t('Name'),
          value: state.name,
          input: (v) => {
            state.name = v;
          },
          autocomplete: 'name',
          required: true,
        })}
        ${field({
          label: t('Password'),
          type: 'password',
          value: state.password,
          input: (v) => {
            state.password = v;
          },
          autocomplete: 'new-password',
          required: true,
          hint: t('12 characters or more; a few words are good'),
        })}
        ${formError(state.error)}
        ${submitButton(t('Join'), state.busy, !state.invite)}
      </form></div>`,
  };
}
