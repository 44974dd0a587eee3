/** The frame of every page: banner, menu, alerts, the page's heading, dialogs. */
import { call, context } from '../lib/api.js';
import { on, typed } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { live } from '../lib/live.js';
import { html, refresh } from '../lib/render.js';
import { can, session, signOut } from '../lib/session.js';
import { openPalette } from '../lib/keys.js';
import { duration } from '../lib/format.js';
import { inMenu, ROUTES } from '../lib/router.js';
import { dismiss, notices, overlays } from './dialog.js';

const state = { menu: false };

/** @param {{page: import('../lib/types.js').Page | null, title: string, path: string, route: string, ahead: number}} f */
export function frame(f) {
  const inside = Boolean(session.me);
  return html`
    <a class="skip" href="#main" onclick=${on((e) => {
      e.preventDefault();
      document.querySelector('main')?.focus();
    })}>${t('Skip to content')}</a>
    <div class=${`frame ${inside ? 'with-menu' : ''} ${state.menu ? 'menu-open' : ''}`}>
      ${banner(f, inside)}
      ${inside ? menu(f.path) : ''}
      <main id="main" tabindex="-1" class=${`page page-${f.route || 'other'} ${f.page?.wide ? 'wide' : ''}`}>
        ${strip()}
        <div class="page-head"><h1 tabindex="-1">${f.title}</h1>
          <div class="page-actions">${f.page?.actions?.()}
            ${inside ? html`<button type="button" class="quiet" data-key="calls" ?disabled=${!context.calls.length} onclick=${openCalls}>
              ${icon('explorer')}${t('API')}</button>` : ''}</div></div>
        ${f.page?.view()}
      </main>
    </div>
    <div class="notices" role="status" aria-live="polite">${notices.map(
      (n) => html`<div key=${n.id} class=${`notice ${n.bad ? 'bad' : ''}`} role=${n.bad ? 'alert' : null}>
      <span>${n.text}</span>${
        n.undo
          ? html`<button type="button" class="quiet" onclick=${() => {
              dismiss(n.id);
              return n.undo?.();
            }}>${t('Undo')}</button>`
          : ''
      }
      <button type="button" class="quiet icon-only" aria-label=${t('Dismiss')} onclick=${() => dismiss(n.id)}>${icon('close')}</button></div>`,
    )}</div>
    <div class="overlays">${overlays.map((view, i) => html`<div key=${i}>${view()}</div>`)}</div>`;
}

const openCalls = () => import('./calls.js').then((it) => it.openCalls());

/** @param {{ahead: number, path: string}} f @param {boolean} inside */
function banner(f, inside) {
  return html`<header class="banner">
    ${
      inside
        ? html`<button type="button" class="quiet icon-only menu-button" aria-label=${t('Menu')} aria-expanded=${state.menu} aria-controls="menu"
      onclick=${() => {
        state.menu = !state.menu;
      }}>${icon('menu')}</button>`
        : ''
    }
    <a class="brand" href="/ui/" aria-label=${t('Postrider, home')}><svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><rect
      width="32" height="32" rx="7"></rect><path d="M8 11h16v11H8z M8 11l8 7 8-7"></path></svg><span class="brand-name">Postrider</span></a>
    ${inside ? inner(f) : html`<span class="grow"></span>${f.path === '/sign-in' ? '' : html`<a class="button" href="/ui/sign-in">${t('Sign in')}</a>`}`}
  </header>`;
}

/** @param {{ahead: number}} f */
function inner(f) {
  const me = session.me;
  const tone = { Live: 'good', Reconnecting: 'warning', Offline: 'bad' }[live.state];
  return html`
    <select class="workspace" aria-label=${t('Workspace')} .value=${context.workspace} onchange=${typed(switchTo)}>
      ${(me?.workspaces ?? []).map((w) => html`<option key=${w.id} value=${w.id}>${w.name}</option>`)}</select>
    <span class="grow"></span>
    <button type="button" class="search-button" aria-label=${t('Search')} onclick=${openPalette}>${icon('search')}<span
      aria-hidden="true">${t('Search')}</span><kbd aria-hidden="true">${mac ? '⌘K' : 'Ctrl K'}</kbd></button>
    ${session.sandbox ? html`<span class=${`clock ${f.ahead ? 'ahead' : ''}`} role="status" aria-label=${t('Sandbox clock')}>
      ${f.ahead ? html`${icon('clock')}${t('{time} ahead', { time: duration(f.ahead) })}` : ''}</span>` : ''}
    <span class=${`connection ${tone}`} role="status" aria-label=${t('Connection')}>${icon('dot')}<span>${t(live.state)}</span></span>
    <button type="button" class="quiet account" aria-label=${t('Account')} popovertarget="account" aria-haspopup="menu">
      ${icon('person')}<span class="account-name" aria-hidden="true">${me?.principal.name ?? ''}</span></button>
    <div id="account" class="menu" popover role="menu" aria-label=${t('Account')} onkeydown=${on(arrows)}
      ontoggle=${on((e) => e.newState === 'open' && e.target.querySelector('[role=menuitem]')?.focus())}>
      <p class="menu-head" role="presentation">${me?.principal.email ?? me?.principal.name ?? ''}${me?.role ? html`<span
        class="muted">${t(me.role.charAt(0).toUpperCase() + me.role.slice(1))}</span>` : ''}</p>
      <a role="menuitem" href="/ui/me" onclick=${closeMenu}>${icon('person')}${t('My account')}</a>
      <button type="button" role="menuitem" onclick=${() => {
        closeMenu();
        return signOut();
      }}>${icon('out')}${t('Sign out')}</button>
    </div>`;
}

