import { get, part } from '../lib/api.js';
import { number, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { query } from '../lib/router.js';
import { empty, shown } from './empty.js';
import { problemTexts, standing } from './number-problems.js';
import { badge } from './status.js';
import { moreButton, table } from './table.js';

/** @param {any} n @param {string} lane */
const waits = (n, lane) => number(n.lanes?.[lane]?.waiting);

/** The columns of a table of numbers. @param {import('./table.js').Column<any>[]} [more] after the number itself
 * @returns {import('./table.js').Column<any>[]} */
export const numberColumns = (more = []) => [
  { name: t('Number'), cell: (n) => html`<span dir="ltr">${n.phone ?? words(n.kind)}</span>` },
  ...more,
  {
    name: t('State'),
    cell: (n) =>
      html`${badge(n.state ?? (n.trouble ? 'stopped' : 'open'))} <span class="muted">${[n.reason ?? n.trouble, ...problemTexts(n)].filter(Boolean).join(' ')}</span>${standing(n)}`,
  },
  {
    name: t('Rate'),
    kind: 'num',
    cell: (n) => {
      const rate = n.pace?.now ?? n.messages_per_second;
      return rate ? t('{n} per second', { n: rate }) : '–';
    },
  },
  { name: t('Codes'), kind: 'num', cell: (n) => waits(n, 'otp') },
  { name: t('Single'), kind: 'num', cell: (n) => waits(n, 'single') },
  { name: t('Broadcast'), kind: 'num', cell: (n) => waits(n, 'broadcast') },
];

/** The number of rows that are requested at a time, from as many workspaces as needed. */
const PAGE = 50;
/** The maximum number of workspaces whose numbers are requested at once. */
const AT_ONCE = 8;

/** Lists the numbers of all workspaces, or of one: a screen of them, and more on request. */
function allNumbers() {
  const list = {
    /** @type {any[]} */
    rows: [],
    loaded: false,
    loading: false,
    more: true,
    total: 0,
    /** @type {any} */
    error: null,
    load: () => loadMore(),
    loadMore: () => loadMore(),
  };
  /** @type {{workspace: string, page: number}[]} whose numbers come next */
  const next = [];
  /** The next page of workspaces; 0 after the last. */
  let page = 1;
  /** @type {AbortSignal | undefined} */
  let signal;
  const nextWorkspaces = async () => {
    const only = query('workspace');
    if (only) {
      next.push({ workspace: only, page: 1 });
      page = 0;
      return;
    }
    const answer = await get('/admin/v1/workspaces', { page, limit: PAGE }, signal);
    next.push(...answer.data.map((/** @type {any} */ w) => ({ workspace: w.id, page: 1 })));
    page = page * PAGE < answer.total ? page + 1 : 0;
  };
  const some = async () => {
    if (!next.length) await nextWorkspaces();
    const asked = next.slice(0, AT_ONCE);
    const of = (/** @type {string} */ w) => `/admin/v1/workspaces/${part(w)}/numbers`;
    const numbers = (/** @type {{workspace: string, page: number}} */ it) =>
      get(of(it.workspace), { page: it.page, limit: PAGE }, signal).catch((error) => {
        // It was deleted meanwhile.
        if (error.status === 404) return { data: [], total: 0 };
        throw error;
      });
    const answers = await Promise.all(asked.map(numbers));
    // Removed only now, so that failed requests are repeated.
    next.splice(0, asked.length);
    answers.forEach(({ data, total }, i) => {
      const { workspace, page: at } = asked[i] ?? { workspace: '', page: 1 };
      list.rows.push(...data.map((/** @type {any} */ n) => ({ ...n, workspace })));
      if (at * PAGE < total) next.push({ workspace, page: at + 1 });
    });
  };
  const loadMore = async () => {
    if (list.loading) return;
    Object.assign(list, { loading: true, error: null });
    const wanted = list.rows.length + PAGE;
    try {
      while ((next.length || page) && list.rows.length < wanted) await some();
      list.loaded = true;
    } catch (error) {
      if (!signal?.aborted) list.error = error;
    }
    Object.assign(list, { loading: false, more: Boolean(next.length || page) });
    refresh();
  };
  /** Reloads one of the rows. @param {string} id */
  const reread = async (id) => {
    const at = list.rows.findIndex((n) => n.id === id);
    if (at < 0) return;
    const { workspace } = list.rows[at];
    const row = await get(`/admin/v1/workspaces/${part(workspace)}/numbers/${part(id)}`, {}, signal).catch(() => null);
    if (row) list.rows[at] = { ...row, workspace };
    refresh();
  };
  return {
    list,
    reread,
    /** @param {AbortSignal} s */
    open(s) {
      signal = s;
      return loadMore();
    },
  };
}

export function numbersTab() {
  const { list, open, reread } = allNumbers();
  return {
    open,
    onEvent: (/** @type {any} */ event) => reread(event.data?.number_id ?? ''),
    view: () =>
      shown(
        list,
        () =>
          html`${table({
            label: t('Numbers'),
            rows: list.rows,
            key: (n) => n.id,
            href: (n) => `/ui/operator/numbers/${part(n.workspace)}/${n.id}`,
            columns: numberColumns([{ name: t('Workspace'), cell: (n) => n.workspace }]),
          })}${moreButton(list)}`,
        () =>
          empty({
            icon: 'phone',
            title: t('No numbers'),
            text: t('Messages are sent from a number. Connect one with postrider numbers connect.'),
          }),
      ),
  };
}
