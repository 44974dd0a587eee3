/** The dialogs of a template: a new one, and one filled in as a phone would show it. */
import { part, patch, post } from '../lib/api.js';
import { debounce, submit } from '../lib/dom.js';
import { words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { session } from '../lib/session.js';
import { bound, boundSelect, sending } from './bound.js';
import { chips } from './chips.js';
import { dialog, overlay } from './dialog.js';
import { errorFor, field, formError } from './form.js';
import { componentsOf, filled, pathsOf, placeFault, places } from './template.js';

/** @typedef {import('../lib/types.js').Template} Template */

/** @param {Template} x @param {string} status */
export const setStatus = (x, status) =>
  patch(`/v1/templates/${part(x.name)}/${part(x.language)}`, { status });

/** As a phone shows it. @param {any[]} components */
export const onPhone = (components) => html`<div class="template-phone">${components.map(
  (c, i) => html`<p key=${i} class=${`template-part ${String(c.type).toLowerCase()}`} dir="auto">${
    c.text ?? (c.buttons ?? []).map((/** @type {any} */ b) => html`<span key=${b.text} class="template-button">${b.text}</span>`)
  }${c.text || c.buttons ? '' : words(c.format)}</p>`,
)}</div>`;

/** @param {() => unknown} after */
export function newTemplate(after) {
  const state = {
    name: '',
    language: 'en',
    category: 'utility',
    header: '',
    text: '',
    footer: '',
    busy: false,
    error: /** @type {any} */ (null),
  };
  const buttons = chips([]);
  const components = () => {
    const texts = buttons.now();
    return [
      ...(state.header.trim() ? [{ type: 'HEADER', format: 'TEXT', text: state.header.trim() }] : []),
      { type: 'BODY', text: state.text },
      ...(state.footer.trim() ? [{ type: 'FOOTER', text: state.footer.trim() }] : []),
      ...(texts.length ? [{ type: 'BUTTONS', buttons: texts.map((text) => ({ type: 'QUICK_REPLY', text })) }] : []),
    ];
  };
  /** Where the interface has what a field writes. @param {string} type */
  const at = (type) => {
    const i = components().findIndex((it) => it.type === type);
    return i < 0 ? [] : [`components[${i}].text`, `components[${i}]`];
  };
  const save = () =>
    sending(state, async () => {
      const { name, language, category } = state;
      const status = session.sandbox ? { status: 'approved' } : {};
      const body = { name: name.trim(), language: language.trim(), category, components: components(), ...status };
      await post('/v1/templates', body);
      close();
      await after();
    });
  const close = overlay(() =>
    dialog(
      t('New template'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(save)}>
      ${bound(state, 'name', { label: t('Name'), required: true, focus: true, mono: true, placeholder: 'order_shipped', hint: t('Small letters, digits and _') })}
      <div class="columns tight">${bound(state, 'language', { label: t('Language'), required: true })}
        ${boundSelect(state, 'category', t('Category'), ['utility', 'marketing', 'authentication'].map((c) => [c, words(c)]))}</div>
      ${bound(state, 'header', { label: t('Heading'), dir: 'auto', hint: t('optional') }, ...at('HEADER'))}
      ${bound(state, 'text', { label: t('Text'), rows: 4, dir: 'auto', hint: t('{{1}}, {{2}} … are places that each message fills in') }, ...at('BODY'))}
      <div class="columns tight">${bound(state, 'footer', { label: t('Footer'), dir: 'auto', hint: t('optional') }, ...at('FOOTER'))}
        ${buttons.view({ label: t('Buttons'), hint: t('Enter adds one; a comma is part of it'), error: errorFor(state.error, ...at('BUTTONS')) })}</div>
      ${state.text.trim() ? onPhone(components()) : ''}
      ${formError(state.error, ['name', 'language', ...components().map((_, i) => `components[${i}]`)])}
      <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button><button class="primary"
        ?disabled=${state.busy || !state.text.trim()}>${t('Add template')}</button></div></form>`,
    ),
  );
}

/** Fills a template's places in; the server says what becomes of it. @param {Template} x */
export function tryTemplate(x) {
  const state = { values: /** @type {string[]} */ ([]), text: filled(x), error: /** @type {any} */ (null) };
  let turn = 0;
  const paths = pathsOf(x);
  const render = debounce(async () => {
    const mine = ++turn;
    state.error = null;
    // What is not filled in yet would be refused.
    if (places(x).some((place, i) => placeFault(place, state.values[i]))) return refresh();
    try {
      const path = `/v1/messaging/templates/${part(x.name)}/${part(x.language)}/render`;
      const { text } = await post(path, { components: componentsOf(x, state.values) });
      if (mine === turn) Object.assign(state, { text, error: null });
    } catch (error) {
      if (mine === turn) state.error = error;
    }
    refresh();
  }, 150);
  const close = overlay(() =>
    dialog(
      t('Fill in {name}', { name: x.name }),
      () => close(),
      html`<div class="stack">${places(x).map((place, i) =>
        field({
          label: place.label,
          value: state.values[i] ?? '',
          dir: 'auto',
          focus: i === 0,
          error: errorFor(state.error, ...(paths[i] ?? [])),
          input: (v) => {
            state.values[i] = v;
            state.text = filled(x, state.values);
            render();
          },
        }),
      )}<p class="template-text" dir="auto" role="status">${state.text}</p>${formError(state.error, paths.flat())}</div>`,
      { kind: 'small' },
    ),
  );
}
