import { post } from '../lib/api.js';
import { ago, time, words } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can, session } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { attempt, notify } from '../parts/dialog.js';
import { empty, shown } from '../parts/empty.js';
import { choice } from '../parts/filter.js';
import { button } from '../parts/form.js';
import { badge } from '../parts/status.js';
import { moreButton } from '../parts/table.js';
import { places } from '../parts/template.js';
import { newTemplate, onPhone, setStatus, tryTemplate } from '../parts/template-form.js';

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

/** What the channel says of its quality, where it finds fault with it. @returns {Record<string, string>} */
const faults = () => ({
  yellow: t('Some recipients object to it.'),
  red: t('Many recipients object to it: it may be paused soon.'),
});

/** In the sandbox people say what the channel would. @param {string} now @returns {[string, string][]} */
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
      notify(t('The templates are as the channel has them'));
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
    ${x.rejected_reason ? html`<p class="error">${t('Its reason: {reason}', { reason: words(x.rejected_reason) })}</p>` : ''}
    ${faults()[x.quality ?? ''] ? html`<p class="hint">${faults()[x.quality ?? '']}</p>` : ''}
    ${x.correct_category ? html`<p class="hint">${t('The channel will change its category to {category}.',
      { category: words(x.correct_category) })}</p>` : ''}
    <div class="row">${places(x).length ? button(t('Fill in'), () => tryTemplate(x), { kind: 'quiet' }) : ''}<span class="grow"></span>
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
