import { call, get, post } from '../lib/api.js';
import { on, paced, submit } from '../lib/dom.js';
import { list, t } from '../lib/i18n.js';
import { icon } from '../lib/icons.js';
import { html, refresh } from '../lib/render.js';
import { go, query, setQuery } from '../lib/router.js';
import { can } from '../lib/session.js';
import { bound, sending } from '../parts/bound.js';
import { asFilter, asked, CLEAR, filterBar } from '../parts/contact-filter.js';
import { contactForm } from '../parts/contact-form.js';
import { ask, attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { empty, problem, skeleton } from '../parts/empty.js';
import { choice, search } from '../parts/filter.js';
import { button, formError } from '../parts/form.js';
import { announced, freshRows } from '../parts/fresh.js';
import { VirtualList } from '../parts/list.js';

/** @typedef {import('../lib/types.js').Contact} Contact */

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {Map<string, Contact>} */
  const selected = new Map();
  /** @type {string[]} */
  let tags = [];
  /** The number of contacts that came while the list was scrolled. */
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
        notify(t('{name} was added to contacts', { name: made.name }));
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
          t('Sort by'),
          query('sort'),
          [
            ['', t('Default order')],
            ['name', t('Name')],
            ['-created_at', t('Newest first')],
            ['created_at', t('Oldest first')],
            ['-updated_at', t('Recently updated')],
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
        title: t('No matching contacts'),
        text: t('Try a different search or different filters.'),
        action: html`<button type="button" onclick=${clear}>${t('Clear filters')}</button>`,
      })
    : empty({
        icon: 'contacts',
        title: t('No contacts yet'),
        text: t('People who message you become contacts automatically. Add others here, from a CSV file or through the API.'),
        action: can('contacts:write')
          ? html`<a class="button primary" href="/ui/import">${t('Import contacts')}</a><button type="button" onclick=${add}>${t('New contact')}</button>`
          : '',
        call: {
          method: 'POST',
          path: '/v1/contacts',
          body: { name: 'Ada Lovelace', phone: '+15550123456', tags: ['vip'] },
        },
      });

/** The interface's paths of the typed tag. */
const TAGS = ['add_tags', 'remove_tags'];

/**
 * @param {{selected: Map<string, Contact>, total: () => number, tags: () => string[], done: () => unknown}} list
 */
function bulk({ selected, total, tags, done }) {
  /** Set if all found contacts are chosen, even those that were never in sight. */
  let all = false;
  const count = () => (all ? total() : selected.size);
  /** @param {object} change @param {object | null} [undo] what takes it back */
  const run = async (change, undo) => {
    const whom = all ? { filter: asFilter() } : { ids: [...selected.keys()] };
    await send({ ...whom, ...change }, undo);
    clear();
  };
  /** @param {object} body @param {object | null} [undo] */
  const send = async (body, undo) => {
    const { contacts } = await post('/v1/contacts/bulk', body);
    notify(t('Applied to {n} contacts', { n: contacts }), undo ? { undo: () => attempt(() => send(undo)) } : {});
    await done();
  };
  /** Returns the change that undoes a tag, only for the contacts that it changes: others had it before, or not.
   * @param {boolean} adds @param {string} tag */
  const back = (adds, tag) => {
    const ids = [...selected.values()].filter((c) => c.tags.includes(tag) !== adds).map((c) => c.id);
    return all || !ids.length ? null : { ids, [adds ? 'remove_tags' : 'add_tags']: [tag] };
  };
  const clear = () => {
    all = false;
    selected.clear();
  };
  /** @param {string} title @param {boolean} adds */
  const tagDialog = (title, adds) => {
    const state = { tag: '', busy: false, error: /** @type {any} */ (null) };
    const save = () =>
      sending(state, async () => {
        const tag = state.tag.trim();
        await run({ [adds ? 'add_tags' : 'remove_tags']: [tag] }, back(adds, tag));
        close();
      });
    const close = overlay(() =>
      dialog(
        title,
        () => close(),
        html`<form class="stack" onsubmit=${submit(save)}>${bound(state, 'tag', { label: t('Tag'), list: tags(), focus: true, required: true }, ...TAGS)}
        ${formError(state.error, TAGS)}<div class="row end"><button class="primary" ?disabled=${state.busy || !state.tag.trim()}>${title}</button></div></form>`,
        { kind: 'small' },
      ),
    );
  };
  /** Returns the first of the chosen contacts. */
  const names = () => {
    const first = [...selected.values()].slice(0, 5).map((c) => c.name || c.phone || c.id);
    const more = selected.size - first.length;
    return list(more ? [...first, t('{n} more', { n: more })] : first);
  };
  const drop = () =>
    ask({
      title: t('Delete {n} contacts?', { n: count() }),
      text: html`<p>${all ? t('This includes all contacts that match the current filters.') : names()}</p>
        <p>${t('The contacts leave all segments. Their conversations and the texts of their messages are deleted.')}</p>`,
      action: t('Delete'),
      run: () => attempt(() => run({ delete: true })),
    });
  return {
    clear,
    view: () => html`<div class="selection" role="toolbar" aria-label=${t('Selected contacts')}><b>${t('{n} selected', { n: count() })}</b>
      ${
        !all && selected.size < total()
          ? button(
              t('Select all {n}', { n: total() }),
              () => {
                all = true;
              },
              { kind: 'quiet' },
            )
          : ''
      }
      ${button(t('Add tag'), () => tagDialog(t('Add tag'), true))}${button(t('Remove tag'), () => tagDialog(t('Remove tag'), false))}
      ${button(t('Delete'), drop, { kind: 'danger' })}${button(t('Clear'), clear, { kind: 'quiet' })}</div>`,
  };
}
