/** Frequent answers: a choice beside the reply, and the dialog that changes them. */
import { get, part, post, remove } from '../lib/api.js';
import { on, submit } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { bound, sending } from './bound.js';
import { attempt, dialog, overlay } from './dialog.js';
import { button, formError } from './form.js';

const PATH = '/v1/quick-replies';

export function quickReplies() {
  /** `null` if not requested yet, or not available. @type {any[] | null} */
  let all = null;
  let asked = false;
  const load = async () => {
    asked = true;
    all = await get(PATH, { limit: 200 }).then(
      (answer) => answer.data,
      () => null,
    );
    refresh();
  };
  const manage = () => {
    const state = { name: '', text: '', busy: false, error: /** @type {any} */ (null) };
    const add = () =>
      sending(state, async () => {
        await post(PATH, { name: state.name.trim(), text: state.text.trim() });
        Object.assign(state, { name: '', text: '' });
        await load();
      });
    const drop = (/** @type {any} */ q) =>
      attempt(async () => {
        await remove(`${PATH}/${part(q.id)}`);
        await load();
      });
    const close = overlay(() =>
      dialog(
        t('Quick replies'),
        () => close(),
        html`<ul class="stack tight">${(all ?? []).map(
          (q) => html`<li key=${q.id} class="row between nowrap"><span class="one-line" dir="auto"><b>${q.name}</b> <span class="muted">${q.text}</span></span>
          ${button(t('Delete'), () => drop(q), { kind: 'quiet' })}</li>`,
        )}</ul>
        <form class="stack section" onsubmit=${submit(add)}>${bound(state, 'name', { label: t('Name'), required: true })}
        ${bound(state, 'text', { label: t('Text'), rows: 3, dir: 'auto' })}${formError(state.error, ['name', 'text'])}
        <div class="row end"><button class="primary" ?disabled=${state.busy || !state.text.trim()}>${t('Add')}</button></div></form>`,
      ),
    );
  };
  return {
    /** @param {(text: string) => unknown} insert */
    view(insert) {
      if (!asked) load();
      if (!all) return '';
      const choose = (/** @type {any} */ e) => {
        const text = all?.find((q) => q.id === e.target.value)?.text;
        e.target.value = '';
        if (text) insert(text);
      };
      return html`<span class="row nowrap">${
        all.length
          ? html`<select class="quick" aria-label=${t('Quick reply')} onchange=${on(choose)}><option value="">${t('Quick reply')}</option>
          ${all.map((q) => html`<option key=${q.id} value=${q.id}>${q.name}</option>`)}</select>`
          : ''
      }<button type="button" class="quiet icon-only" aria-label=${t('Quick replies')} title=${t('Quick replies')} onclick=${manage}>${icon('template')}</button></span>`;
    },
  };
}
