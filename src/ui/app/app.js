/** Start: the words, the session, the page of the address; then one render for every change. */
import { context } from './lib/api.js';
import { ahead } from './lib/format.js';
import { preferred, t, useLanguage } from './lib/i18n.js';
import { startKeys } from './lib/keys.js';
import { listen, startLive } from './lib/live.js';
import { html, mount, refresh } from './lib/render.js';
import { BASE, currentPath, go, match, startRouter } from './lib/router.js';
import { can, session, startSession } from './lib/session.js';
import { frame, startProblems, tellProblems } from './parts/frame.js';
import { problem } from './parts/empty.js';

/** @import { Page, Route } from './lib/types.js' */

/** @type {{page: Page | null, path: string, route: string}} */
const state = { page: null, path: '', route: '' };
/** @type {AbortController} */
let leaving = new AbortController();
let liveFor = '';
/** The number of the newest navigation, which is the one that counts. */
let turn = 0;

/** @type {Page} */
const notFound = {
  title: () => t('Page not found'),
  view: () =>
    html`<p class="muted">${t('There is no page at this address.')}</p><p><a href="/ui/">${t('Home')}</a></p>`,
};
/** @type {Page} */
const notAllowed = {
  title: () => t('Not allowed'),
  view: () =>
    html`<p class="muted">${t('Your role in this workspace doesn’t have access to this page. Ask an owner to change your role.')}</p>`,
};

/** @param {'push' | 'back' | 'replace' | 'first'} why */
async function navigate(why) {
  const path = currentPath();
  const found = match(path);
  if (!session.me && !found?.route.open) {
    const next = path === '/' ? '' : `?next=${encodeURIComponent(path + location.search)}`;
    go(`/sign-in${next}`, true);
    return;
  }
  const mine = ++turn;
  // Two addresses of one page, such as a conversation beside its list: the page stays.
  if (found && state.page?.changed && state.route === found.route.file) {
    state.path = path;
    state.page.changed(found.params);
    refresh();
    return;
  }
  const allowed = !found?.route.may || can(found.route.may);
  const page = !found ? notFound : !allowed ? notAllowed : await load(found.route);
  // A newer navigation was faster than the page's files; until its files come, the old page stays.
  if (mine !== turn) return;
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  context.calls = [];
  Object.assign(state, { page, path, route: allowed ? (found?.route.file ?? '') : '' });
  follow();
  if (page.open)
    Promise.resolve(page.open(found?.params ?? {}, signal)).catch((error) => signal.aborted || console.error(error));
  refresh();
  requestAnimationFrame(() => requestAnimationFrame(() => settle(why, signal)));
}

/** @param {Route} route @returns {Promise<Page>} */
async function load(route) {
  try {
    return (await import(`./pages/${route.file}.js`)).default();
  } catch (error) {
    console.error(error);
    return {
      title: t('This page could not be loaded'),
      view: () => problem({ message: String(error) }, () => location.reload()),
    };
  }
}

/** Focuses the heading, and restores the scroll after "Back". @param {string} why @param {AbortSignal} signal */
function settle(why, signal) {
  const heading = /** @type {HTMLElement | null} */ (document.querySelector('main h1'));
  if (why !== 'first' && !document.querySelector('main [autofocus]')) heading?.focus({ preventScroll: true });
  const wanted = why === 'back' || why === 'first' ? Number(history.state?.scroll ?? 0) : 0;
  scrollTo(0, wanted);
  // The rows may come later than the page.
  for (const wait of wanted ? [100, 300, 700] : []) setTimeout(() => !signal.aborted && scrollTo(0, wanted), wait);
}

/** Starts the stream of the workspace, if there is a session. */
function follow() {
  if (!session.me) {
    liveFor = '';
    return;
  }
  if (!context.workspace || liveFor === context.workspace) return;
  liveFor = context.workspace;
  startLive(
    context.workspace,
    can('events:read') && can('otp:read') && can('inbox:read') && can('contacts:read') && can('broadcasts:read'),
  );
  startProblems();
}

function title() {
  const page = state.page;
  return typeof page?.title === 'function' ? page.title() : t(page?.title ?? '');
}

function view() {
  const heading = title();
  document.title = heading ? `${heading} · Postrider` : 'Postrider';
  return frame({ page: state.page, title: heading, path: state.path, route: state.route, ahead: ahead() });
}

async function start() {
  const container = document.querySelector('#app');
  if (!container) return;
  const theme = localStorage.getItem('theme');
  if (theme) document.documentElement.dataset['theme'] = theme;
  if (localStorage.getItem('rows')) document.documentElement.dataset['rows'] = localStorage.getItem('rows') ?? '';
  try {
    await Promise.all([useLanguage(preferred()), startSession()]);
  } catch (error) {
    container.className = '';
    mount(() => html`<main class="alone">${problem(error, () => location.reload())}</main>`, container);
    return;
  }
  context.onSignedOut = () => {
    session.me = null;
    liveFor = '';
    if (!match(currentPath())?.route.open) navigate('replace');
  };
  context.confirm = async () => (await import('./parts/confirm.js')).confirmDialog();
  listen(
    (event) => {
      tellProblems(event);
      state.page?.onEvent?.(event);
    },
    () => state.page?.resync?.(),
  );
  // A link in a tab that already shows the page changes only the fragment.
  addEventListener('hashchange', () => /^#(in|invite)=/.test(location.hash) && location.reload());
  startRouter(navigate);
  startKeys();
  if (session.refused) go('/sign-in', true);
  else await navigate('first');
  container.className = '';
  mount(view, container);
  // The other pages, so that the next one opens at once.
  setTimeout(() => import('./pages/codes.js').catch(() => {}), 2000);
}

if (location.pathname.startsWith(BASE)) start();
