import { get, part, patch, post, remove } from '../lib/api.js';
import { on, typed, submit } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { go } from '../lib/router.js';
import { can } from '../lib/session.js';
import { ask, attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { empty, problem, skeleton } from '../parts/empty.js';
import { choice, filters, search } from '../parts/filter.js';
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
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;
  const filter = filters(['search', 'tag', 'sort'], () => {
    list.restore = 0;
    list.box?.scrollTo(0, 0);
    return list.load(signal);
  });
  /** @type {VirtualList<Contact>} */
  const list = new VirtualList({
    path: '/v1/contacts',
    id: (/** @type {Contact} */ c) => c.id,
    query: () => ({ search: filter.values.search, tags_any: filter.values.tag, sort: filter.values.sort }),
  });

  const add = () =>
    contactForm({
      title: t('New contact'),
      save: async (body) => {
        const made = await post('/v1/contacts', body);
        notify(t('{name} is a contact now', { name: made.name }));
        go(`/contacts/${made.id}`);
      },
    });

  /** @param {string} title @param {(c: Contact, tag: string) => string[]} change */
  const tagDialog = (title, change) => {
    let tag = '';
    const run = () =>
      attempt(async () => {
        const all = [...selected.values()];
        for (const c of all) await patch(`/v1/contacts/${part(c.id)}`, { name: c.name, tags: change(c, tag.trim()) });
        notify(t('Changed: {n} contacts', { n: all.length }));
        selected.clear();
        close();
        await list.load(signal);
      });
    const close = overlay(() =>
      dialog(
        title,
        () => close(),
        html`<form class="stack" onsubmit=${submit(run)}>
      <label class="field"><span class="label">${t('Tag')}</span><input list="known-tags" autofocus .value=${tag} oninput=${typed(
        (v) => {
          tag = v;
        },
      )}></label>
      <datalist id="known-tags">${tags.map((x) => html`<option value=${x}></option>`)}</datalist>
      <div class="row end"><button class="primary" ?disabled=${!tag.trim()}>${title}</button></div></form>`,
        { kind: 'small' },
      ),
    );
  };
  const drop = () =>
    ask({
      title: t('Delete {n} contacts?', { n: selected.size }),
      text: html`<p>${[...selected.values()]
        .slice(0, 5)
        .map((c) => c.name || c.phone)
        .join(
          ', ',
        )}${selected.size > 5 ? '…' : ''}</p><p>${t('They are gone from segments too. Their conversations stay.')}</p>`,
      action: t('Delete'),
      run: () =>
        attempt(async () => {
          for (const id of selected.keys()) await remove(`/v1/contacts/${part(id)}`);
          selected.clear();
          await list.load(signal);
        }),
    });

  /** @param {Contact} c */
  const box = (
    c,
  ) => html`<input type="checkbox" aria-label=${t('Select {name}', { name: c.name || c.phone || c.id })} .checked=${selected.has(c.id)}
    onchange=${on((e) => (e.target.checked ? selected.set(c.id, c) : selected.delete(c.id)))}>`;
  const bar =
    () => html`<div class="selection" role="toolbar" aria-label=${t('Selected contacts')}><b>${t('{n} selected', { n: selected.size })}</b>
    ${button(t('Add tag'), () => tagDialog(t('Add tag'), (c, tag) => [...new Set([...c.tags, tag])]))}
    ${button(t('Remove tag'), () => tagDialog(t('Remove tag'), (c, tag) => c.tags.filter((x) => x !== tag)))}
    ${button(t('Delete'), drop, { kind: 'danger' })}${button(t('Clear'), () => selected.clear(), { kind: 'quiet' })}</div>`;

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
      if (!event.type.startsWith('contact.')) return;
      clearTimeout(soon);
      soon = setTimeout(() => list.load(signal), 400);
    },
    resync: () => list.load(signal),
    actions: () =>
      can('contacts:write')
        ? html`<a class="button" href="/ui/import">${icon('import')}${t('Import')}</a><button type="button" class="primary"
          onclick=${add}>${icon('plus')}${t('New contact')}</button>`
        : '',
    view: () => html`<div class="contacts-page">
      <div class="toolbar">${search(t('Search contacts'), filter.values.search, (v) => filter.set('search', v), t('Name, phone, e-mail'))}
        ${tags.length ? choice(t('Tag'), filter.values.tag,
          [['', t('All')], ...tags.map((x) => /** @type {[string, string]} */ ([x, x]))], (v) => filter.set('tag', v)) : ''}
        ${choice(
          t('Order'),
          filter.values.sort,
          [
            ['', t('Unsorted')],
            ['name', t('Name')],
            ['-created_at', t('Newest first')],
            ['created_at', t('Oldest first')],
            ['-updated_at', t('Changed last')],
          ],
          (v) => filter.set('sort', v),
        )}
        <span class="grow"></span><span class="muted" role="status" aria-label=${t('Contacts found')}>${list.loaded
          ? t('{n} contacts', { n: list.total }) : ''}</span></div>
      ${selected.size && can('contacts:write') ? bar() : ''}
      ${
        !list.loaded
          ? list.error
            ? problem(list.error, () => list.load(signal))
            : skeleton(10)
          : list.total === 0
            ? none(filter, add)
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
                    kind: 'wide-only',
                    cell: (c) => html`<span class="one-line">${c.email ?? '–'}</span>`,
                  },
                  {
                    name: t('Tags'),
                    kind: 'wide-only',
                    cell: (c) =>
                      html`<span class="tags nowrap">${c.tags.slice(0, 3).map((x) => html`<span key=${x} class="tag">${x}
                        </span>`)}${c.tags.length > 3 ? html`<span class="muted">+${c.tags.length - 3}</span>` : ''}</span>`,
                  },
                ],
              })
      }</div>`,
  };
}

/** @param {any} filter @param {() => unknown} add */
const none = (filter, add) =>
  filter.used
    ? empty({
        icon: 'search',
        title: t('No contact fits'),
        text: t('Try other words or another tag.'),
        action: html`<button type="button" onclick=${() => filter.clear()}>${t('Clear filters')}</button>`,
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
