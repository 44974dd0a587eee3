import { patch, part, post } from '../lib/api.js';
import { debounce, submit } from '../lib/dom.js';
import { number } from '../lib/format.js';
import { list as named, t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { dialog, overlay } from './dialog.js';
import { errorFor, field, formError } from './form.js';

/** @typedef {import('../lib/types.js').Filter} Filter */

/** A filter in words. @param {any} f @returns {string} */
export function describe(f) {
  const pieces = [];
  if (f.tags_any?.length) pieces.push(t('any of the tags {tags}', { tags: named(f.tags_any) }));
  if (f.tags_all?.length) pieces.push(t('all of the tags {tags}', { tags: named(f.tags_all) }));
  if (f.tags_none?.length) pieces.push(t('none of the tags {tags}', { tags: named(f.tags_none) }));
  for (const [name, value] of Object.entries(f.custom_fields ?? {})) pieces.push(`${name} = ${value}`);
  if (f.custom_fields_exist?.length) pieces.push(t('has {fields}', { fields: named(f.custom_fields_exist) }));
  if (f.search) pieces.push(t('contains “{text}”', { text: f.search }));
  return pieces.join(' · ') || t('Every contact');
}

/** @param {string} text */
const list = (text) =>
  text
    .split(',')
    .map((x) => x.trim())
    .filter(Boolean);

/**
 * The dialog "New segment": a filter whose contacts are counted as it is written.
 * @param {{segment?: any, after: (segment: any) => unknown}} options
 */
export function segmentDialog({ segment, after }) {
  const f = segment?.filter ?? {};
  const state = {
    name: segment?.name ?? '',
    any: (f.tags_any ?? []).join(', '),
    all: (f.tags_all ?? []).join(', '),
    none: (f.tags_none ?? []).join(', '),
    search: f.search ?? '',
    fields: Object.entries(f.custom_fields ?? {})
      .map(([k, v]) => `${k} = ${v}`)
      .join('\n'),
    exist: (f.custom_fields_exist ?? []).join(', '),
    count: /** @type {{contacts: number, with_phone: number, suppressed: number} | null} */ (null),
    error: /** @type {any} */ (null),
    countError: /** @type {any} */ (null),
    busy: false,
  };
  /** @returns {Filter} */
  const filter = () => {
    const fields = Object.fromEntries(
      state.fields
        .split('\n')
        .filter((x) => x.includes('='))
        .map((x) => [x.slice(0, x.indexOf('=')).trim(), x.slice(x.indexOf('=') + 1).trim()]),
    );
    return {
      ...(list(state.any).length ? { tags_any: list(state.any) } : {}),
      ...(list(state.all).length ? { tags_all: list(state.all) } : {}),
      ...(list(state.none).length ? { tags_none: list(state.none) } : {}),
      ...(Object.keys(fields).length ? { custom_fields: fields } : {}),
      ...(list(state.exist).length ? { custom_fields_exist: list(state.exist) } : {}),
      ...(state.search.trim() ? { search: state.search.trim() } : {}),
    };
  };
  let turn = 0;
  const count = debounce(async () => {
    const mine = ++turn;
    try {
      const answer = await post('/v1/segments/count', { filter: filter() });
      if (mine === turn) [state.count, state.countError] = [answer, null];
    } catch (error) {
      if (mine === turn) [state.count, state.countError] = [null, error];
    }
    refresh();
  }, 150);
  count();
  /** @param {'any' | 'all' | 'none' | 'search' | 'fields' | 'exist'} key */
  const set = (key) => (/** @type {string} */ v) => {
    state[key] = v;
    count();
  };
  const save = async () => {
    state.busy = true;
    state.error = null;
    try {
      const body = { name: state.name.trim(), filter: filter() };
      const saved = segment ? await patch(`/v1/segments/${part(segment.id)}`, body) : await post('/v1/segments', body);
      close();
      after(saved);
    } catch (error) {
      state.error = error;
    }
    state.busy = false;
  };
  const close = overlay(() =>
    dialog(
      segment ? t('Edit segment') : t('New segment'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(save)}>
    ${field({
      label: t('Name'),
      value: state.name,
      input: (v) => {
        state.name = v;
      },
      required: true,
      focus: true,
      error: errorFor(state.error, 'name'),
    })}
    <div class="columns tight">
      ${field({ label: t('Any of the tags'), value: state.any, input: set('any'), hint: t('Separated by commas') })}
        ${field({ label: t('All of the tags'), value: state.all, input: set('all') })}
      ${field({ label: t('None of the tags'), value: state.none, input: set('none') })}${field({ label: t('Has the fields'),
        value: state.exist, input: set('exist') })}</div>
    ${field({ label: t('Fields with a value'), rows: 2, value: state.fields, input: set('fields'), hint: t('One in a line, such as city = Paris') })}
    ${field({ label: t('Contains'), value: state.search, input: set('search'), hint: t('In name, phone or e-mail') })}
    <p class="counted"><b role="status" aria-label=${t('Contacts in segment')}>${state.count ? t('{n} contacts',
      { n: state.count.contacts }) : state.countError ? '–' : '…'}</b>
      <span class="muted">${state.count ? t('{phones} with a phone, {out} opted out',
        { phones: number(state.count.with_phone), out: number(state.count.suppressed) }) : state.countError ? state.countError.message : ''}</span></p>
    ${formError(state.error, ['name'])}
    <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button><button class="primary"
      ?disabled=${state.busy}>${t('Save segment')}</button></div></form>`,
    ),
  );
}
