import { call, get, part, post, remove } from '../lib/api.js';
import { member, members, textOf, whole } from '../lib/exact.js';
import { dateTime, end, time } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go } from '../lib/router.js';
import { can } from '../lib/session.js';
import { Resource, Rows } from '../lib/store.js';
import { contactForm } from '../parts/contact-form.js';
import { idText } from '../parts/code.js';
import { ask, attempt, notify } from '../parts/dialog.js';
import { shown } from '../parts/empty.js';
import { button } from '../parts/form.js';
import { facts, label } from '../parts/status.js';
import { moreButton } from '../parts/table.js';
import { timeline } from '../parts/timeline.js';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let id = '';
  /** @type {AbortSignal | undefined} */
  let signal;
  const path = () => `/v1/contacts/${part(id)}`;
  /** @param {AbortSignal} [s] @returns {Promise<string>} as it is written */
  const read = (s) => call('GET', path(), { raw: true, signal: s });
  /** @type {Resource<any>} */
  const contact = new Resource(async (s) => whole(await read(s)));
  const events = new Rows(
    '',
    () => ({}),
    (/** @type {any} */ e) => e.id,
  );
  /** By which of its names it has opted out; whoever has two has opted out by both. */
  const optOuts = new Resource(async (s) => {
    const { phone, user_id } = contact.data;
    return phone || user_id ? get('/v1/suppressions', phone ? { phone } : { user_id }, s) : { total: 0 };
  });
  const load = async () => {
    await Promise.all([contact.load(signal), events.load(signal)]);
    if (contact.data) await optOuts.load(signal);
  };
  const edit = () =>
    contactForm({
      title: t('Edit contact'),
      contact: contact.data,
      read,
      save: async (text) => {
        contact.data = whole(await call('PATCH', path(), { text, raw: true }));
      },
    });
  const name = () => contact.data?.name || contact.data?.phone || t('No name');
  const drop = () =>
    ask({
      title: t('Delete {name}?', { name: name() }),
      text: t('The contact leaves all segments. Its conversations and the texts of its messages are deleted.'),
      action: t('Delete contact'),
      run: () =>
        attempt(async () => {
          await remove(path());
          go('/contacts');
        }),
    });
  const party = () => contact.data.phone ?? contact.data.user_id;
  const optOut = () =>
    attempt(async () => {
      const body = contact.data.phone ? { phone: contact.data.phone } : { user_id: contact.data.user_id };
      await post('/v1/suppressions', { ...body, reason: t('Opted out in the dashboard') });
      notify(t('{name} will no longer receive broadcasts or marketing messages', { name: name() }), { undo: optIn });
      await load();
    });
  const optIn = () =>
    attempt(async () => {
      await remove(`/v1/suppressions/${part(party())}`);
      notify(t('Opt-out removed'), { undo: optOut });
      await load();
    });
  const out = () => optOuts.data?.total > 0;
  /** Nothing is said before it is known. */
  const marketing = () => {
    if (optOuts.error) return t('The opt-out status could not be loaded.');
    if (!optOuts.data) return '–';
    return out() ? label('warning', 'stop', t('Opted out')) : label('good', 'check', t('Allowed'));
  };

  return {
    title: () => (contact.data ? name() : t('Contact')),
    open(params, s) {
      [id, signal] = [params['id'] ?? '', s];
      events.path = `${path()}/timeline`;
      return load();
    },
    onEvent: (event) =>
      event.data?.contact_id === id || (contact.data?.phone && event.data?.phone?.endsWith(end(contact.data.phone)))
        ? load()
        : undefined,
    resync: load,
    actions: () =>
      contact.data && can('contacts:write')
        ? html`${button(t('Edit'), edit)}
      ${party() && optOuts.data ? (out() ? button(t('Remove opt-out'), optIn) : button(t('Opt out'), optOut)) : ''}${button(t('Delete'), drop, { kind: 'danger' })}`
        : '',
    view: () => html`${shown(contact, () => {
      const c = contact.data;
      return html`<section class="card">${facts([
        [t('Name'), html`<span dir="auto">${c.name}</span>`],
        [t('Phone'), c.phone ? html`<span dir="ltr">${c.phone}</span>` : null],
        [t('E-mail'), c.email],
        [t('Username'), c.username],
        [t('Marketing'), marketing()],
        [
          t('Tags'),
          c.tags.length
            ? html`<span class="tags">${c.tags.map((/** @type {string} */ x) => html`<span key=${x} class="tag">${x}</span>`)}</span>`
            : null,
        ],
        ...members(member(c.written, 'custom_fields', '{}')).map(
          ([k, json]) => /** @type {[string, unknown]} */ ([k, html`<span class="lines" dir="auto">${textOf(json)}</span>`]),
        ),
        [t('Created'), time(c.created_at, dateTime)],
        [t('Updated'), time(c.updated_at, dateTime)],
        [t('ID'), idText(c.id)],
      ])}</section>`;
    })}
      <section class="section"><h2>${t('Timeline')}</h2>${shown(events, () => html`${timeline(events.rows)}${moreButton(events)}`)}</section>`,
  };
}
