import { get } from '../lib/api.js';
import { ago, time } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { can } from '../lib/session.js';

/** @typedef {import('../lib/types.js').LiveEvent} LiveEvent */

/** Returns the subject of an event, in a word or two. @param {LiveEvent} e @returns {string} */
export function about(e) {
  const d = e.data ?? {};
  const first = d.name ?? d.phone ?? d.to ?? d.from ?? d.recipient ?? d.title ?? d.calling_code;
  return String(first ?? d.broadcast_id ?? d.contact_id ?? d.conversation_id ?? d.number_id ?? d.webhook_id ?? '');
}

/** The newest events, as they come. @param {number} most */
export function liveFeed(most) {
  /** @type {LiveEvent[]} */
  let rows = [];
  return {
    /** @param {AbortSignal} [signal] */
    async load(signal) {
      if (!can('events:read')) return;
      try {
        const answer = await get('/v1/events', { order: 'desc', limit: most }, signal);
        const known = new Set(answer.data.map((/** @type {LiveEvent} */ e) => e.id));
        rows = [...rows.filter((e) => !known.has(e.id)), ...answer.data]
          .sort((a, b) => b.sequence - a.sequence)
          .slice(0, most);
        refresh();
      } catch {
        // New events are still shown.
      }
    },
    /** @param {LiveEvent} event */
    take(event) {
      if (event.sequence) rows = [event, ...rows.filter((e) => e.id !== event.id)].slice(0, most);
    },
    view: () =>
      rows.length
        ? html`<ol class="feed">${rows.map(
            (e) => html`<li key=${e.id}>
      ${time(e.timestamp, ago)}<a href=${`/ui/events?event=${e.id}`}><code>${e.type}</code></a><span class="muted one-line" dir="auto">${about(e)}</span></li>`,
          )}</ol>`
        : html`<p class="muted">${t('New events appear here as they happen.')}</p>`,
  };
}
