/** The person who is signed in, and their permissions. */
import { call, context } from './api.js';
import { setClock } from './format.js';
import { refresh } from './render.js';
import { stopLive } from './live.js';

/** @import { Me } from './types.js' */

export const session = {
  /** @type {Me | null} */
  me: null,
  sandbox: false,
  /** @type {string[]} */
  methods: [],
  /** Set if a link was refused; shown on "Sign in". */
  refused: false,
};

const others = new BroadcastChannel('postrider-session');

/** @param {string} permission or several, of which one is enough */
export function can(permission) {
  const { me } = session;
  return Boolean(me) && permission.split(' ').some((it) => (it === 'operator' ? me?.operator : me?.permissions.includes(it)));
}

/** Returns a path of the workspace's administration. @param {string} rest */
export const adminPath = (rest) => `/admin/v1/workspaces/${encodeURIComponent(context.workspace)}${rest}`;

/** @param {Me} me */
function accept(me) {
  session.me = me;
  session.sandbox = me.sandbox;
  const wanted = localStorage.getItem('workspace');
  const known = me.workspaces.some((w) => w.id === wanted);
  context.workspace = (known && wanted) || me.workspace?.id || me.workspaces[0]?.id || '';
  setClock(me.now, me.offset_seconds);
}

/** Removes a link's token from the address and signs in, or finds the cookie's session. */
export async function startSession() {
  const link = /^#in=([\w-]+)/.exec(location.hash)?.[1];
  if (link) {
    history.replaceState(history.state, '', location.pathname + location.search);
    try {
      await signIn({ link });
      return;
    } catch {
      session.refused = true;
    }
  }
  const state = await call('GET', '/ui/api/session', { quiet: true });
  session.sandbox = Boolean(state?.sandbox);
  session.methods = state?.methods ?? [];
  if (state?.me && !session.refused) await enter(state.me);
}

/** @param {string} workspace @returns {Promise<Me>} */
const who = (workspace) =>
  call('GET', '/v1/me', { quiet: true, headers: workspace ? { 'Postrider-Workspace': workspace } : {} });

/** A person with several workspaces gets their permissions only for the named one. @param {Me} me */
async function enter(me) {
  accept(me);
  if (context.workspace && me.workspace?.id !== context.workspace) accept(await who(context.workspace));
}

/** Reloads the person and their permissions, which differ between workspaces. */
export async function reload() {
  const wanted = localStorage.getItem('workspace') ?? '';
  try {
    await enter(await who(wanted));
  } catch (error) {
    if (!wanted) throw error;
    localStorage.removeItem('workspace');
    await enter(await who(''));
  }
}

/** @param {Record<string, string>} body of `POST /ui/api/session`, or of what else signs in @param {string} [path] */
export async function signIn(body, path = '/ui/api/session') {
  const me = await call('POST', path, { body, quiet: true });
  session.refused = false;
  await enter(me);
  others.postMessage('in');
}

export async function signOut() {
  try {
    await call('DELETE', '/ui/api/session', { quiet: true });
  } finally {
    others.postMessage('out');
    ended();
  }
}

/** Handles the end of the session, here or in another tab. */
export function ended() {
  if (!session.me) return;
  session.me = null;
  context.workspace = '';
  stopLive();
  context.onSignedOut();
  refresh();
}

others.onmessage = (/** @type {MessageEvent} */ event) => {
  if (event.data === 'out') ended();
};
