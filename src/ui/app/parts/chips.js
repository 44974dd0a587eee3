/** A list of short texts, such as tags: each a chip that can be removed, and an input that adds one. A comma is part of a text. */
import { icon } from '../lib/icons.js';
import { on } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { field } from './form.js';

/** @import { Field } from '../lib/types.js' */
/** @typedef {ReturnType<typeof chips>} Chips */

/** @param {string[]} before @param {() => unknown} [changed] */
export function chips(before, changed = () => {}) {
  const state = { texts: [...before], typed: '' };
  /** Returns the texts. Typed text that is not added yet counts, too. */
  const now = () => {
    const typed = state.typed.trim();
    return typed && !state.texts.includes(typed) ? [...state.texts, typed] : state.texts;
  };
  const add = () => {
    Object.assign(state, { texts: now(), typed: '' });
    changed();
  };
  /** Removes a chip. The focus must not disappear with its button. @param {any} e @param {string} text */
  const drop = (e, text) => {
    e.currentTarget.closest('.chips').querySelector('input').focus();
    state.texts = state.texts.filter((it) => it !== text);
    changed();
  };
  /** @param {KeyboardEvent} e */
  const keys = (e) => {
    if (e.key !== 'Enter' || e.isComposing || !state.typed.trim()) return;
    e.preventDefault();
    add();
  };
  const inside = () => state.texts.map(
    (text) => html`<span key=${text} class="tag"><bdi>${text}</bdi><button type="button" class="quiet icon-only"
      aria-label=${t('Remove {name}', { name: text })} onclick=${on((e) => drop(e, text))}>${icon('close')}</button></span>`,
  );
  return {
    now,
    touched: () => JSON.stringify(now()) !== JSON.stringify(before),
    /** Applies the changes to a list that others may have changed meanwhile. @param {string[]} texts */
    of: (texts) => {
      const kept = texts.filter((text) => now().includes(text) || !before.includes(text));
      return [...kept, ...now().filter((text) => !before.includes(text) && !kept.includes(text))];
    },
    /** @param {Omit<Field, 'value' | 'input'>} how */
    view: (how) =>
      field({
        dir: 'auto',
        ...how,
        value: state.typed,
        input: (v) => {
          state.typed = v;
          changed();
        },
        keydown: on(keys),
        inside: inside(),
        ...(how.list ? { list: how.list.filter((text) => !state.texts.includes(text)) } : {}),
      }),
  };
}
