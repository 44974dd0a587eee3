/** The rows of an analysis, all of them, and what each broadcast or advertisement brought. */
import { get } from '../lib/api.js';
import { number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { table } from './table.js';

/** Rows of one page, and pages that are asked for. */
const PAGE = 200;
const PAGES = 25;
/** Broadcasts or advertisements that are shown. */
const SHOWN = 100;

/** The rows of all pages: those that are left out would be days on which nothing happened.
 * @param {string} path @param {Record<string, unknown>} query @param {AbortSignal | undefined} signal */
async function allPages(path, query, signal) {
  const first = await get(path, { ...query, limit: PAGE }, signal);
  const rows = [...first.data];
  for (let page = 2; rows.length < first.total && page <= PAGES; page++)
    rows.push(...(await get(path, { ...query, limit: PAGE, page }, signal)).data);
  return { ...first, data: rows };
}

/** @param {string} tab @param {string} path @param {Record<string, unknown>} query @param {AbortSignal | undefined} signal */
export async function rowsOf(tab, path, query, signal) {
  if (tab === 'ads') return allPages(path, query, signal);
  const [days, broadcasts] = await Promise.all([
    allPages(path, { ...query, group_by: 'day' }, signal),
    get(path, { ...query, group_by: 'broadcast', limit: SHOWN }, signal),
  ]);
  return { ...days, by: broadcasts.data, parts: broadcasts.total };
}

/** An advertisement's days together. @param {any[]} rows */
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

/** What each broadcast or advertisement brought. @param {string} tab @param {any} answer of `rowsOf` */
export function parts(tab, answer) {
  const ads = tab === 'ads';
  const all = ads ? byAd(answer.data) : answer.by;
  const missing = ads ? answer.data.length < answer.total : answer.by.length < answer.parts;
  return html`${table({
    label: ads ? t('By advertisement') : t('By broadcast'),
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
      ? html`<p class="hint foot">${t('The first {n} are shown; the download has all.', { n: SHOWN })}</p>`
      : ''
  }`;
}
