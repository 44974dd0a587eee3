import { ago, time } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { on } from '../lib/dom.js';
import { shown } from './empty.js';

/** The phones that the sandbox knows, the newest first.
 * @param {import('../lib/store.js').Resource<any>} phones @param {string} current @param {(phone: string) => unknown} show */
export const phoneList = (phones, current, show) => html`<section class="phones" aria-label=${t('Phones known')}>
  ${shown(
    phones,
    () => html`<ul aria-label=${t('Phones')}>${phones.data.data.map(
      (/** @type {any} */ p) => html`<li key=${p.phone}>
    <a href=${`/ui/phone?phone=${encodeURIComponent(p.phone)}`} aria-current=${p.phone === current ? 'true' : null}
      onclick=${on((e) => {
        e.preventDefault();
        return show(p.phone);
      })}>
      <span class="row between"><b dir="ltr">${p.phone}</b><span class="muted">${time(p.last_at, ago)}</span></span>
      <span class="muted one-line" dir="auto">${p.last_text}</span></a></li>`,
    )}</ul>
    ${phones.data.data.length ? '' : html`<p class="muted pad">${t('No phone has received anything yet.')}</p>`}`,
  )}
</section>`;
