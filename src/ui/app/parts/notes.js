/** Notes that the people of a workspace write for each other beside a conversation. */
import { part, post } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { ago, time } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { bound, sending } from './bound.js';
import { problem } from './empty.js';
import { formError } from './form.js';
import { moreButton } from './table.js';

export function notes() {
  const rows = new Rows(
    '',
    () => ({}),
    (/** @type {any} */ n) => n.id,
  );
  const state = { note: '', busy: false, error: /** @type {any} */ (null) };
  const write = () =>
    sending(state, async () => {
      const { path } = rows;
      await post(path, { text: state.note.trim() });
      state.note = '';
      if (path === rows.path) await rows.load();
    });
  return {
    /** @param {string} id of the conversation @param {AbortSignal} [signal] */
    open(id, signal) {
      Object.assign(rows, { path: `/v1/conversations/${part(id)}/notes`, rows: [], loaded: false, error: null });
      Object.assign(state, { note: '', error: null });
      return rows.load(signal);
    },
    load: () => rows.load(),
    view: () =>
      !rows.loaded && !rows.error
        ? ''
        : html`<section class="notes stack tight" aria-label=${t('Notes')}><h3>${t('Notes')}</h3>
        ${rows.error ? problem(rows.error, () => rows.load()) : ''}
        <ul class="stack tight">${rows.rows.map(
          (n) => html`<li key=${n.id} class="written-note"><p dir="auto">${n.text}</p>
          <p class="muted">${n.author?.name ?? ''} · ${time(n.created_at ?? n.at, ago)}</p></li>`,
        )}</ul>${moreButton(rows)}
        ${
          can('inbox:write')
            ? html`<form class="stack tight" onsubmit=${submit(write)}>${bound(state, 'note', { label: t('Note'), rows: 2, dir: 'auto', hint: t('Customers cannot see notes.') }, 'text')}
          ${formError(state.error, ['text'])}<div class="row end"><button ?disabled=${state.busy || !state.note.trim()}>${t('Add note')}</button></div></form>`
            : ''
        }</section>`,
  };
}
