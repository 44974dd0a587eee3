import { call, part } from '../lib/api.js';
import { debounce, submit } from '../lib/dom.js';
import { member, members, object, readable, whole } from '../lib/exact.js';
import { number } from '../lib/format.js';
import { list as named, t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { bound, sending } from './bound.js';
import { chips } from './chips.js';
import { dialog, overlay } from './dialog.js';
import { errorFor, formError, submitButton } from './form.js';
import { ownFields } from './own-fields.js';

/** Returns a filter in words. @param {any} f @returns {string} */
export function describe(f) {
  const pieces = [];
  if (f.tags_any?.length) pieces.push(t('any of the tags {tags}', { tags: named(f.tags_any) }));
  if (f.tags_all?.length) pieces.push(t('all of the tags {tags}', { tags: named(f.tags_all) }));
  if (f.tags_none?.length) pieces.push(t('none of the tags {tags}', { tags: named(f.tags_none) }));
  for (const [name, value] of Object.entries(f.custom_fields ?? {})) pieces.push(`${name} = ${readable(value)}`);
  if (f.custom_fields_exist?.length) pieces.push(t('has {fields}', { fields: named(f.custom_fields_exist) }));
  if (f.search) pieces.push(t('contains “{text}”', { text: f.search }));
  return pieces.join(' · ') || t('All contacts');
}

/** The parts of a filter that are lists. */
const LISTS = ['tags_any', 'tags_all', 'tags_none', 'custom_fields_exist'];

/** Returns a filter's form: only touched parts change, the rest stays as it is written.
 * @param {any} segment @param {() => unknown} changed */
function filterForm(segment, changed) {
  const f = segment?.filter ?? {};
  const before = member(segment?.written ?? '{}', 'filter', '{}');
  const lists = new Map(LISTS.map((name) => [name, chips(f[name] ?? [], changed)]));
  const own = ownFields(members(member(before, 'custom_fields', '{}')), { typed: false, changed });
  const state = { search: f.search ?? '', error: /** @type {any} */ (null) };
  /** @param {string} name @param {import('../lib/types.js').Field} how */
  const list = (name, how) => lists.get(name)?.view({ ...how, error: errorFor(state.error, `filter.${name}`) });
  return {
    touched: () => own.touched() || state.search !== (f.search ?? '') || [...lists.values()].some((it) => it.touched()),
    ready: () => own.ready(),
    /** Returns the filter. @param {string} [now] as it is by then */
    json(now = before) {
      const all = new Map(members(now));
      /** @param {string} name @param {string} json @param {unknown} there whether it asks for anything */
      const put = (name, json, there) => (there ? all.set(name, json) : all.delete(name));
      for (const [name, one] of lists) {
        const texts = one.of(JSON.parse(all.get(name) ?? '[]'));
        if (one.touched()) put(name, JSON.stringify(texts), texts.length);
      }
      const fields = own.of(members(all.get('custom_fields') ?? '{}'));
      if (own.touched()) put('custom_fields', object(fields), fields.length);
      const search = state.search.trim();
      if (state.search !== (f.search ?? '')) put('search', JSON.stringify(search), search);
      return object(all);
    },
    named: [...LISTS, 'search', 'custom_fields'].map((name) => `filter.${name}`),
    /** @param {any} error */
    view(error) {
      state.error = error;
      return html`<div class="columns tight">
      ${list('tags_any', { label: t('Any of these tags'), hint: t('Press Enter to add one. Commas are allowed.') })}
        ${list('tags_all', { label: t('All of these tags') })}
      ${list('tags_none', { label: t('None of these tags') })}${list('custom_fields_exist', { label: t('Has these fields') })}</div>
    ${own.view({ label: t('Custom field values'), error: errorFor(error, 'filter.custom_fields') })}
    ${bound(state, 'search', { label: t('Contains'), hint: t('Searches name, phone and e-mail.'), error: errorFor(error, 'filter.search'), input: changed })}`;
    },
  };
}

/**
 * Opens the dialog "New segment": a filter whose contacts are counted while it is written.
 * @param {{segment?: any, read?: () => Promise<string>, after: (segment: any) => unknown}} options
 * `segment` as `whole` made it; `read` reads it once more
 */
export function segmentDialog({ segment, read = async () => '{}', after }) {
  const name = segment?.name ?? '';
  const state = {
    name,
    count: /** @type {{contacts: number, with_phone: number, suppressed: number} | null} */ (null),
    error: /** @type {any} */ (null),
    countError: /** @type {any} */ (null),
    busy: false,
  };
  let turn = 0;
  const count = debounce(async () => {
    const mine = ++turn;
    try {
      const answer = await call('POST', '/v1/segments/count', { text: `{"filter":${filter.json()}}` });
      if (mine === turn) [state.count, state.countError] = [answer, null];
    } catch (error) {
      if (mine === turn) [state.count, state.countError] = [null, error];
    }
    refresh();
  }, 150);
  const filter = filterForm(segment, count);
  count();
  /** @param {string} now */
  const body = (now) => {
    /** @type {[string, string][]} */
    const all = [];
    if (state.name !== name) all.push(['name', JSON.stringify(state.name.trim())]);
    if (!segment || filter.touched()) all.push(['filter', filter.json(member(now, 'filter', '{}'))]);
    return object(all);
  };
  const save = () =>
    sending(state, async () => {
      if (!filter.ready()) return;
      if (segment && state.name === name && !filter.touched()) return close();
      const [method, path] = segment ? ['PATCH', `/v1/segments/${part(segment.id)}`] : ['POST', '/v1/segments'];
      const saved = await call(method, path, { text: body(await read()), raw: true });
      close();
      after(whole(saved));
    });
  const close = overlay(() =>
    dialog(
      segment ? t('Edit segment') : t('New segment'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(save)}>
    ${bound(state, 'name', { label: t('Name'), required: true, focus: true, dir: 'auto' })}
    ${filter.view(state.error)}
    <p class="counted row"><b role="status" aria-label=${t('Contacts in segment')}>${state.count ? t('{n} contacts',
      { n: state.count.contacts }) : state.countError ? '–' : '…'}</b>
      <span class="muted">${state.count ? t('{phones} with a phone, {out} opted out',
        { phones: number(state.count.with_phone), out: number(state.count.suppressed) }) : state.countError ? state.countError.message : ''}</span></p>
    ${formError(state.error, ['name', ...filter.named])}
    <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button>${submitButton(t('Save segment'), state.busy)}</div></form>`,
    ),
  );
}
