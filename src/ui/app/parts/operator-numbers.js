import { get, part } from '../lib/api.js';
import { number, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { Resource } from '../lib/store.js';
import { empty, shown } from './empty.js';
import { badge } from './status.js';
import { table } from './table.js';

export function numbersTab() {
  /** @type {any[]} */
  let rows = [];
  const all = new Resource(async (s) => {
    const workspaces = await get('/admin/v1/workspaces', { limit: 100 }, s);
    const lists = await Promise.all(
      workspaces.data.map(async (/** @type {any} */ w) =>
        (await get(`/admin/v1/workspaces/${part(w.id)}/numbers`, { limit: 100 }, s)).data.map(
          (/** @type {any} */ n) => ({ ...n, workspace: w.id }),
        ),
      ),
    );
    rows = lists.flat();
    return rows;
  });
  /** @param {any} n @param {string} lane */
  const waits = (n, lane) => number(n.lanes?.[lane]?.waiting);
  return {
    /** @param {AbortSignal} s */
    open: (s) => all.load(s),
    view: () =>
      shown(all, () =>
        rows.length
          ? table({
              label: t('Numbers'),
              rows,
              key: (n) => n.id,
              href: (n) => `/ui/operator/numbers/${part(n.workspace)}/${n.id}`,
              columns: [
                { name: t('Number'), cell: (n) => n.phone ?? words(n.kind) },
                { name: t('Workspace'), cell: (n) => n.workspace },
                {
                  name: t('State'),
                  cell: (n) =>
                    html`${badge(n.state ?? (n.trouble ? 'stopped' : 'open'))} <span class="muted">${n.reason ?? n.trouble ?? ''}</span>`,
                },
                {
                  name: t('Rate'),
                  kind: 'num',
                  cell: (n) => {
                    const rate = n.pace?.now ?? n.messages_per_second;
                    return rate ? t('{n} a second', { n: rate }) : '–';
                  },
                },
                { name: t('Codes'), kind: 'num', cell: (n) => waits(n, 'otp') },
                { name: t('Single'), kind: 'num', cell: (n) => waits(n, 'single') },
                { name: t('Broadcast'), kind: 'num', cell: (n) => waits(n, 'broadcast') },
              ],
            })
          : empty({
              icon: 'phone',
              title: t('No numbers'),
              text: t('Messages leave from a number. Connect one with postrider numbers.'),
            }),
      ),
  };
}

