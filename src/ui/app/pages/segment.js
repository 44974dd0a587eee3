import { call, part, remove } from '../lib/api.js';
import { whole } from '../lib/exact.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go } from '../lib/router.js';
import { can } from '../lib/session.js';
import { Resource, Rows } from '../lib/store.js';
import { ask, attempt } from '../parts/dialog.js';
import { empty, shown } from '../parts/empty.js';
import { button } from '../parts/form.js';
import { describe, segmentDialog } from '../parts/segment-form.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {import('../lib/types.js').Contact} Contact */

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let id = '';
  /** @type {AbortSignal | undefined} */
  let signal;
  const path = () => `/v1/segments/${part(id)}`;
  /** @param {AbortSignal} [s] @returns {Promise<string>} as it is written */
  const read = (s) => call('GET', path(), { raw: true, signal: s });
  /** @type {Resource<any>} */
  const segment = new Resource(async (s) => whole(await read(s)));
  const rows = new Rows(
    '',
    () => ({}),
    (/** @type {Contact} */ c) => c.id,
  );
  const load = () => Promise.all([segment.load(signal), rows.load(signal)]);
  const edit = () => segmentDialog({ segment: segment.data, read, after: load });
  const drop = () =>
    ask({
      title: t('Delete {name}?', { name: segment.data.name }),
      text: t('Its contacts and past broadcasts are not deleted.'),
      action: t('Delete segment'),
      run: () =>
        attempt(async () => {
          await remove(path());
          go('/segments');
        }),
    });
  return {
    title: () => segment.data?.name ?? t('Segment'),
    open(params, s) {
      [id, signal] = [params['id'] ?? '', s];
      rows.path = `${path()}/contacts`;
      return load();
    },
    onEvent: (event) => (event.type.startsWith('contact.') ? (rows.refetch(), segment.load(signal)) : undefined),
    resync: load,
    actions: () =>
      segment.data
        ? html`${can('broadcasts:write') ? html`<a class="button primary" href=${`/ui/broadcasts/new?segment=${id}`}>${t('Send a broadcast')}</a>` : ''}
      ${can('contacts:write') ? html`${button(t('Edit'), edit)}${button(t('Delete'), drop, { kind: 'danger' })}` : ''}`
        : '',
    view: () =>
      shown(
        segment,
        () => html`<p class="lead-line"><b>${t('{n} contacts', { n: segment.data.contacts_count ?? rows.total })}</b> <span
          class="muted">${describe(segment.data.filter)}</span></p>
      ${shown(
        rows,
        () =>
          html`${table({
            label: t('Contacts'),
            rows: rows.rows,
            key: (c) => c.id,
            href: (c) => `/ui/contacts/${c.id}`,
            columns: [
              { name: t('Name'), cell: (c) => html`<span dir="auto">${c.name}</span>` },
              { name: t('Phone'), cell: (c) => html`<span dir="ltr">${c.phone ?? '–'}</span>` },
              { name: t('E-mail'), cell: (c) => c.email ?? '–' },
              {
                name: t('Tags'),
                cell: (c) =>
                  html`<span class="tags">${c.tags.map((x) => html`<span key=${x} class="tag">${x}</span>`)}</span>`,
              },
            ],
          })}${moreButton(rows)}`,
        () =>
          empty({
            icon: 'segments',
            title: t('No matching contacts yet'),
            text: t('Contacts that match the filter join the segment automatically.'),
          }),
      )}`,
      ),
  };
}