const mac = /Mac|iPhone|iPad/.test(navigator.platform);

function closeMenu() {
  /** @type {any} */ (document.querySelector('#account'))?.hidePopover();
}

/** @param {KeyboardEvent} e */
function arrows(e) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!step) return;
  e.preventDefault();
  const items = [...document.querySelectorAll('#account [role=menuitem]')];
  const at = items.indexOf(/** @type {Element} */ (document.activeElement));
  /** @type {HTMLElement} */ (items[(at + step + items.length) % items.length])?.focus();
}

/** Switches to another workspace, which has other rows, other permissions and another stream. @param {string} id */
function switchTo(id) {
  localStorage.setItem('workspace', id);
  location.assign('/ui/');
}

const MENU = Object.entries(Object.groupBy(ROUTES, (route) => route.menu?.[0] ?? '')).map(
  ([group, routes = []]) => /** @type {const} */ ([group, routes]),
);

/** @param {import('../lib/types.js').Route} route @param {string} path */
function entry({ path: to, menu }, path) {
  const [, title, sign] = menu ?? ['', '', ''];
  const current = path === to || (to !== '/' && path.startsWith(`${to}/`));
  return html`<li key=${to}><a href=${`/ui${to}`} aria-current=${current ? 'page' : null}>${icon(sign)}${t(title)}</a></li>`;
}

/** @param {string} path */
function menu(path) {
  return html`<nav id="menu" class="menu-main" aria-label=${t('Main')} onclick=${on((e) => {
    if (e.target.closest('a')) state.menu = false;
  })}>
    ${MENU.map(([group, routes]) => {
      const shown = routes.filter(inMenu);
      return shown.length
        ? html`<div key=${group} class="menu-group">${group ? html`<p class="menu-label">${t(group)}</p>` : ''}
            <ul>${shown.map((route) => entry(route, path))}</ul></div>`
        : '';
    })}</nav>
    <button type="button" class="menu-shade" tabindex="-1" aria-hidden="true" onclick=${() => {
      state.menu = false;
    }}></button>`;
}

/** The present problems, shown on every page: a number that is stopped, storage that is down.
 * @type {Map<string, {text: string, href: string | null}>} */
export const problems = new Map();

export function startProblems() {
  problems.clear();
  checkReady();
  readNumbers();
  context.onStatus = (status) => {
    if (status === 503 || (status < 400 && problems.has('storage'))) checkReady();
    if (Date.now() - othersAt > 60_000) readOthers();
  };
  othersAt = Date.now();
  setTimeout(readOthers, 3000);
}

let othersAt = 0;

/** Reads the workspace's numbers, which every member sees. */
async function readNumbers() {
  try {
    for (const n of (await call('GET', '/v1/workspace', { quiet: true })).problems) stopped(n.number_id, n.reason);
    refresh();
  } catch {
    // The number's own page shows the reason for the failure.
  }
}

/** Reads the numbers of other workspaces for an operator, as no event reports them. It runs beside other calls: a
 * timer would keep an unused session alive. */
async function readOthers() {
  othersAt = Date.now();
  if (!can('operator')) return;
  try {
    for (const { workspace: id, numbers_stopped: n } of (await call('GET', '/admin/v1/overview?limit=200', { quiet: true })).data) {
      if (id === context.workspace) continue;
      if (n) problems.set(id, { text: t('{name}: a number has stopped sending', { name: id }), href: '/ui/operator/numbers' });
      else problems.delete(id);
    }
    refresh();
  } catch {
    // The next run tries again.
  }
}

let asking = false;
async function checkReady() {
  if (asking) return;
  asking = true;
  try {
    const answer = await fetch('/readyz', { headers: { Accept: 'application/json' } });
    const body = await answer.json();
    if (answer.ok) problems.delete('storage');
    else
      problems.set('storage', {
        text: t('The server is not ready: {status}', { status: String(body.status ?? answer.status) }),
        href: null,
      });
  } catch {
    problems.delete('storage');
  }
  asking = false;
  refresh();
}

/** @param {string} id @param {string} reason */
function stopped(id, reason) {
  const href = can('numbers:manage') ? `/ui/settings/numbers/${id}` : null;
  problems.set(id, { text: t('A number has stopped sending: {reason}', { reason }), href });
}

/** @param {import('../lib/types.js').LiveEvent} event */
export function tellProblems(event) {
  if (event.type === 'number.stopped') stopped(event.data.number_id, event.data.reason ?? '');
  if (event.type === 'number.recovered') problems.delete(event.data.number_id);
}

function strip() {
  if (!session.me || problems.size === 0) return '';
  return html`<div class="strip" role="alert" aria-label=${t('Problems')}>${icon('warning')}<ul>${[...problems].map(
    ([key, p]) => html`<li key=${key}>
    ${p.text} ${p.href ? html`<a href=${p.href}>${t('View details')}</a>` : ''}</li>`,
  )}</ul></div>`;
}
