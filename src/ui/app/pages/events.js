/** The event log, as it happens. */
import { found, get, part, post } from '../lib/api.js';
import { on } from '../lib/dom.js';
import { dateTime, end, number, time } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { EVENT_TYPES } from '../lib/live.js';
import { html, refresh } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { can } from '../lib/session.js';
import { attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { downloadLink } from '../parts/csv.js';
import { empty, problem, searchOn, skeleton } from '../parts/empty.js';
import { about } from '../parts/feed.js';
import { choice, search } from '../parts/filter.js';
import { freshRows, scrolled } from '../parts/fresh.js';
import { e164, e164Now, select } from '../parts/form.js';
import { json } from '../parts/json.js';
import { idText } from '../parts/code.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {import('../lib/types.js').LiveEvent} LiveEvent */
const KEPT = 2000;

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  const state = {
    rows: /** @type {LiveEvent[]} */ ([]),
    held: /** @type {LiveEvent[]} */ ([]),
    paused: false,
    loaded: false,
    loading: false,
    error: /** @type {any} */ (null),
    open: /** @type {LiveEvent | null} */ (null),
    cursor: /** @type {string | null} */ (null),
  };
  /** @type {AbortSignal | undefined} */
  let signal;
  const fits = (/** @type {LiveEvent} */ e, what = e164Now(query('about'))) =>
    [e.type, ''].includes(query('type')) && JSON.stringify(e.data).includes(what);
  const read = (/** @type {number} */ limit, /** @type {string | null} */ cursor) =>
    found('/v1/events', { order: 'desc', limit, types: query('type'), about: e164Now(query('about')), cursor }, signal);
  let turn = 0;
  /** Reads the newest events down to those that are known; `anew`: the first fifty of another filter. */
  const load = async (anew = false) => {
    const mine = ++turn;
    const newest = anew ? 0 : (state.rows[0]?.sequence ?? 0);
    /** @type {LiveEvent[]} */
    const seen = [];
    try {
      let cursor = /** @type {string | null} */ (null);
      do {
        const answer = await read(seen.length ? 200 : 50, cursor);
        if (mine !== turn) return;
        seen.push(...answer.data);
        cursor = answer.next_cursor;
      } while (newest && cursor && seen.length < KEPT && (seen.at(-1)?.sequence ?? 0) > newest);
      // The stream may have been ahead of the answer; and what is known goes on below it.
      const first = seen[0]?.sequence ?? 0;
      const known = [...state.held, ...state.rows].filter((e) => !anew || (fits(e) && e.sequence > first));
      const all = new Map([...seen, ...known].map((e) => [e.sequence, e]));
      const rows = [...all.values()].sort((a, b) => b.sequence - a.sequence).slice(0, KEPT);
      const goesOn = newest && (seen.at(-1)?.sequence ?? 0) <= newest;
      Object.assign(state, { rows, loaded: true, error: null, held: [], cursor: goesOn ? state.cursor : cursor });
    } catch (error) {
      if (mine === turn && !signal?.aborted) state.error = error;
    }
    refresh();
  };
  const older = async () => {
    state.loading = true;
    await attempt(async () => {
      const answer = await read(50, state.cursor);
      const known = new Set(state.rows.map((e) => e.id));
      state.rows = [...state.rows, ...answer.data.filter((/** @type {LiveEvent} */ e) => !known.has(e.id))].slice(
        0,
        KEPT,
      );
      state.cursor = answer.next_cursor;
    });
    state.loading = false;
  };
  /** @param {LiveEvent | null} event */
  const pick = (event) => {
    state.open = event;
    setQuery({ event: event?.id ?? '' });
    if (event)
      requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector('.side h2'))?.focus());
  };
  const resume = () => {
    state.rows = [...state.held, ...state.rows].slice(0, KEPT);
    Object.assign(state, { paused: false, held: [] });
  };
  const set = (/** @type {Record<string, string>} */ values) => {
    setQuery(values);
    return load(true);
  };

  const aside = (/** @type {LiveEvent} */ e) => html`<aside class="side card" aria-label=${t('Event')}>
    <div class="card-head"><h2 tabindex="-1"><code>${e.type}</code></h2><button type="button" class="quiet icon-only"
      aria-label=${t('Close')} onclick=${() => pick(null)}>${icon('close')}</button></div>
    <p class="muted">${time(e.timestamp, dateTime)} · ${t('sequence {n}', { n: e.sequence })}</p><p>${idText(e.id)}</p>
    ${json(e, t('Event'))}
    ${can('webhooks:manage') ? html`<div class="row end"><button type="button" onclick=${() => replay(e)}>${t('Replay to endpoint')}
      </button></div>` : ''}</aside>`;

  return {
    title: 'Events',
    wide: true,
    async open(_, s) {
      signal = s;
      await load();
      const id = query('event');
      if (!id) return;
      state.open =
        state.rows.find((e) => e.id === id) ?? (await get(`/v1/events/${part(id)}`, {}, s).catch(() => null));
    },
    onEvent(event) {
      if (!event.sequence) return;
      const about = e164Now(query('about'));
      if (!fits(event)) return /^\+\d+$/.test(about) && fits(event, end(about)) ? load() : undefined;
      // What is read does not jump away: below the first rows, new ones wait for a click.
      const wait = state.paused || scrolled();
      if (!wait && state.held.length) resume();
      const into = wait ? state.held : state.rows;
      if (state.rows.some((e) => e.id === event.id)) return;
      into.unshift(event);
      if (into.length > KEPT) into.pop();
    },
    resync: () => load(),
    actions: () =>
      state.paused
        ? html`<button type="button" class="primary" onclick=${resume}>${icon('play')}${t('Resume')}</button>${state.held.length
          ? html`<span class="muted">${t('{n} new', { n: state.held.length })}</span>` : ''}`
        : html`<button type="button" onclick=${() => {
            state.paused = true;
          }}>${icon('pause')}${t('Pause')}</button>`,
    view: () => html`
      <div class="toolbar">${choice(t('Type'), query('type'),
        [['', t('All')], ...EVENT_TYPES.map((x) => /** @type {[string, string]} */ ([x, x]))], (v) => set({ type: v }))}
        ${search(t('About'), query('about'), (v) => e164(v).then(() => set({ about: v })), t('Phone or ID'))}<span class="grow"></span>
        ${downloadLink({ path: '/v1/events', query: () => ({ types: query('type'), about: e164Now(query('about')) }), name: 'events.jsonl', type: 'application/x-ndjson' })}</div>
      <div class=${state.open ? 'with-side' : ''}>
      <section aria-label=${t('Live')} onkeydown=${on((e) => e.key === 'Escape' && pick(null))}>
        ${freshRows(state.paused ? 0 : state.held.length, resume)}
        ${state.error ? problem(state.error, () => load()) : ''}${!state.loaded && !state.error ? skeleton() : ''}
        ${state.loaded && state.rows.length === 0 ? state.cursor ? searchOn({ loading: state.loading, loadMore: older }) : empty({ icon: 'events', title: t('No events'),
          text: t('Every event in the workspace is recorded here, in order and without gaps.'), call: { method: 'GET',
          path: '/v1/events?limit=50' } }) : ''}
        ${
          state.rows.length
            ? html`${table({
                label: t('Events'),
                rows: state.rows,
                key: (e) => e.id,
                onpick: pick,
                selected: (e) => e.id === state.open?.id,
                columns: [
                  { name: t('About'), cell: (e) => html`<span dir="auto">${about(e) || '–'}</span>` },
                  { name: t('Type'), kind: 'tight', cell: (e) => html`<code>${e.type}</code>` },
                  { name: t('Time'), kind: 'when', cell: (e) => time(e.timestamp) },
                ],
              })}
        ${moreButton({ more: state.cursor !== null && state.rows.length < KEPT, loading: state.loading, loadMore: older, rows: state.rows, total: 0 })}`
            : ''
        }
      </section>${state.open ? aside(state.open) : ''}</div>`,
  };
}

/** @param {LiveEvent} event */
async function replay(event) {
  const hooks = /** @type {any} */ (await attempt(() => get('/v1/webhooks', { limit: 100 })));
  if (!hooks) return;
  let to = hooks.data[0]?.id ?? '';
  const send = () =>
    attempt(async () => {
      const answer = await post(`/v1/webhooks/${part(to)}/replay`, { event_id: event.id });
      notify(t('Deliveries queued: {n}', { n: answer.queued }));
      close();
    });
  const close = overlay(() =>
    dialog(
      t('Replay to endpoint'),
      close,
      to
        ? select({
            label: t('Endpoint'),
            value: to,
            options: hooks.data.map((/** @type {any} */ h) => [h.id, h.url]),
            change: (v) => {
              to = v;
            },
          })
        : html`<p>${t('There are no endpoints yet.')} <a href="/ui/webhooks" onclick=${() => close()}>${t('Webhooks')}</a></p>`,
      {
        kind: 'small',
        actions: html`<button type="button" class="primary" ?disabled=${!to} onclick=${send}>${t('Replay')}</button>`,
      },
    ),
  );
}
