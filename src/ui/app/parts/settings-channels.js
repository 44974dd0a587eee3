import { get, post, put, remove } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { dateTime, time } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { adminPath } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { bound, sending } from './bound.js';
import { ask, attempt, dialog, notify, overlay } from './dialog.js';
import { problem, shown } from './empty.js';
import { onceShown } from './endpoint.js';
import { button, formError, select } from './form.js';
import { facts, label } from './status.js';

/** @param {string} text */
const list = (text) =>
  text
    .split(/[\s,;]+/)
    .map((it) => it.replace(/^\+/, ''))
    .filter(Boolean);

/** @param {string[] | undefined} prefixes */
const joined = (prefixes) => (prefixes ?? []).join(', ');

export function channels() {
  /** @type {AbortSignal} */
  let signal;
  const email = new Resource((s) => get(adminPath('/email'), {}, s));
  const before = { allow: '', deny: '', safe: '', adaptive: '' };
  const state = { ...before, busy: false, error: /** @type {any} */ (null) };
  /** Fills the fields with the loaded data, before they are rendered. @param {any} data */
  const filled = (data) => {
    const { allow, deny, safe, adaptive } = data;
    Object.assign(before, { allow: joined(allow), deny: joined(deny), safe: joined(safe), adaptive: adaptive ?? '' });
    Object.assign(state, before);
    return data;
  };
  const where = new Resource(async (s) => filled(await get(adminPath('/destinations'), {}, s)));
  const save = () =>
    sending(state, async () => {
      const touched = (/** @type {keyof typeof before} */ name) => state[name] !== before[name];
      // The server clears these two if they are left out; the others then stay as they are.
      const now = await get(adminPath('/destinations'));
      const body = {
        allow: touched('allow') ? list(state.allow) : now.allow,
        deny: touched('deny') ? list(state.deny) : now.deny,
        ...(touched('safe') ? { safe: list(state.safe) } : {}),
        ...(touched('adaptive') ? { adaptive: state.adaptive || null } : {}),
      };
      where.data = filled(await put(adminPath('/destinations'), body));
      notify(t('Saved'));
    });
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
      title: t('Close e-mail channel?'),
      text: t('Incoming e-mails will be rejected. Conversations are retained.'),
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
    },
    view: () => html`<div class="columns"><section class="card stack"><h2>${t('Destinations for codes')}</h2>${shown(
      where,
      () => html`<form class="stack" onsubmit=${submit(save)}>
        ${bound(state, 'allow', { label: t('Allowed'), dir: 'ltr', placeholder: '+1, +49', hint: t('Number prefixes. Empty = all destinations.') })}
        ${bound(state, 'deny', { label: t('Refused'), dir: 'ltr', placeholder: '+1900' })}
        ${select({
          label: t('Destinations with few verified codes'),
          value: state.adaptive,
          options: [
            ['', t('Use server setting')],
            ['off', t('Send all')],
            ['report', t('Send all and report')],
            ['refuse', t('Send only to a sample')],
          ],
          change: (v) => {
            state.adaptive = v;
          },
        })}
        ${bound(state, 'safe', { label: t('Never limited'), dir: 'ltr', placeholder: '+4915' })}
        ${formError(state.error, ['allow', 'deny', 'safe'])}<div class="row"><button ?disabled=${state.busy}>${t('Save')}</button></div></form>`,
    )}</section>
      <section class="card stack"><h2>${t('E-mail channel')}</h2>${
        none()
          ? html`<p class="muted">${t('The e-mail channel is not open.')}</p><div class="row">${button(t('Open channel'), open)}</div>`
          : email.error
            ? problem(email.error)
            : shown(
                email,
                () => html`${facts([
                  [t('State'), label('good', 'check', t('Open'))],
                  [t('Callback path'), html`<code>${email.data.callback_path}</code>`],
                  [t('Since'), time(email.data.created_at, dateTime)],
                ])}
          <div class="row">${button(t('Replace secret'), open)}${button(t('Close channel'), shut, { kind: 'danger' })}</div>`,
              )
      }</section></div>`,
  };
}
