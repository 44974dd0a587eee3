import { get } from '../lib/api.js';
import { asTable, bars } from '../lib/chart.js';
import { on } from '../lib/dom.js';
import { number, percent, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { downloadLink } from '../parts/csv.js';
import { empty, shown } from '../parts/empty.js';
import { period } from '../parts/period.js';
import { figure } from '../parts/status.js';
import { table } from '../parts/table.js';

/** @typedef {{name: string, key: string, tone: string}} Series */

/** @returns {Record<string, {title: string, path: string, series: Series[]}>} */
const tabs = () => ({
  codes: {
    title: t('Codes'),
    path: '/v1/analytics/otp',
    series: [
      { name: t('Sent'), key: 'sent', tone: 'light' },
      { name: t('Verified'), key: 'verified', tone: 'good' },
      { name: t('Failed'), key: 'failed', tone: 'bad' },
    ],
  },
  broadcasts: {
    title: t('Broadcasts'),
    path: '/v1/analytics/campaigns',
    series: [
      { name: t('Sent'), key: 'sent', tone: 'light' },
      { name: t('Delivered'), key: 'delivered', tone: '' },
      { name: t('Read'), key: 'read', tone: 'good' },
      { name: t('Failed'), key: 'failed', tone: 'bad' },
    ],
  },
  ads: {
    title: t('Ads'),
    path: '/v1/analytics/ads',
    series: [
      { name: t('Conversations'), key: 'conversations', tone: '' },
      { name: t('Messages'), key: 'messages', tone: 'light' },
    ],
  },
  inbox: {
    title: t('Inbox'),
    path: '/v1/conversations/days',
    series: [
      { name: t('Received'), key: 'received', tone: 'light' },
      { name: t('Sent'), key: 'sent', tone: '' },
      { name: t('Opened'), key: 'opened', tone: 'warning' },
      { name: t('Resolved'), key: 'resolved', tone: 'good' },
    ],
  },
});

/** @param {Promise<any>} days @param {AbortSignal | undefined} signal */
async function withCounts(days, signal) {
  const [found, counts] = await Promise.all([days, get('/v1/conversations/counts', {}, signal)]);
  return { ...found, counts };
}

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let tab = 'codes';
  let asText = false;
  /** @type {AbortSignal | undefined} */
  let signal;
  const range = period(() => data.load(signal), { usual: '30' });
  const asked = () => ({ ...range.dates(), ...(tab === 'codes' ? { group_by: 'day' } : {}) });
  const data = new Resource((s) => {
    const { path } = /** @type {any} */ (tabs()[tab]);
    if (tab === 'inbox') return withCounts(get(path, asked(), s), s);
    return tab === 'codes' ? get(path, asked(), s) : rowsOf(tab, path, asked(), s);
  });
  const load = () => {
    data.data = null;
    return data.load(signal);
  };
  /** Returns the bars: the rows of one day are one bar. */
  const days = () => {
    const { series } = /** @type {any} */ (tabs()[tab]);
    /** @type {Map<string, any>} */
    const all = new Map();
    const { from, to } = range.dates();
    for (let d = Date.parse(from); d <= Date.parse(to) && all.size < 366; d += 86_400_000) {
      const key = new Date(d).toISOString().slice(0, 10);
      all.set(key, { day: key, ...Object.fromEntries(series.map((/** @type {Series} */ s) => [s.key, 0])) });
    }
    for (const row of data.data?.data ?? []) {
      const into = all.get(row.day ?? row.date);
      if (into) for (const s of series) into[s.key] += Number(row[s.key] ?? 0);
    }
    return [...all.values()];
  };
  const csv = () => {
    const { path } = /** @type {any} */ (tabs()[tab]);
    const { from, to } = range.dates();
    return downloadLink({ path, query: asked, name: `${tab}-${from}-${to}.csv` });
  };
  const short = (/** @type {any} */ d) => d.day.slice(5);
  const totals = () => {
    const { series } = /** @type {any} */ (tabs()[tab]);
    const rows = days();
    const sum = (/** @type {string} */ key) => data.data.totals?.[key] ?? rows.reduce((all, r) => all + r[key], 0);
    return html`<dl class="figures">
      ${series.map((/** @type {Series} */ s, /** @type {number} */ i) => 
        figure(s.name, number(sum(s.key)), i && tab !== 'inbox' && sum(series[0].key) ? percent(sum(s.key) / sum(series[0].key)) : ''))}</dl>`;
  };
  const chart = () => {
    const { title, series } = /** @type {any} */ (tabs()[tab]);
    const rows = days();
    if (!data.data.data.length)
      return empty({
        icon: 'analytics',
        title: t('No data for this period'),
        text: t('Choose a different period or check back later.'),
      });
    return html`<div class="stack">${totals()}<section class="card">${asText ? asTable(title, t('Day'), rows,
      (r) => r.day, series) : bars({ label: t('{what} by day', { what: title }), rows, x: short, series })}</section>
      ${tab === 'codes' || tab === 'inbox' ? '' : html`<section>${parts(tab, data.data)}</section>`}</div>`;
  };
  /** Shows the present state of conversations above the events. */
  const inbox = () =>
    html`<div class="stack"><section aria-label=${t('Conversations')}><dl class="figures">
      ${['open', 'pending', 'resolved', 'mine', 'unassigned', 'unread']
        .map((k) => figure(words(k), number(data.data.counts[k])))}</dl></section>${chart()}</div>`;
  const names = () => Object.entries(tabs()).filter(([key]) => can(key === 'inbox' ? 'inbox:read' : 'analytics:read'));
  /** Returns the tab of the address, or the first that this role may see. @param {string | undefined} wanted */
  const choose = (wanted) => {
    const all = names().map(([key]) => key);
    tab = all.find((key) => key === wanted) ?? all[0] ?? 'inbox';
  };
  /** @param {any} e */
  const keys = (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[/** @type {string} */ (e.key)];
    if (!step) return;
    const all = [...e.currentTarget.querySelectorAll('[role=tab]')];
    const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    next?.focus();
    next?.click();
  };
  return {
    title: 'Analytics',
    open(params, s) {
      signal = s;
      choose(params['tab']);
      return load();
    },
    changed(params) {
      choose(params['tab']);
      return load();
    },
    resync: () => data.load(signal),
    actions: () => html`<button type="button" aria-pressed=${asText} onclick=${() => {
        asText = !asText;
      }}>${t('As table')}</button>
      ${csv()}`,
    view: () => html`<div class="row between bottom tabs-line"><div class="tabs" role="tablist" aria-label=${t('Analytics')}
      onkeydown=${on(keys)}>${names().map(([key, { title }]) => html`<a key=${key} role="tab" id=${`tab-${key}`}
      aria-selected=${key === tab} aria-controls="tab-panel" tabindex=${key === tab ? 0 : -1}
      href=${`/ui/analytics/${key}${location.search}`}>${title}</a>`)}</div>
      ${range.view()}<p class="hint">${t('Days are in UTC')}</p></div>
      <div id="tab-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`}>${shown(data, () => (tab === 'inbox' ? inbox() : chart()))}</div>`,
  };
}

/** The number of rows of one page, and the maximum number of pages that are requested. */
const PAGE = 200;
const PAGES = 25;
/** The maximum number of broadcasts or advertisements that are shown. */
const SHOWN = 100;

/** Loads the rows of all pages: a missing row would appear as a day without events.
 * @param {string} path @param {Record<string, unknown>} query @param {AbortSignal | undefined} signal */
async function allPages(path, query, signal) {
  const first = await get(path, { ...query, limit: PAGE }, signal);
  const rows = [...first.data];
  for (let page = 2; rows.length < first.total && page <= PAGES; page++)
    rows.push(...(await get(path, { ...query, limit: PAGE, page }, signal)).data);
  return { ...first, data: rows };
}

/** @param {string} tab @param {string} path @param {Record<string, unknown>} query @param {AbortSignal | undefined} signal */
async function rowsOf(tab, path, query, signal) {
  if (tab === 'ads') return allPages(path, query, signal);
  const [days, broadcasts] = await Promise.all([
    allPages(path, { ...query, group_by: 'day' }, signal),
    get(path, { ...query, group_by: 'broadcast', limit: SHOWN }, signal),
  ]);
  return { ...days, by: broadcasts.data, parts: broadcasts.total };
}

/** Sums up the days of each advertisement. @param {any[]} rows */
function byAd(rows) {
  /** @type {Map<string, any>} */
  const by = new Map();
  for (const row of rows) {
    const into = by.get(row.source_id) ?? { ...row, conversations: 0, messages: 0 };
    into.conversations += row.conversations;
    into.messages += row.messages;
    by.set(row.source_id, into);
  }
  return [...by.values()].sort((a, b) => b.conversations - a.conversations);
}

/** @returns {[string, string][]} */
const ofAds = () => [
  ['conversations', t('Conversations')],
  ['messages', t('Messages')],
];

/** @returns {[string, string][]} */
const ofBroadcasts = () => [
  ['sent', t('Sent')],
  ['delivered', t('Delivered')],
  ['read', t('Read')],
  ['failed', t('Failed')],
  ['replied', t('Replied')],
];

/** Shows the results of each broadcast or advertisement. @param {string} tab @param {any} answer of `rowsOf` */
function parts(tab, answer) {
  const ads = tab === 'ads';
  const all = ads ? byAd(answer.data) : answer.by;
  const missing = ads ? answer.data.length < answer.total : answer.by.length < answer.parts;
  return html`${table({
    label: ads ? t('By ad') : t('By broadcast'),
    rows: all.slice(0, SHOWN),
    key: (r) => r.broadcast_id ?? r.source_id,
    href: (r) => (ads ? null : `/ui/broadcasts/${r.broadcast_id}`),
    columns: [
      { name: t('Name'), cell: (r) => html`<span dir="auto">${r.name ?? r.headline ?? r.source_id ?? r.broadcast_id}</span>` },
      ...(ads ? ofAds() : ofBroadcasts()).map(([key, name]) => ({
        name,
        kind: /** @type {'num'} */ ('num'),
        cell: (/** @type {any} */ r) => number(r[key]),
      })),
    ],
  })}${
    missing || all.length > SHOWN
      ? html`<p class="hint foot">${t('Showing the first {n}. The download includes everything.', { n: SHOWN })}</p>`
      : ''
  }`;
}
