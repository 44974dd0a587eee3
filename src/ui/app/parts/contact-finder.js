import { get } from '../lib/api.js';
import { debounce } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { dialog, overlay } from './dialog.js';
import { button, field } from './form.js';

/** A dialog that finds contacts and gives their phones. @param {(phone: string) => unknown} add */
export function contactFinder(add) {
  let text = '';
  /** @type {any[]} */
  let found = [];
  const look = debounce(async () => {
    found = (await get('/v1/contacts', { search: text, limit: 20 })).data;
    refresh();
  }, 150);
  const done = overlay(() =>
    dialog(
      t('Find contacts'),
      done,
      html`${field({
        label: t('Search contacts'),
        value: text,
        input: (v) => {
          text = v;
          look();
        },
        focus: true,
      })}
    <ul class="hits">${found
      .filter((c) => c.phone)
      .map(
        (c) =>
          html`<li key=${c.id}><span dir="auto">${c.name}</span><span class="muted">${c.phone}</span>${button(
            t('Add'),
            () => add(c.phone),
          )}</li>`,
      )}</ul>`,
    ),
  );
}
