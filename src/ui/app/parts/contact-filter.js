/** Filters of the list of contacts, beside the search: tags, and one own field. */
import { submit } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { list as named, t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { bound } from './bound.js';
import { chips } from './chips.js';
import { dialog, overlay } from './dialog.js';

const TAGS = ['tags_any', 'tags_all', 'tags_none'];
const NAMES = [...TAGS, 'field', 'value'];

/** The values of an address without filters. */
export const CLEAR = Object.fromEntries(['search', ...NAMES].map((name) => [name, '']));

/** Returns the custom field of the filter; one without a value is no filter. */
const own = () => (query('field') && query('value') ? { [query('field')]: query('value') } : {});

/** Returns the tags of a parameter, which separates them by commas. @param {string} name */
const tagsOf = (name) => query(name).split(',').filter((tag) => tag.trim());

/** Returns the query of the list, from the address. @returns {Record<string, string>} */
export const asked = () => ({
  search: query('search'),
  ...Object.fromEntries(TAGS.map((name) => [name, query(name)])),
  ...Object.fromEntries(Object.entries(own()).map(([name, value]) => [`custom_fields.${name}`, value])),
});

/** Returns the query as a segment's filter, for actions on all found contacts. */
export function asFilter() {
  const tags = TAGS.map((name) => /** @type {[string, string[]]} */ ([name, tagsOf(name)]));
  return {
    ...(query('search') ? { search: query('search') } : {}),
    ...Object.fromEntries(tags.filter(([, list]) => list.length)),
    ...(Object.keys(own()).length ? { custom_fields: own() } : {}),
  };
}

/** The dialog "Filter". @param {string[]} known tags @param {() => unknown} changed */
function filterDialog(known, changed) {
  const state = { field: query('field'), value: query('value'), asked: false };
  const lists = new Map(TAGS.map((name) => [name, chips(tagsOf(name))]));
  /** Returns whether a tag has a comma: a query would read it as two. */
  const cut = (/** @type {string} */ name) => lists.get(name)?.now().some((tag) => tag.includes(','));
  const apply = () => {
    state.asked = true;
    const [field, value] = [state.field.trim(), state.value.trim()];
    if (TAGS.some(cut) || Boolean(field) !== Boolean(value)) return;
    setQuery({ ...Object.fromEntries([...lists].map(([name, list]) => [name, list.now().join(',')])), field, value });
    close();
    return changed();
  };
  /** @param {string} name @param {import('../lib/types.js').Field} how */
  const tags = (name, how) =>
    lists.get(name)?.view({ ...how, list: known.filter((tag) => !tag.includes(',')),
      error: state.asked && cut(name) ? t('This filter does not support tags with commas. Use a segment instead.') : null });
  /** @param {'field' | 'value'} name */
  const missing = (name) => (state.asked && !state[name].trim() && (state.field + state.value).trim() ? t('Missing') : null);
  const close = overlay(() =>
    dialog(
      t('Filter'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(apply)}>
      ${tags('tags_any', { label: t('Any of these tags'), focus: true, hint: t('Press Enter to add one.') })}
      ${tags('tags_all', { label: t('All of these tags') })}
      ${tags('tags_none', { label: t('None of these tags') })}
      <div class="columns tight">${bound(state, 'field', { label: t('Custom field'), placeholder: 'city', error: missing('field') })}
        ${bound(state, 'value', { label: t('Field value'), dir: 'auto', placeholder: 'Paris', error: missing('value') })}</div>
      <div class="row end"><button class="primary">${t('Show')}</button></div></form>`,
      { kind: 'small' },
    ),
  );
}

/** @param {string[]} tags @param {() => unknown} changed */
export function filterBar(tags, changed) {
  /** @type {Record<string, string>} */
  const names = {
    tags_any: t('Any of these tags'),
    tags_all: t('All of these tags'),
    tags_none: t('None of these tags'),
    field: query('field'),
  };
  const used = Object.keys(names).filter((name) => query(name) && (name !== 'field' || query('value')));
  const drop = (/** @type {string} */ name) => {
    setQuery({ [name]: '', ...(name === 'field' ? { value: '' } : {}) });
    return changed();
  };
  return html`<button type="button" onclick=${() => filterDialog(tags, changed)}>${icon('filter')}${t('Filter')}</button>
    ${used.map((name) => {
      const text = `${names[name]}: ${name === 'field' ? query('value') : named(tagsOf(name))}`;
      return html`<span key=${name} class="tag filter-tag" dir="auto">${text} <button type="button" class="quiet icon-only"
        aria-label=${t('Remove {name}', { name: text })} onclick=${() => drop(name)}>${icon('close')}</button></span>`;
    })}`;
}
