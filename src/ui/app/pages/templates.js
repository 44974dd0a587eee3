import { part, patch, post } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { ago, time, words } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { adminPath, can, session } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { empty, shown } from '../parts/empty.js';
import { button, errorFor, field, formError, select } from '../parts/form.js';
import { badge } from '../parts/status.js';
import { moreButton } from '../parts/table.js';

/** @typedef {import('../lib/types.js').Template} Template */

/** What a status means for sending. @returns {Record<string, string>} */
const reasons = () => ({
  approved: t('Ready to be sent.'),
  pending: t('The channel has not decided yet.'),
  rejected: t('The channel has refused it. Change it and hand it in again.'),
  paused: t('The channel holds it back, because people marked it.'),
  disabled: t('The channel has switched it off.'),
  in_appeal: t('An appeal is being looked at.'),
  limit_exceeded: t('The channel takes no more templates.'),
  pending_deletion: t('It is being deleted.'),
  deleted: t('It is deleted.'),
});

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
      await post(adminPath('/templates/sync'));
      notify(t('The templates are as the channel has them'));
      await load();
    });
  const add = () => {
    const state = {
      name: '',
      language: 'en',
      category: 'utility',
      text: '',
      busy: false,
      error: /** @type {any} */ (null),
    };
    const save = async () => {
      state.busy = true;
      state.error = null;
      try {
        await post(adminPath('/templates'), {
          name: state.name.trim(),
          language: state.language.trim(),
          category: state.category,
          components: [{ type: 'BODY', text: state.text }],
          ...(session.sandbox ? { status: 'approved' } : {}),
        });
        close();
        await load();
      } catch (error) {
        state.error = error;
      }
      state.busy = false;
    };
    const close = overlay(() =>
      dialog(
        t('New template'),
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
        mono: true,
        placeholder: 'order_shipped',
        hint: t('Small letters, digits and _'),
        error: errorFor(state.error, 'name'),
      })}
      <div class="columns tight">${field({
        label: t('Language'),
        value: state.language,
        input: (v) => {
          state.language = v;
        },
        error: errorFor(state.error, 'language'),
      })}
      ${select({
        label: t('Category'),
        value: state.category,
        options: ['utility', 'marketing', 'authentication'].map((c) => [c, words(c)]),
        change: (v) => {
          state.category = v;
        },
      })}</div>
      ${field({
        label: t('Text'),
        rows: 4,
        value: state.text,
        input: (v) => {
          state.text = v;
        },
        dir: 'auto',
        hint: t('{{1}}, {{2}} … are places that each message fills in'),
      })}
      ${formError(state.error, ['name', 'language'])}
      <div class="row end"><button type="button" onclick=${() => close()}>${t('Cancel')}</button><button class="primary"
        ?disabled=${state.busy || !state.text.trim()}>${t('Add template')}</button></div></form>`,
      ),
    );
  };
  /** @param {Template} x @param {string} status */
  const setStatus = (x, status) =>
    attempt(async () => {
      await patch(adminPath(`/templates/${part(x.name)}/${part(x.language)}`), { status });
      await load();
    });
  /** @param {Template} x */
  const card = (x) => html`<li key=${rows.id(x)} class="card template-card">
    <div class="card-head"><h2><code>${x.name}</code></h2>${badge(x.status)}</div>
    <p class="hint">${words(x.category)} · ${x.language} · ${time(x.updated_at, ago)}</p>
    <div class="template-phone">${x.components.map((/** @type {any} */ c, i) => html`<p key=${i}
      class=${`template-part ${String(c.type).toLowerCase()}`} dir="auto">
      ${c.text ?? (c.buttons ?? []).map((/** @type {any} */ b) => b.text).join(' · ') ?? words(c.format)}</p>`)}</div>
    <p class="hint">${reasons()[x.status] ?? ''}</p>
    ${session.sandbox && can('templates:write') && x.status !== 'approved' ? html`<div class="row">
      ${button(t('Approve in the sandbox'), () => setStatus(x, 'approved'))}</div>` : ''}</li>`;
  return {
    title: 'Templates',
    open(_, s) {
      signal = s;
      return load();
    },
    onEvent: (event) => (event.type === 'template.status_changed' ? rows.refetch() : undefined),
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
              'A template is a text that the channel has approved. It may be sent to anybody, also outside the reply window.',
            ),
            action: can('templates:write')
              ? html`<button type="button" class="primary" onclick=${add}>${t('New template')}</button>`
              : '',
            call: { method: 'GET', path: '/v1/messaging/templates' },
          }),
      ),
  };
}
