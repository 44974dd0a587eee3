/**
 * Addresses. Pages lie below `/ui` as history paths; an address holds page, filters and selection, and
 * each entry of the history keeps the scroll position.
 */
import { refresh } from './render.js';
import { can, session } from './session.js';

/** @import { Params, Route } from './types.js' */

export const BASE = '/ui';

/** Every page: its path, its file, the permission for it, its place in the menu. @type {Route[]} */
export const ROUTES = [
  { path: '/', file: 'home', menu: ['', 'Home', 'home'] },
  { path: '/sign-in', file: 'sign-in', open: true },
  { path: '/join', file: 'join', open: true },
  { path: '/me', file: 'me' },
  { path: '/phone', file: 'phone', may: 'sandbox:use', menu: ['', 'Phone', 'phone'] },
  { path: '/codes', file: 'codes', may: 'otp:read', menu: ['Messaging', 'Codes', 'code'] },
  { path: '/codes/:id', file: 'code', may: 'otp:read' },
  { path: '/messages', file: 'messages', may: 'messages:read', menu: ['Messaging', 'Messages', 'message'] },
  { path: '/messages/:id', file: 'message', may: 'messages:read' },
  { path: '/inbox', file: 'inbox', may: 'inbox:read', menu: ['Messaging', 'Inbox', 'inbox'] },
  { path: '/inbox/:id', file: 'inbox', may: 'inbox:read' },
  { path: '/broadcasts', file: 'broadcasts', may: 'broadcasts:read', menu: ['Messaging', 'Broadcasts', 'broadcast'] },
  { path: '/broadcasts/new', file: 'broadcast-new', may: 'broadcasts:write' },
  { path: '/broadcasts/:id', file: 'broadcast', may: 'broadcasts:read' },
  { path: '/templates', file: 'templates', may: 'templates:read', menu: ['Messaging', 'Templates', 'template'] },
  { path: '/contacts', file: 'contacts', may: 'contacts:read', menu: ['Audience', 'Contacts', 'contacts'] },
  { path: '/contacts/:id', file: 'contact', may: 'contacts:read' },
  { path: '/segments', file: 'segments', may: 'contacts:read', menu: ['Audience', 'Segments', 'segments'] },
  { path: '/segments/:id', file: 'segment', may: 'contacts:read' },
  { path: '/import', file: 'import', may: 'contacts:write', menu: ['Audience', 'Import', 'import'] },
  { path: '/events', file: 'events', may: 'events:read', menu: ['Developers', 'Events', 'events'] },
  { path: '/webhooks', file: 'webhooks', may: 'webhooks:manage', menu: ['Developers', 'Webhooks', 'webhook'] },
  { path: '/webhooks/:id', file: 'webhook', may: 'webhooks:manage' },
  { path: '/keys', file: 'api-keys', may: 'keys:manage', menu: ['Developers', 'API keys', 'key'] },
  { path: '/requests', file: 'requests', may: 'requests:read', menu: ['Developers', 'Requests', 'requests'] },
  { path: '/explorer', file: 'explorer', open: true, menu: ['Developers', 'API explorer', 'explorer'] },
  { path: '/explorer/:id', file: 'explorer', open: true },
  { path: '/analytics', file: 'analytics', may: 'analytics:read inbox:read', menu: ['Manage', 'Analytics', 'analytics'] },
  { path: '/analytics/:tab', file: 'analytics', may: 'analytics:read inbox:read' },
  { path: '/settings', file: 'settings', menu: ['Manage', 'Settings', 'settings'] },
  { path: '/settings/:tab', file: 'settings' },
  { path: '/settings/numbers/:id', file: 'number', may: 'numbers:manage' },
  { path: '/operator', file: 'operator', may: 'operator', menu: ['Manage', 'Operator', 'operator'] },
  { path: '/operator/numbers/:workspace/:id', file: 'number', may: 'operator' },
  { path: '/operator/:tab', file: 'operator', may: 'operator' },
];

/** @param {Route} route whether it is in this role's menu */
export const inMenu = (route) =>
  Boolean(route.menu) && (route.file !== 'phone' || session.sandbox) && (!route.may || can(route.may));

/** @returns {string} the path below `/ui`, without the last slash */
export function currentPath() {
  const path = location.pathname.slice(BASE.length).replace(/\/+$/, '');
  return path || '/';
}

/** @param {string} path @returns {{route: Route, params: Params} | null} */
export function match(path) {
  const parts = path.split('/');
  for (const route of ROUTES) {
    const wanted = route.path.split('/');
    if (wanted.length !== parts.length) continue;
    /** @type {Params} */
    const params = {};
    const fits = wanted.every((piece, i) => {
      if (!piece.startsWith(':')) return piece === parts[i];
      params[piece.slice(1)] = decode(parts[i] ?? '');
      return Boolean(parts[i]);
    });
    if (fits) return { route, params };
  }
  return null;
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} path below `/ui` @param {Record<string, unknown>} [query] @returns {string} */
export function href(path, query) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) if (value) search.set(key, String(value));
  return `${BASE}${path}${search.size ? `?${search}` : ''}`;
}

/** @param {string} name @returns {string} a parameter of the address */
export const query = (name) => new URLSearchParams(location.search).get(name) ?? '';

/** Puts filters into the address, without an entry in the history.
 * @param {Record<string, string>} values */
export function setQuery(values) {
  const search = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(values)) value ? search.set(key, value) : search.delete(key);
  history.replaceState(history.state, '', `${location.pathname}${search.size ? `?${search}` : ''}`);
}

/** @type {(why: 'push' | 'back' | 'replace') => void} */
let listener = () => {};

/** @param {string} path below `/ui`, with its query @param {boolean} [replace] */
export function go(path, replace) {
  history.replaceState({ ...history.state, scroll: scrollY }, '');
  if (replace) history.replaceState({}, '', BASE + path);
  else history.pushState({}, '', BASE + path);
  listener(replace ? 'replace' : 'push');
}

/** @param {(why: 'push' | 'back' | 'replace') => void} onChange */
export function startRouter(onChange) {
  listener = onChange;
  history.scrollRestoration = 'manual';
  addEventListener('popstate', () => listener('back'));
  addEventListener('pagehide', () => history.replaceState({ ...history.state, scroll: scrollY }, ''));
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
      return;
    const link = /** @type {Element} */ (event.target).closest('a[href]');
    if (!(link instanceof HTMLAnchorElement) || link.target || link.download) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(`${BASE}/`) || url.hash) return;
    event.preventDefault();
    go(url.pathname.slice(BASE.length) + url.search);
    refresh();
  });
}
