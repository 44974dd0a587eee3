/** Conversations: a list, a thread and its contact. */
import { call, get, part, patch } from '../lib/api.js';
import { typed } from '../lib/dom.js';
import { initials, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { can, session } from '../lib/session.js';
import { Resource, Rows } from '../lib/store.js';
import { attempt, notify } from '../parts/dialog.js';
import { empty, shown } from '../parts/empty.js';
import { search } from '../parts/filter.js';
import { button, radios } from '../parts/form.js';
import { composer } from '../parts/composer.js';
import { contactAside, conversationList, threadLog } from '../parts/conversation.js';
import { notes } from '../parts/notes.js';
import { badge } from '../parts/status.js';
import { icon } from '../lib/icons.js';
import { countdown } from '../parts/countdown.js';

/** @typedef {import('../lib/types.js').Conversation} Conversation */
/** @typedef {import('../lib/types.js').Written} Written */

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let id = '';
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {{name: string, at: number} | null} */
  let typing = null;
  /** The sent messages that are not yet in the server's thread. @type {Written[]} */
  let waiting = [];
  const filter = () => ({
    assigned_to: { mine: 'me', unassigned: 'none' }[query('show')] ?? '',
    status: query('status'),
    search: query('search'),
  });
  const rows = new Rows('/v1/conversations', filter, (/** @type {Conversation} */ c) => c.id);
  const counts = new Resource((s) => get('/v1/conversations/counts', {}, s));
  const thread = new Rows(
    '',
    () => ({}),
    (/** @type {Written} */ m) => m.id,
  );
  const one = new Resource((s) => get(`/v1/conversations/${part(id)}`, {}, s));
  /** Set if the contact is open as a drawer over the thread, where three columns do not fit. */
  let aside = false;
  const toggle = (/** @type {boolean} */ on) => {
    aside = on;
    const next = on ? '.contact-aside > .aside-button' : '.thread-head > .aside-button';
    requestAnimationFrame(() => requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector(next))?.focus()));
  };
  const written = notes();
  const compose = composer({
    conversation: () => one.data,
    sent: (/** @type {Written} */ m) => {
      waiting = [m, ...waiting];
      bottom();
    },
    settled: () => {
      loadThread();
    },
    failed: (/** @type {string} */ failedId) => {
      waiting = waiting.filter((m) => m.id !== failedId);
    },
    typing: () => {
      if (id) call('POST', `/v1/conversations/${part(id)}/typing`, { quiet: true }).catch(() => {});
    },
  });

  const bottom = () =>
    requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector('.thread')?.scrollTo(0, 1e9)));
  const loadThread = async () => {
    const asked = id;
    const log = document.querySelector('.thread');
    const atEnd = !log || log.scrollHeight - log.scrollTop - log.clientHeight < 80;
    await thread.load(signal);
    if (asked !== id) return;
    const known = new Set(thread.rows.map((m) => m.id));
    waiting = waiting.filter((m) => !known.has(m.id));
    if (atEnd) bottom();
    refresh();
  };
  const read = () => {
    const row = rows.rows.find((c) => c.id === id);
    if (!id || document.hidden || !(row?.unread || one.data?.unread) || !can('inbox:write')) return;
    rows.change(id, { unread: 0 });
    call('POST', `/v1/conversations/${part(id)}/read`, { quiet: true }).then(
      () => counts.load(signal),
      () => {},
    );
  };
  /** @param {string} next */
  const choose = async (next) => {
    id = next;
    Object.assign(thread, { path: `/v1/conversations/${part(id)}/messages`, rows: [], loaded: false, error: null });
    [waiting, typing] = [[], null];
    one.data = /** @type {any} */ (rows.rows.find((c) => c.id === id) ?? null);
    compose.open(id);
    if (!id) return;
    written.open(id, signal);
    await Promise.all([one.load(signal), loadThread()]);
    bottom();
    read();
  };
  /** Shows a change at once; a refusal reverts it. @param {Record<string, unknown>} change @param {Partial<Conversation>} seen */
  const change = (change, seen) =>
    attempt(async () => {
      const [which, before] = [id, one.data];
      /** Another conversation may be open when the answer comes. @param {any} row */
      const show = (row) => {
        if (which === id) one.data = row;
        rows.change(which, row);
      };
      show({ ...before, ...seen });
      try {
        show(await patch(`/v1/conversations/${part(which)}`, change));
      } catch (error) {
        show(before);
        throw error;
      }
      counts.load(signal);
      return true;
    });
  /** Makes a change with an undo. @param {string} said @param {Record<string, unknown>} to @param {Partial<Conversation>} seen
   * @param {Record<string, unknown>} before */
  const undoable = async (said, to, seen, before) => {
    const which = id;
    if (await change(to, seen)) notify(said, { undo: () => restore(which, before) });
  };
  const restore = (/** @type {string} */ which, /** @type {Record<string, unknown>} */ before) =>
    attempt(async () => {
      const row = await patch(`/v1/conversations/${part(which)}`, before);
      rows.change(which, row);
      if (which === id) one.data = row;
      counts.load(signal);
    });
  const assign = () => {
    const { id: own = '', name = '' } = session.me?.principal ?? {};
    const before = { assigned_to: one.data?.assigned_to ?? null };
    return undoable(t('Assigned to {name}', { name }), { assigned_to: 'me' }, { assignee: { id: own, name } }, before);
  };
  const resolve = () =>
    undoable(t('Resolved'), { status: 'resolved' }, { status: 'resolved' }, { status: one.data?.status ?? 'open' });
  const reopen = () => undoable(t('Opened'), { status: 'open' }, { status: 'open' }, { status: 'resolved' });
  const set = (/** @type {Record<string, string>} */ values) => {
    setQuery(values);
    return rows.load(signal);
  };

  /** @param {any} event */
  const take = (event) => {
    const d = event.data ?? {};
    if (event.type === 'conversation.typing') {
      if (d.conversation_id === id && d.user?.id !== session.me?.principal.id)
        typing = { name: d.user?.name ?? d.name ?? t('Someone'), at: Date.now() };
      return;
    }
    if (event.type === 'conversation.noted') return d.conversation_id === id ? written.load() : undefined;
    if (!/^(conversation|message|contact)\./.test(event.type)) return;
    if (event.type.startsWith('message.') && d.message_id && event.type !== 'message.received' && d.broadcast_id)
      return;
    rows.refetch();
    counts.load(signal);
    const mine =
      d.conversation_id === id ||
      thread.rows.some((m) => m.id === d.message_id) ||
      waiting.some((m) => m.id === d.message_id);
    if (!id || !(mine || event.type.startsWith('message.'))) return;
    loadThread().then(read);
    if (d.conversation_id !== id) return;
    one.load(signal);
    if (event.type.startsWith('conversation.')) written.load();
  };

  const toolbar = (/** @type {Conversation} */ c) => html`<header class="thread-head">
    <a class="back button quiet icon-only" href=${`/ui/inbox${location.search}`} aria-label=${t('Conversations')}>${icon('chevron')}</a>
    <span class="avatar" aria-hidden="true">${initials(c.contact.name || '?')}</span>
    <div class="grow"><h2 class="one-line" dir="auto">${c.contact.name || c.contact.phone || c.contact.email}</h2>
      <p class="row thread-state">${badge(c.status)}${c.channel === 'email' ? html`<span class="muted">${t('E-mail')}
        </span>` : countdown(t('Reply window'), c.reply_window?.closes_at ?? null, t('Closed'))}
      <span class="muted one-line">${c.assignee ? t('Assigned to {name}', { name: c.assignee.name }) : c.assigned_to
        ? t('Assigned to {name}', { name: c.assigned_to }) : t('Unassigned')}</span></p></div>
    ${
      can('inbox:write')
        ? html`<div class="row">
      ${c.assignee?.id === session.me?.principal.id ? '' : html`<button type="button" data-key="assign" onclick=${assign}>${t('Assign to me')}</button>`}
      ${c.status === 'resolved' ? button(t('Reopen'), reopen) : html`<button type="button" data-key="resolve" onclick=${resolve}>
        ${t('Resolve')}</button>`}</div>`
        : ''
    }<button type="button" class="quiet icon-only aside-button" aria-label=${t('Contact')} aria-expanded=${String(aside)}
      onclick=${() => toggle(!aside)}>${icon('person')}</button></header>`;

  const others = () =>
    typing && Date.now() - typing.at < 10_000 ? t('{name} is replying', { name: typing.name }) : '';
  const conversation = () => html`<section class="conversation" aria-label=${t('Conversation')}>
    ${one.data ? toolbar(one.data) : ''}
    ${threadLog(thread, waiting)}
    <p class="others" role="status" aria-label=${t('Other agents')}>${others()}</p>
    ${can('inbox:write') && one.data ? compose.view() : ''}</section>`;

  /** @param {string} show */
  const count = (show) =>
    counts.data
      ? ` ${show === 'mine' ? counts.data.mine : show === 'unassigned' ? counts.data.unassigned : counts.data.open + counts.data.pending + counts.data.resolved}`
      : '';
  return {
    title: 'Inbox',
    wide: true,
    async open(params, s) {
      signal = s;
      id = params['id'] ?? '';
      s.addEventListener('abort', () => compose.keep());
      await Promise.all([rows.load(s), counts.load(s), id ? choose(id) : null]);
      read();
    },
    changed: (params) => choose(params['id'] ?? ''),
    onEvent: take,
    resync: () => {
      rows.load(signal);
      counts.load(signal);
      if (id) {
        one.load(signal);
        loadThread();
      }
    },
    view: () => html`<div class=${`inbox ${id ? 'has-one' : ''} ${id && aside ? 'show-aside' : ''}`}>
      <div class="inbox-list">
        <div class="inbox-filter">${radios(
          t('Show'),
          query('show') || 'all',
          [
            ['mine', t('Mine')],
            ['unassigned', t('Unassigned')],
            ['all', t('All')],
          ],
          (v) => set({ show: v === 'all' ? '' : v }),
        )}
          <div class="row nowrap">${search(t('Search conversations'), query('search'), (v) => set({ search: v }), t('Search'))}
          <select aria-label=${t('Status')} .value=${query('status')} onchange=${typed((v) => set({ status: v }))}>
            ${['', 'open', 'pending', 'resolved'].map((v) => html`<option key=${v} value=${v}>${v ? words(v) : t('Any status')}</option>`)}</select></div>
          <p class="hint">${counts.data ? t('{open} open, {unread} unread',
            { open: counts.data.open, unread: counts.data.unread }) : '\u00a0'}<span class="sr">${count(query('show'))}</span></p></div>
        ${shown(
          rows,
          () => conversationList(rows, id, () => rows.loadMore(signal)),
          () =>
            empty({
              icon: 'inbox',
              title: t('No conversations'),
              text:
                query('search') || query('show') || query('status')
                  ? t('No conversations match your search or filters.')
                  : t('New conversations appear here as soon as a customer writes to you.'),
              action:
                session.sandbox && !query('search')
                  ? html`<a class="button" href="/ui/phone">${t('Write as a customer')}</a>`
                  : '',
            }),
        )}
      </div>
      ${id ? conversation() : html`<div class="conversation none">
        ${empty({ icon: 'message', title: t('Choose a conversation'), text: t('Use j and k to move, Enter to open.') })}</div>`}
      ${id && one.data ? contactAside(one.data, written.view(), () => toggle(false)) : ''}</div>`,
  };
}
