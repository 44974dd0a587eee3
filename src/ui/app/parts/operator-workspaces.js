import { part, post } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { number } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { Rows } from '../lib/store.js';
import { bound, sending } from './bound.js';
import { attempt, dialog, notify, overlay } from './dialog.js';
import { shown } from './empty.js';
import { button, formError } from './form.js';
import { badge, label } from './status.js';
import { moreButton, table } from './table.js';

/** Opens a form in a dialog. @param {string} title @param {any} state @param {() => unknown} fields @param {string} action
 * @param {() => Promise<unknown>} run */
function formDialog(title, state, fields, action, run) {
  const save = () =>
    sending(state, async () => {
      await run();
      close();
    });
  const close = overlay(() =>
    dialog(
      title,
      () => close(),
      html`<form class="stack" onsubmit=${submit(save)}>${fields()}${formError(state.error, ['id', 'name', 'add'])}
      <div class="row end"><button class="primary" ?disabled=${state.busy}>${action}</button></div></form>`,
      { kind: 'small' },
    ),
  );
}

export function workspacesTab() {
  /** @type {AbortSignal} */
  let signal;
  const all = new Rows(
    '/admin/v1/overview',
    () => ({}),
    (/** @type {any} */ w) => w.workspace,
  );
  const add = () => {
    const state = { id: '', name: '', busy: false, error: null };
    const fields = () => html`${bound(state, 'id', { label: t('ID'), required: true, focus: true, mono: true })}
      ${bound(state, 'name', { label: t('Name'), required: true })}`;
    formDialog(t('New workspace'), state, fields, t('Create workspace'), async () => {
      await post('/admin/v1/workspaces', { id: state.id.trim(), name: state.name.trim() });
      await all.load(signal);
    });
  };
  const credits = (/** @type {any} */ w) => {
    const state = { add: '', busy: false, error: null };
    const fields = () =>
      bound(state, 'add', {
        label: t('Add'),
        inputmode: 'numeric',
        focus: true,
        required: true,
        hint: t('Current balance: {n}', { n: w.credits }),
      });
    formDialog(t('Credits for {name}', { name: w.workspace }), state, fields, t('Add credits'), async () => {
      await post(`/admin/v1/workspaces/${part(w.workspace)}/credits`, { add: Number(state.add) });
      await all.load(signal);
    });
  };
  const unpark = (/** @type {any} */ w) =>
    attempt(async () => {
      await post(`/admin/v1/workspaces/${part(w.workspace)}/unpark`);
      notify(t('{name} is restarting', { name: w.workspace }));
      await all.load(signal);
      // No event reports the result.
      setTimeout(() => signal.aborted || all.load(signal), 2000);
    });
  /** @param {number | undefined} n @param {string} tone @param {string} sign */
  const marked = (n, tone, sign) => (n ? label(tone, sign, number(n)) : number(n));
  return {
    /** @param {AbortSignal} s */
    open(s) {
      signal = s;
      return all.load(s);
    },
    // The loaded rows stay.
    onEvent: () => all.refetch(),
    actions: () => html`<button type="button" onclick=${add}>${icon('plus')}${t('New workspace')}</button>`,
    view: () =>
      shown(all, () =>
        html`${table({
          label: t('Workspaces'),
          rows: all.rows,
          key: all.id,
          href: (w) => `/ui/operator/numbers?workspace=${part(w.workspace)}`,
          columns: [
            { name: t('Workspace'), cell: (w) => html`<b>${w.workspace}</b>` },
            {
              name: t('State'),
              cell: (w) => (w.state ? html`${badge(w.state)} <span class="muted">${w.parked_reason ?? ''}</span>` : '–'),
            },
            { name: t('Credits'), kind: 'num', cell: (w) => number(w.credits) },
            { name: t('Codes, last hour'), kind: 'num', cell: (w) => number(w.otp_last_hour) },
            { name: t('Messages, last hour'), kind: 'num', cell: (w) => number(w.messages_last_hour) },
            { name: t('Stopped numbers'), kind: 'num', cell: (w) => marked(w.numbers_stopped, 'bad', 'stop') },
            { name: t('Failing webhooks'), kind: 'num', cell: (w) => marked(w.webhooks_failing, 'warning', 'warning') },
          ],
          actions: (w) =>
            html`${w.state === 'parked' ? button(t('Restart'), () => unpark(w)) : ''}${button(t('Credits'), () => credits(w), { kind: 'quiet' })}`,
        })}${moreButton(all)}`,
      ),
  };
}
