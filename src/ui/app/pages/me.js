import { call, get, part } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { ago, dateTime, time } from '../lib/format.js';
import { LANGUAGES, language, t, useLanguage } from '../lib/i18n.js';
import { singleKeys } from '../lib/keys.js';
import { html, refresh } from '../lib/render.js';
import { session } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { shown } from '../parts/empty.js';
import { button, checkbox, errorFor, field, formError, radios, select } from '../parts/form.js';
import { beside } from '../parts/beside.js';
import { copyButton, idText } from '../parts/code.js';
import { label } from '../parts/status.js';
import { table } from '../parts/table.js';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  const sessions = new Resource((s) => get('/ui/api/sessions', {}, s));
  const state = { current: '', next: '', error: /** @type {any} */ (null), busy: false };
  const end = (/** @type {string} */ id) =>
    attempt(async () => {
      await call('DELETE', `/ui/api/sessions${id ? `/${part(id)}` : ''}`);
      await sessions.load(signal);
    });
  const password = async () => {
    state.busy = true;
    state.error = null;
    try {
      await call('PUT', '/ui/api/password', {
        quiet: true,
        body: { ...(state.current ? { current: state.current } : {}), new: state.next },
      });
      Object.assign(state, { current: '', next: '' });
      notify(t('Password changed and other sessions ended'));
      await sessions.load(signal);
    } catch (error) {
      state.error = error;
    }
    state.busy = false;
  };
  const authenticator = () =>
    attempt(async () => {
      const made = await call('POST', '/ui/api/totp', { quiet: true });
      const step = { code: '', recovery: /** @type {string[]} */ ([]), error: /** @type {any} */ (null) };
      const confirm = async () => {
        try {
          step.recovery = (
            await call('PUT', '/ui/api/totp', { quiet: true, body: { code: step.code.trim() } })
          ).recovery_codes;
          step.error = null;
        } catch (error) {
          step.error = error;
        }
      };
      const close = overlay(() =>
        dialog(
          t('Authenticator'),
          () => close(),
          step.recovery.length
            ? html`<p>${t('Save these recovery codes. Each one works once in place of an authenticator code.')}</p><pre class="code"
              tabindex="0">${step.recovery.join('\n')}</pre>
        <div class="row end">${copyButton(step.recovery.join('\n'))}<button type="button" class="primary" onclick=${() => close()}>${t('Done')}</button></div>`
            : html`<form class="stack" onsubmit=${submit(confirm)}><p>
              ${t('Add this secret to your authenticator app, then enter the six-digit code it shows.')}</p>
        ${field({ label: t('Secret'), value: made.secret, readonly: true, mono: true, dir: 'ltr' })}
        ${field({
          label: t('Authenticator code'),
          value: step.code,
          input: (v) => {
            step.code = v;
          },
          autocomplete: 'one-time-code',
          inputmode: 'numeric',
          focus: true,
          error: errorFor(step.error, 'code'),
        })}
        ${formError(step.error, ['code'])}<div class="row end">${copyButton(made.uri, t('Copy setup link'))}<button class="primary">${t('Turn on')}</button></div></form>`,
          { kind: 'small' },
        ),
      );
    });
  const without = () =>
    attempt(async () => {
      await call('DELETE', '/ui/api/totp', { quiet: true });
      notify(t('Authenticator turned off'));
    });
  /** @param {string} name @param {string} value */
  const keep = (name, value) => {
    value ? localStorage.setItem(name, value) : localStorage.removeItem(name);
    const data = document.documentElement.dataset;
    if (name === 'theme' || name === 'rows') value ? (data[name] = value) : delete data[name];
  };
  const looks = () => html`<section class="card stack"><h2>${t('Appearance and language')}</h2>
    ${select({
      label: t('Language'),
      value: language(),
      options: Object.entries(LANGUAGES),
      change: async (v) => {
        keep('language', v);
        await useLanguage(v);
        refresh();
      },
    })}
    ${radios(
      t('Theme'),
      localStorage.getItem('theme') ?? '',
      [
        ['', t('System default')],
        ['light', t('Light')],
        ['dark', t('Dark')],
      ],
      (v) => keep('theme', v),
      { shown: true },
    )}
    ${radios(
      t('Rows'),
      localStorage.getItem('rows') ?? '',
      [
        ['', t('Dense')],
        ['comfortable', t('Comfortable')],
      ],
      (v) => keep('rows', v),
      { shown: true },
    )}
    ${checkbox(t('Single-key shortcuts'), singleKeys(), (on) => keep('single-keys', on ? '' : 'off'), t('For example j, k and r. Press ? to see them all.'))}</section>`;
  const security =
    () => html`<section class="card stack"><h2>${t('Password')}</h2><form class="stack" onsubmit=${submit(password)}>
      <input class="sr" type="text" autocomplete="username" .value=${session.me?.principal.email ?? ''} aria-hidden="true" tabindex="-1" readonly>
      ${field({
        label: t('Current password'),
        type: 'password',
        value: state.current,
        input: (v) => {
          state.current = v;
        },
        autocomplete: 'current-password',
        hint: t('Leave empty if you have no password yet.'),
        error: errorFor(state.error, 'current'),
      })}
      ${field({
        label: t('New password'),
        type: 'password',
        value: state.next,
        input: (v) => {
          state.next = v;
        },
        autocomplete: 'new-password',
        required: true,
        hint: t('Use at least 12 characters. A few random words work well.'),
        error: errorFor(state.error, 'new'),
      })}
      ${formError(state.error, ['current', 'new'])}<div class="row"><button ?disabled=${state.busy || !state.next}>${t('Change password')}</button></div></form></section>
    <section class="card stack"><h2>${t('Authenticator')}</h2><p class="muted">${t('Sign in with a six-digit code from an authenticator app as a second step.')}</p><div
      class="row">${button(t('Set up'), authenticator)}${button(t('Turn off'), without, { kind: 'quiet' })}</div></section>`;
  /** @param {any} s @returns {[string, unknown][]} */
  const known = (s) => [
    [t('Browser'), s.user_agent],
    [t('Address'), s.address],
    [t('Signed in'), time(s.created_at, dateTime)],
    [t('Last seen'), time(s.seen_at, dateTime)],
    [t('Expires'), time(s.ends_at, dateTime)],
    [t('ID'), idText(s.id)],
  ];
  return {
    title: 'My account',
    changed: () => {},
    open(_, s) {
      signal = s;
      return sessions.load(s);
    },
    view: () => html`<p class="lead-line">${session.me?.principal.name} <span class="muted">${session.me?.principal.email === session.me?.principal.name ? '' : session.me?.principal.email}</span></p>
      <div class="columns">${looks()}<div class="stack">${security()}</div></div>
      <section class="section"><div class="card-head"><h2>${t('Active sessions')}</h2>${button(t('End other sessions'), () => end(''))}</div>
      ${shown(sessions, () =>
        beside({ label: t('Session'), rows: sessions.data.data, key: (/** @type {any} */ s) => s.id, facts: known,
          title: (s) => browser(s.user_agent) }, (chosen) => table({
          label: t('Sessions'),
          rows: sessions.data.data,
          key: (/** @type {any} */ s) => s.id,
          ...chosen,
          columns: [
            {
              name: t('Browser'),
              cell: (s) => html`${browser(s.user_agent)} ${s.current ? label('good', 'check', t('This session')) : ''}`,
            },
            { name: t('Address'), cell: (s) => html`<code>${s.address}</code>` },
            { name: t('Signed in'), cell: (s) => time(s.created_at, dateTime) },
            { name: t('Last seen'), cell: (s) => time(s.seen_at, ago) },
          ],
          actions: (s) => button(t('End'), () => end(s.id), { disabled: s.current }),
        })),
      )}</section>`,
  };
}

/** Returns a name such as "Chrome on Linux" from a user agent. @param {string} agent */
function browser(agent) {
  const name =
    ['Firefox', 'Edg', 'OPR', 'Chrome', 'Safari', 'curl'].find((b) => agent.includes(b)) ?? agent.slice(0, 30);
  const system = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac', 'Linux'].find((s) => agent.includes(s)) ?? '';
  return system
    ? t('{browser} on {system}', { browser: name.replace('Edg', 'Edge').replace('OPR', 'Opera'), system })
    : name;
}
