import { on } from '../lib/dom.js';
import { readable } from '../lib/exact.js';
import { ago, initials, time } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { icon } from '../lib/icons.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { attached, line } from './attached.js';
import { bubble } from './bubble.js';
import { idText } from './code.js';
import { problem, skeleton } from './empty.js';
import { secondsTo } from './countdown.js';
import { label } from './status.js';

/** @typedef {import('../lib/types.js').Conversation} Conversation */
/** @typedef {import('../lib/types.js').Written} Written */

/** @param {import('../lib/store.js').Rows<Conversation>} rows @param {string} id @param {() => unknown} more */
export const conversationList = (rows, id, more) => html`<ul class="conversations" aria-label=${t('Conversations')}>
  ${rows.rows.map((c) => {
    const name = c.contact.name || c.contact.phone || c.contact.email || c.contact.id;
    const left = secondsTo(c.reply_window?.closes_at ?? null);
    return html`<li key=${c.id} class=${c.unread ? 'unread' : null}>
      <span class="avatar" aria-hidden="true">${initials(name)}</span>
      <div><p class="row between nowrap"><a class="row-link one-line" dir="auto" href=${`/ui/inbox/${c.id}${location.search}`}
        aria-current=${c.id === id ? 'true' : null}>${name}${c.unread ? html`<span class="sr">, ${t('{n} unread', { n: c.unread })}</span>` : ''}</a>
        <span class="muted when">${time(c.last_message_at, ago)}</span></p>
      <p class="row between nowrap"><span class="muted one-line" dir="auto">${c.last_message}</span>
        ${left > 0 && left < 3600 ? label('warning', 'clock', t('{n} min', { n: Math.floor(left / 60) })) : ''}
        ${c.unread ? html`<span class="count" aria-hidden="true">${c.unread}</span>` : ''}</p></div></li>`;
  })}</ul>
  ${rows.more ? html`<div class="row center pad"><button type="button" onclick=${more}>${t('Show more')}</button></div>` : ''}`;

/** @param {import('../lib/store.js').Rows<Written>} thread @param {Written[]} waiting */
export function threadLog(thread, waiting) {
  const known = new Set(thread.rows.map((m) => m.id));
  const all = [...waiting.filter((m) => !known.has(m.id)), ...thread.rows].reverse();
  return html`<div class="log thread" role="log" aria-label=${t('Thread')} tabindex="0">
    ${thread.error && !thread.loaded ? problem(thread.error, () => thread.load()) : ''}
    ${!thread.loaded && !thread.error && !waiting.length ? skeleton(4) : ''}
    ${thread.more && thread.loaded ? html`<div class="row center"><button type="button" onclick=${() => thread.loadMore()}>
      ${t('Earlier messages')}</button></div>` : ''}
    ${all.map((m) => bubble({ key: m.id, direction: m.direction, text: line(m), status: m.status, at: m.at,
      error: m.error ?? null, note: attached(m, thread.rows) }))}</div>`;
}

/** The contact of a conversation, with more. @param {Conversation} c @param {unknown} more @param {() => unknown} close */
export const contactAside = (c, more, close) => html`<aside class="contact-aside" aria-label=${t('Contact')}
    onkeydown=${on((e) => e.key === 'Escape' && close())}>
  <button type="button" class="quiet icon-only aside-button" aria-label=${t('Close')} onclick=${close}>${icon('close')}</button>
  <span class="avatar big" aria-hidden="true">${initials(c.contact.name || '?')}</span>
  <p class="aside-name"><bdi>${can('contacts:read') ? html`<a href=${`/ui/contacts/${c.contact.id}`}>${c.contact.name ||
    t('No name')}</a>` : c.contact.name}</bdi></p>
  <dl class="facts one">
    ${c.contact.phone ? html`<div><dt>${t('Phone')}</dt><dd dir="ltr">${c.contact.phone}</dd></div>` : ''}
    ${c.contact.email ? html`<div><dt>${t('E-mail')}</dt><dd>${c.contact.email}</dd></div>` : ''}
    ${c.contact.tags.length ? html`<div><dt>${t('Tags')}</dt><dd class="tags">${c.contact.tags.map((tag) => html`<span key=${tag}
      class="tag">${tag}</span>`)}</dd></div>` : ''}
    ${Object.entries(c.contact.custom_fields ?? {}).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd class="lines" dir="auto">${readable(value)}</dd></div>`)}
    <div><dt>${t('Conversation')}</dt><dd>${idText(c.id)}</dd></div></dl>${more}</aside>`;
