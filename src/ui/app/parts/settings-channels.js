import { get, post, put, remove } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { dateTime, time } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { adminPath } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { ask, attempt, dialog, notify, overlay } from './dialog.js';
import { problem, shown } from './empty.js';
import { onceShown } from './endpoint.js';
import { button, field, formError } from './form.js';
import { facts, label } from './status.js';

/** @param {string} text */
const list = (text) => text.split(/[\s,;]+/).filter(Boolean);

export function channels() {
  /** @type {AbortSignal} */
  let signal;
  const where = new Resource((s) => get(adminPath('/destinations'), {}, s));
  const email = new Resource((s) => get(adminPath('/email'), {}, s));
  const state = { allow: '', deny: '', error: /** @type {any} */ (null) };
  const save = async () => {
    state.error = null;
    try {
      where.data = await put(adminPath('/destinations'), { allow: list(state.allow), deny: list(state.deny) });
      notify(t('Saved'));
    } catch (error) {
      state.error = error;
    }
  };
  const open = () =>
    attempt(async () => {
      const made = await post(adminPath('/email'));
      const close = overlay(() =>
        dialog(
          t('E-mail channel'),
          () => close(),
          onceShown(t('Signing secret'), made.secret, t('Copy'), () => close()),
        ),
      );
      await email.load(signal);
    });
  const shut = () =>
    ask({
      title: t('Close the e-mail channel?'),
      text: t('Mails that come are refused. Conversations stay.'),
      action: t('Close channel'),
      run: () =>
        attempt(async () => {
          await remove(adminPath('/email'));
          await email.load(signal);
        }),
    });
  const none = () => email.error?.status === 404;
  return {
    /** @param {AbortSignal} s */
    async open(s) {
      signal = s;
      await Promise.all([where.load(s), email.load(s)]);
      state.allow = (where.data?.allow ?? []).join(', ');
      state.deny = (where.data?.deny ?? []).join(', ');
    },
    view: () => html`<div class="columns"><section class="card stack"><h2>${t('Where codes may go')}</h2>${shown(
      where,
      () => html`<form class="stack" onsubmit=${submit(save)}>
        ${field({
          label: t('Allowed'),
          value: state.allow,
          input: (v) => {
            state.allow = v;
          },
          dir: 'ltr',
          placeholder: '+1, +49',
          hint: t('Beginnings of numbers; empty: everywhere'),
        })}
        ${field({
          label: t('Refused'),
          value: state.deny,
          input: (v) => {
            state.deny = v;
          },
          dir: 'ltr',
          placeholder: '+1900',
        })}${formError(state.error)}<div class="row"><button>${t('Save')}</button></div></form>`,
    )}</section>
      <section class="card stack"><h2>${t('E-mail channel')}</h2>${
        none()
          ? html`<p class="muted">${t('Conversations by e-mail are not open.')}</p><div class="row">${button(t('Open channel'), open)}</div>`
          : email.error
            ? problem(email.error)
            : shown(
                email,
                () => html`${facts([
                  [t('State'), label('good', 'check', t('Open'))],
                  [t('Address for mails'), html`<code>${email.data.callback_path}</code>`],
                  [t('Since'), time(email.data.created_at, dateTime)],
                ])}
          <div class="row">${button(t('Another secret'), open)}${button(t('Close channel'), shut, { kind: 'danger' })}</div>`,
              )
      }</section></div>`,
  };
}
