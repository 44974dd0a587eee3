/**
 * Addresses. Pages lie below `/ui` as history paths; an address holds page, filters and selection, and
 * each entry of the history keeps how far the page was scrolled.
 */
import { refresh } from './render.js';

/**
 * @typedef {Record<string, string>} Params
 * @typedef {{
 *   title: string | (() => string), open?: (params: Params, signal: AbortSignal) => unknown, view: () => unknown,
 *   actions?: () => unknown, onEvent?: (event: import('./live.js').LiveEvent) => unknown, wide?: boolean,
 *   resync?: () => unknown, changed?: (params: Params) => unknown
 * }} Page
 * @typedef {{path: string, file: string, permission?: string, open?: boolean}} Route
 */

export const BASE = '/ui';

/** @type {Route[]} */
const ROUTES = [
  { path: '/', file: 'home' },
  { path: '/sign-in', file: 'sign-in', open: true },
  { path: '/join', file: 'join', open: true },
  { path: '/me', file: 'me' },
  { path: '/phone', file: 'phone', permission: 'sandbox:use' },
  { path: '/codes', file: 'codes', permission: 'otp:read' },
  { path: '/codes/:id', file: 'code', permission: 'otp:read' },
  { path: '/messages', file: 'messages', permission: 'messages:read' },
  { path: '/messages/:id', file: 'message', permission: 'messages:read' },
  { path: '/inbox', file: 'inbox', permission: 'inbox:read' },
  { path: '/inbox/:id', file: 'inbox', permission: 'inbox:read' },
  { path: '/broadcasts', file: 'broadcasts', permission: 'broadcasts:read' },
  { path: '/broadcasts/new', file: 'broadcast-new', permission: 'broadcasts:write' },
  { path: '/broadcasts/:id', file: 'broadcast', permission: 'broadcasts:read' },
  { path: '/contacts', file: 'contacts', permission: 'contacts:read' },
  { path: '/contacts/:id', file: 'contact', permission: 'contacts:read' },
  { path: '/import', file: 'import', permission: 'contacts:write' },
  { path: '/segments', file: 'segments', permission: 'contacts:read' },
  { path: '/segments/:id', file: 'segment', permission: 'contacts:read' },
  { path: '/templates', file: 'templates', permission: 'templates:read' },
  { path: '/events', file: 'events', permission: 'events:read' },
  { path: '/webhooks', file: 'webhooks', permission: 'webhooks:manage' },
  { path: '/webhooks/:id', file: 'webhook', permission: 'webhooks:manage' },
  { path: '/keys', file: 'api-keys', permission: 'keys:manage' },
  { path: '/explorer', file: 'explorer', open: true },
  { path: '/explorer/:id', file: 'explorer', open: true },
  { path: '/requests', file: 'requests', permission: 'requests:read' },
  { path: '/analytics', file: 'analytics', permission: 'analytics:read' },
  { path: '/analytics/:tab', file: 'analytics', permission: 'analytics:read' },
  { path: '/settings', file: 'settings' },
  { path: '/settings/:tab', file: 'settings' },
  { path: '/operator', file: 'operator', permission: 'operator' },
  { path: '/operator/numbers/:workspace/:id', file: 'number', permission: 'operator' },
  { path: '/operator/:tab', file: 'operator', permission: 'operator' },
];

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
