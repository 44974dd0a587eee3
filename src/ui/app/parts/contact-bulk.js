/** What is done to many contacts at once. */
import { post } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { list, t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { asFilter } from './contact-filter.js';
import { bound, sending } from './bound.js';
import { ask, attempt, dialog, notify, overlay } from './dialog.js';
import { button, formError } from './form.js';

/** @typedef {import('../lib/types.js').Contact} Contact */
/** Where the interface has the tag that is typed. */
const TAGS = ['add_tags', 'remove_tags'];

/**
 * @param {{selected: Map<string, Contact>, total: () => number, tags: () => string[], done: () => unknown}} list
 */
export function bulk({ selected, total, tags, done }) {
  /** All that were found, also those that were never scrolled to. */
  let all = false;
  const count = () => (all ? total() : selected.size);
  /** @param {object} change @param {object | null} [undo] what takes it back */
  const run = async (change, undo) => {
    const whom = all ? { filter: asFilter() } : { ids: [...selected.keys()] };
    await send({ ...whom, ...change }, undo);
    clear();
  };
  /** @param {object} body @param {object | null} [undo] */
  const send = async (body, undo) => {
    const { contacts } = await post('/v1/contacts/bulk', body);
    notify(t('Changed: {n} contacts', { n: contacts }), undo ? { undo: () => attempt(() => send(undo)) } : {});
    await done();
  };
  /** What takes a tag away from those who get it, or back to those who lose it: others had it before, or not.
   * @param {boolean} adds @param {string} tag */
  const back = (adds, tag) => {
    const ids = [...selected.values()].filter((c) => c.tags.includes(tag) !== adds).map((c) => c.id);
    return all || !ids.length ? null : { ids, [adds ? 'remove_tags' : 'add_tags']: [tag] };
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
        await run({ [adds ? 'add_tags' : 'remove_tags']: [tag] }, back(adds, tag));
        close();
      });
    const close = overlay(() =>
      dialog(
        title,
        () => close(),
        html`<form class="stack" onsubmit=${submit(save)}>${bound(state, 'tag', { label: t('Tag'), list: tags(), focus: true, required: true }, ...TAGS)}
        ${formError(state.error, TAGS)}<div class="row end"><button class="primary" ?disabled=${state.busy || !state.tag.trim()}>${title}</button></div></form>`,
        { kind: 'small' },
      ),
    );
  };
  /** The first of those that are chosen. */
  const names = () => {
    const first = [...selected.values()].slice(0, 5).map((c) => c.name || c.phone || c.id);
    const more = selected.size - first.length;
    return list(more ? [...first, t('{n} more', { n: more })] : first);
  };
  const drop = () =>
    ask({
      title: t('Delete {n} contacts?', { n: count() }),
      text: html`<p>${all ? t('All that were found.') : names()}</p>
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
