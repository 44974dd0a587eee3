import { part, patch, post } from '../lib/api.js';
import { debounce, submit } from '../lib/dom.js';
import { ago, time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { icon } from '../lib/icons.js';
import { html, refresh } from '../lib/render.js';
import { can, session } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { bound, boundSelect, sending } from '../parts/bound.js';
import { chips } from '../parts/chips.js';
import { attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { empty, shown } from '../parts/empty.js';
import { choice } from '../parts/filter.js';
import { button, errorFor, field, formError } from '../parts/form.js';
import { badge } from '../parts/status.js';
import { moreButton } from '../parts/table.js';
import { componentsOf, filled, pathsOf, placeFault, places } from '../parts/template.js';

/** @typedef {import('../lib/types.js').Template} Template */

/** The meaning of each status for sending. @returns {Record<string, string>} */
const reasons = () => ({
  approved: t('Ready to send.'),
  pending: t('The channel is reviewing this template.'),
  rejected: t('The channel rejected this template. Edit it in your provider account, then sync.'),
  paused: t('The channel paused this template after negative feedback from recipients.'),
  disabled: t('The channel disabled this template.'),
  in_appeal: t('An appeal is under review.'),
  limit_exceeded: t('The channel accepts no more templates.'),
  pending_deletion: t('This template is being deleted.'),
  deleted: t('This template has been deleted.'),
});

/** The channel's judgement of a low quality. @returns {Record<string, string>} */
const faults = () => ({
  yellow: t('Some recipients gave negative feedback.'),
  red: t('Many recipients gave negative feedback. The channel may pause this template soon.'),
});

/** The statuses that people set in the sandbox. @param {string} now @returns {[string, string][]} */
const statuses = (now) =>
  [...new Set([now, 'approved', 'pending', 'rejected', 'paused', 'disabled'])].map((s) => [s, words(s)]);

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  const rows = new Rows(
    '/v1/messaging/templates',
    () => ({}),
    (/** @type {Template} */ x) => `${x.name} ${x.language}`,
  );
  const load = () => rows.load(signal);
  const sync = () =>
    attempt(async () => {
      await post('/v1/templates/sync');
      notify(t('Templates synced with the channel'));
      await load();
    });
  const add = () => newTemplate(load);
  /** @param {Template} x @param {string} status */
  const change = (x, status) =>
    attempt(async () => {
      await setStatus(x, status);
      await load();
    });
  /** @param {Template} x */
  const card = (x) => html`<li key=${rows.id(x)} class="card template-card">
    <div class="card-head"><h2><code>${x.name}</code></h2>${badge(x.status)}</div>
    <p class="hint">${words(x.category)} · ${x.language} · ${time(x.updated_at, ago)}</p>
    ${onPhone(x.components)}
    <p class="hint">${reasons()[x.status] ?? ''}</p>
    ${x.rejected_reason ? html`<p class="error">${t('Reason: {reason}', { reason: words(x.rejected_reason) })}</p>` : ''}
    ${faults()[x.quality ?? ''] ? html`<p class="hint">${faults()[x.quality ?? '']}</p>` : ''}
    ${x.correct_category ? html`<p class="hint">${t('The channel will change the category to {category}.',
      { category: words(x.correct_category) })}</p>` : ''}
    <div class="row">${places(x).length ? button(t('Fill in variables'), () => tryTemplate(x), { kind: 'quiet' }) : ''}<span class="grow"></span>
      ${session.sandbox && can('templates:write') ? choice(t('Status'), x.status,
        statuses(x.status), (v) => change(x, v)) : ''}</div></li>`;
  return {
    title: 'Templates',
    open(_, s) {
      signal = s;
      return load();
    },
    onEvent: (event) => (event.type.startsWith('template.') ? rows.refetch() : undefined),
    resync: load,
    actions: () =>
      can('templates:write')
        ? html`${button(t('Sync'), sync, { icon: icon('refresh') })}<button type="button" class="primary" onclick=${add}>
          ${icon('plus')}${t('New template')}</button>`
        : '',
    view: () =>
      shown(
        rows,
        () =>
          html`<ul class="template-list" aria-label=${t('Templates')}>${rows.rows.map(card)}</ul>${moreButton(rows)}`,
        () =>
          empty({
            icon: 'template',
            title: t('No templates yet'),
            text: t(
              'A template is a message the channel has approved. You can send it to anyone, even outside the reply window.',
            ),
            action: can('templates:write')
              ? html`<button type="button" class="primary" onclick=${add}>${t('New template')}</button>`
              : '',
            call: { method: 'GET', path: '/v1/messaging/templates' },
          }),
      ),
  };
}


/** @param {Template} x @param {string} status */
const setStatus = (x, status) =>
  patch(`/v1/templates/${part(x.name)}/${part(x.language)}`, { status });

/** Shows a template as a phone does. @param {any[]} components */
const onPhone = (components) => html`<div class="template-phone">${components.map(
  (c, i) => html`<p key=${i} class=${`template-part ${String(c.type).toLowerCase()}`} dir="auto">${
    c.text ?? (c.buttons ?? []).map((/** @type {any} */ b) => html`<span key=${b.text} class="template-button">${b.text}</span>`)
  }${c.text || c.buttons ? '' : words(c.format)}</p>`,
)}</div>`;

/** @param {() => unknown} after */
function newTemplate(after) {
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
  /** Returns the interface's path of a field. @param {string} type */
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
      ${bound(state, 'name', { label: t('Name'), required: true, focus: true, mono: true, placeholder: 'order_shipped', hint: t('Use lowercase letters, digits and underscores.') })}
      <div class="columns tight">${bound(state, 'language', { label: t('Language'), required: true })}
        ${boundSelect(state, 'category', t('Category'), ['utility', 'marketing', 'authentication'].map((c) => [c, words(c)]))}</div>
      ${bound(state, 'header', { label: t('Header'), dir: 'auto', hint: t('optional') }, ...at('HEADER'))}
      ${bound(state, 'text', { label: t('Text'), rows: 4, dir: 'auto', hint: t('{{1}}, {{2}} … are variables. Each message sets their values.') }, ...at('BODY'))}
      <div class="columns tight">${bound(state, 'footer', { label: t('Footer'), dir: 'auto', hint: t('optional') }, ...at('FOOTER'))}
        ${buttons.view({ label: t('Buttons'), hint: t('Press Enter to add one. Commas are allowed.'), error: errorFor(state.error, ...at('BUTTONS')) })}</div>
      ${state.text.trim() ? onPhone(components()) : ''}
      ${formError(state.error, ['name', 'language', ...components().map((_, i) => `components[${i}]`)])}
      <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button><button class="primary"
        ?disabled=${state.busy || !state.text.trim()}>${t('Create template')}</button></div></form>`,
    ),
  );
}

/** Fills in a template's places; the server renders the result. @param {Template} x */
function tryTemplate(x) {
  const state = { values: /** @type {string[]} */ ([]), text: filled(x), error: /** @type {any} */ (null) };
  let turn = 0;
  const paths = pathsOf(x);
  const render = debounce(async () => {
    const mine = ++turn;
    state.error = null;
    // An incomplete template would be refused.
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
