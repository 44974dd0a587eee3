/** What is done to many contacts at once. */
import { post } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { asFilter } from './contact-filter.js';
import { bound, sending } from './bound.js';
import { ask, attempt, dialog, notify, overlay } from './dialog.js';
import { button, formError } from './form.js';

/** @typedef {import('../lib/types.js').Contact} Contact */

/**
 * @param {{selected: Map<string, Contact>, total: () => number, tags: () => string[], done: () => unknown}} list
 */
export function bulk({ selected, total, tags, done }) {
  /** All that were found, also those that were never scrolled to. */
  let all = false;
  const count = () => (all ? total() : selected.size);
  /** @param {object} change */
  const run = async (change) => {
    const whom = all ? { filter: asFilter() } : { ids: [...selected.keys()] };
    const { contacts } = await post('/v1/contacts/bulk', { ...whom, ...change });
    notify(t('Changed: {n} contacts', { n: contacts }));
    clear();
    await done();
  };
  const clear = () => {
    all = false;
    selected.clear();
  };
  /** @param {string} title @param {boolean} adds */
  const tagDialog = (title, adds) => {
    const state = { tag: '', busy: false, error: /** @type {any} */ (null) };
    const save = () =>
      sending(state, async () => {
        const tag = state.tag.trim();
        await run({ [adds ? 'add_tags' : 'remove_tags']: [tag] });
        close();
      });
    const close = overlay(() =>
      dialog(
        title,
        () => close(),
        html`<form class="stack" onsubmit=${submit(save)}>${bound(state, 'tag', { label: t('Tag'), list: tags(), focus: true, required: true })}
        ${formError(state.error)}<div class="row end"><button class="primary" ?disabled=${state.busy || !state.tag.trim()}>${title}</button></div></form>`,
        { kind: 'small' },
      ),
    );
  };
  const drop = () =>
    ask({
      title: t('Delete {n} contacts?', { n: count() }),
      text: html`<p>${all ? t('All that were found.') : `${[...selected.values()].slice(0, 5).map((c) => c.name || c.phone).join(', ')}${selected.size > 5 ? '…' : ''}`}</p>
        <p>${t('They are gone from segments too. Their conversations stay.')}</p>`,
      action: t('Delete'),
      run: () => attempt(() => run({ delete: true })),
    });
  return {
    clear,
    view: () => html`<div class="selection" role="toolbar" aria-label=${t('Selected contacts')}><b>${t('{n} selected', { n: count() })}</b>
      ${
        !all && selected.size < total()
          ? button(
              t('Select all {n}', { n: total() }),
              () => {
                all = true;
              },
              { kind: 'quiet' },
            )
          : ''
      }
      ${button(t('Add tag'), () => tagDialog(t('Add tag'), true))}${button(t('Remove tag'), () => tagDialog(t('Remove tag'), false))}
      ${button(t('Delete'), drop, { kind: 'danger' })}${button(t('Clear'), clear, { kind: 'quiet' })}</div>`,
  };
}
