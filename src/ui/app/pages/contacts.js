import { call, get } from '../lib/api.js';
import { on, paced } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { go, query, setQuery } from '../lib/router.js';
import { can } from '../lib/session.js';
import { bulk } from '../parts/contact-bulk.js';
import { asked, CLEAR, filterBar } from '../parts/contact-filter.js';
import { notify } from '../parts/dialog.js';
import { empty, problem, skeleton } from '../parts/empty.js';
import { choice, search } from '../parts/filter.js';
import { announced, freshRows } from '../parts/fresh.js';
import { button } from '../parts/form.js';
import { VirtualList } from '../parts/list.js';
import { contactForm } from '../parts/contact-form.js';

/** @typedef {import('../lib/types.js').Contact} Contact */

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {Map<string, Contact>} */
  const selected = new Map();
  /** @type {string[]} */
  let tags = [];
  /** Contacts that came while the list was scrolled. */
  let fresh = 0;
  const loadSoon = paced(async () => {
    if (signal?.aborted) return;
    // Below the first rows, new ones wait for a click.
    const { total } = list.top > list.rowHeight ? await get('/v1/contacts', { ...asked(), limit: 1 }, signal) : list;
    fresh = Math.max(0, total - list.total);
    if (fresh) refresh();
    else await list.load(signal);
  });
  const again = () => {
    list.restore = 0;
    list.box?.scrollTo(0, 0);
    many.clear();
    fresh = 0;
    return list.load(signal);
  };
  const set = (/** @type {Record<string, string>} */ values) => {
    setQuery(values);
    return again();
  };
  /** @type {VirtualList<Contact>} */
  const list = new VirtualList({
    path: '/v1/contacts',
    id: (/** @type {Contact} */ c) => c.id,
    query: () => ({ ...asked(), sort: query('sort') }),
  });

  const add = () =>
    contactForm({
      title: t('New contact'),
      save: async (text) => {
        const made = await call('POST', '/v1/contacts', { text });
        notify(t('{name} is a contact now', { name: made.name }));
        go(`/contacts/${made.id}`);
      },
    });

  const many = bulk({ selected, total: () => list.total, tags: () => tags, done: () => list.load(signal) });
  /** @param {Contact} c */
  const box = (
    c,
  ) => html`<input type="checkbox" aria-label=${t('Select {name}', { name: c.name || c.phone || c.id })} .checked=${selected.has(c.id)}
    onchange=${on((e) => (e.target.checked ? selected.set(c.id, c) : selected.delete(c.id)))}>`;

  return {
    title: 'Contacts',
    wide: true,
    async open(_, s) {
      signal = s;
      await list.load(s);
      get('/v1/contacts/tags', {}, s).then(
        (r) => {
          tags = r.data.map((/** @type {any} */ x) => x.tag);
          refresh();
        },
        () => {},
      );
    },
    onEvent(event) {
      if (event.type.startsWith('contact.')) loadSoon();
    },
    resync: () => list.load(signal),
    actions: () =>
      can('contacts:write')
        ? html`<a class="button" href="/ui/import">${icon('import')}${t('Import')}</a><button type="button" class="primary"
          onclick=${add}>${icon('plus')}${t('New contact')}</button>`
        : '',
    view: () => html`<div class="contacts-page">
      <div class="toolbar">${search(t('Search contacts'), query('search'), (v) => set({ search: v }), t('Name, phone, e-mail'))}
        ${filterBar(tags, again)}
        ${choice(
          t('Order'),
          query('sort'),
          [
            ['', t('Unsorted')],
            ['name', t('Name')],
            ['-created_at', t('Newest first')],
            ['created_at', t('Oldest first')],
            ['-updated_at', t('Changed last')],
          ],
          (v) => set({ sort: v }),
        )}
        <span class="grow"></span><span class="muted" role="status" aria-live="off" aria-label=${t('Contacts found')}>${list.loaded
          ? t('{n} contacts', { n: list.total }) : ''}</span></div>
      ${fresh ? freshRows(fresh, again) : announced(list.loaded ? t('{n} contacts', { n: list.total }) : '')}
      ${selected.size && can('contacts:write') ? many.view() : ''}
      ${
        !list.loaded
          ? list.error
            ? problem(list.error, () => list.load(signal))
            : skeleton(10)
          : list.total === 0
            ? none(() => set(CLEAR), add)
            : list.view({
                label: t('Contacts'),
                href: (c) => `/ui/contacts/${c.id}`,
                ...(can('contacts:write') ? { lead: box } : {}),
                selected: (c) => selected.has(c.id),
                columns: [
                  { name: t('Name'), cell: (c) => c.name || t('No name') },
                  { name: t('Phone'), cell: (c) => html`<span dir="ltr">${c.phone ?? '–'}</span>` },
                  {
                    name: t('E-mail'),
                    cell: (c) => html`<span class="one-line">${c.email ?? '–'}</span>`,
                  },
                  {
                    name: t('Tags'),
                    cell: (c) =>
                      html`<span class="tags" title=${c.tags.length > 3 ? c.tags.join(', ') : null}>${c.tags.slice(0, 3).map((x) => html`<span key=${x} class="tag" dir="auto">${x}
                        </span>`)}${c.tags.length > 3 ? html`<span class="muted" dir="ltr">+${c.tags.length - 3}</span>` : ''}</span>`,
                  },
                ],
              })
      }</div>`,
  };
}

/** @param {() => unknown} clear @param {() => unknown} add */
const none = (clear, add) =>
  Object.values(asked()).some(Boolean)
    ? empty({
        icon: 'search',
        title: t('No contact fits'),
        text: t('Try other words or another tag.'),
        action: html`<button type="button" onclick=${clear}>${t('Clear filters')}</button>`,
      })
    : empty({
        icon: 'contacts',
        title: t('No contacts yet'),
        text: t('Who writes to you becomes a contact by itself. Others come from a CSV file, the API or this page.'),
        action: can('contacts:write')
          ? html`<a class="button primary" href="/ui/import">${t('Import contacts')}</a><button type="button" onclick=${add}>${t('New contact')}</button>`
          : '',
        call: {
          method: 'POST',
          path: '/v1/contacts',
          body: { name: 'Ada Lovelace', phone: '+15550123456', tags: ['vip'] },
        },
      });
