/** Filters of the list of contacts, beside the search: tags, and one own field. */
import { submit } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { bound } from './bound.js';
import { dialog, overlay } from './dialog.js';

const NAMES = ['tags_any', 'tags_all', 'tags_none', 'field', 'value'];

/** An address without them. */
export const CLEAR = Object.fromEntries(['search', ...NAMES].map((name) => [name, '']));

/** What the list is asked with, out of the address. @returns {Record<string, string>} */
export const asked = () => ({
  search: query('search'),
  tags_any: query('tags_any'),
  tags_all: query('tags_all'),
  tags_none: query('tags_none'),
  ...(query('field') ? { [`custom_fields.${query('field')}`]: query('value') } : {}),
});

/** The same as a segment's filter, for what is done to all that were found. */
export function asFilter() {
  const list = (/** @type {string} */ name) => query(name).split(',').filter(Boolean);
  const field = query('field');
  return {
    ...(query('search') ? { search: query('search') } : {}),
    ...Object.fromEntries(['tags_any', 'tags_all', 'tags_none'].map((n) => [n, list(n)]).filter(([, l]) => l?.length)),
    ...(field ? { custom_fields: { [field]: query('value') } } : {}),
  };
}

/** The dialog "Filter". @param {string[]} tags that are known @param {() => unknown} changed */
function filterDialog(tags, changed) {
  const state = /** @type {any} */ ({ error: null, ...Object.fromEntries(NAMES.map((name) => [name, query(name)])) });
  const apply = () => {
    const commas = (/** @type {string} */ v) => v.split(',').map((x) => x.trim()).filter(Boolean).join(',');
    setQuery(
      Object.fromEntries(NAMES.map((n) => [n, n.startsWith('tags') ? commas(state[n]) : String(state[n]).trim()])),
    );
    close();
    return changed();
  };
  const close = overlay(() =>
    dialog(
      t('Filter'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(apply)}>
      ${bound(state, 'tags_any', { label: t('Any of the tags'), list: tags, focus: true, hint: t('Separated by commas') })}
      ${bound(state, 'tags_all', { label: t('All of the tags'), list: tags })}
      ${bound(state, 'tags_none', { label: t('None of the tags'), list: tags })}
      <div class="columns tight">${bound(state, 'field', { label: t('Own field'), placeholder: 'city' })}
        ${bound(state, 'value', { label: t('Its value'), dir: 'auto', placeholder: 'Paris' })}</div>
      <div class="row end"><button class="primary">${t('Show')}</button></div></form>`,
      { kind: 'small' },
    ),
  );
}

/** @param {string[]} tags @param {() => unknown} changed */
export function filterBar(tags, changed) {
  /** @type {Record<string, string>} */
  const names = {
    tags_any: t('Any of the tags'),
    tags_all: t('All of the tags'),
    tags_none: t('None of the tags'),
    field: query('field'),
  };
  const used = Object.keys(names).filter((name) => query(name));
  const drop = (/** @type {string} */ name) => {
    setQuery({ [name]: '', ...(name === 'field' ? { value: '' } : {}) });
    return changed();
  };
  return html`<button type="button" onclick=${() => filterDialog(tags, changed)}>${icon('filter')}${t('Filter')}</button>
    ${used.map((name) => {
      const text = `${names[name]}: ${name === 'field' ? query('value') : query(name).replaceAll(',', ', ')}`;
      return html`<span key=${name} class="tag filter-tag" dir="auto">${text} <button type="button" class="quiet icon-only"
        aria-label=${t('Remove {name}', { name: text })} onclick=${() => drop(name)}>${icon('close')}</button></span>`;
    })}`;
}
