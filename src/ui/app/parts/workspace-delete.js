/** The dialog "Delete workspace?": the only question of the dashboard that asks for a name to be typed. */
import { context, part, remove } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go } from '../lib/router.js';
import { reload } from '../lib/session.js';
import { bound, sending } from './bound.js';
import { dialog, notify, overlay } from './dialog.js';
import { formError } from './form.js';

/** @param {string} id */
export function deleteWorkspace(id) {
  const state = { confirm: '', busy: false, error: /** @type {any} */ (null) };
  const run = () =>
    sending(state, async () => {
      if (state.confirm.trim() !== id) return;
      await remove(`/admin/v1/workspaces/${part(id)}`, { confirm: id });
      close();
      notify(t('{name} is deleted', { name: id }));
      // What is asked next must not name the deleted workspace.
      context.workspace = '';
      localStorage.removeItem('workspace');
      await reload();
      go('/');
    });
  const close = overlay(() =>
    dialog(
      t('Delete workspace?'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(run)}>
      <p>${t('With all contacts, conversations, messages, keys and webhooks, for good. Its keys are refused at once.')}</p>
      ${bound(state, 'confirm', { label: t('Type {name} to confirm', { name: id }), focus: true, mono: true, dir: 'ltr' })}
      ${formError(state.error, ['confirm'])}
      <div class="row end"><button type="button" onclick=${() => close()}>${t('Keep')}</button>
        <button class="danger" ?disabled=${state.busy || state.confirm.trim() !== id}>${t('Delete workspace')}</button></div></form>`,
      { kind: 'small' },
    ),
  );
}
