import { submit, typed } from '../lib/dom.js';
import { words } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { bubble } from './bubble.js';
import { problem } from './empty.js';

/**
 * @typedef {{message_id: string, direction: string, text: string, status: string, at: string}} Row
 * @typedef {{phone: string, thread: import('../lib/store.js').Rows<any>, reload: () => unknown, text: string, writing: boolean,
 *   report: (id: string, status: string) => unknown, type: (text: string) => unknown, write: () => unknown}} Device
 */

/** What the channel would report of a message. @param {Row} r @param {Device['report']} report */
const reports = (r, report) =>
  r.status === 'failed' || r.status === 'read'
    ? ''
    : html`<p class="bubble-actions">
        ${
          r.status === 'delivered'
            ? ''
            : html`<button type="button" onclick=${() => report(r.message_id, 'delivered')}>${t('Mark delivered')}</button>`
        }
        <button type="button" onclick=${() => report(r.message_id, 'read')}>${t('Mark read')}</button></p>`;

/** To its owner, what the phone received is on the other side. @param {Row} r @param {Device['report']} report */
const row = (r, report) => html`<div key=${r.message_id + r.direction} class="log-row">
  ${bubble({ key: r.message_id, direction: r.direction === 'out' ? 'in' : 'out', text: r.text, at: r.at })}
  ${
    r.direction === 'out'
      ? html`<div class="log-foot"><span class="muted">${words(r.status)}</span>${reports(r, report)}</div>`
      : ''
  }</div>`;

/** A phone of the sandbox: what it received, and a field to write as its owner. @param {Device} d */
export const device = (d) => html`<section class="device" aria-label=${t('Phone {phone}', { phone: d.phone })}>
  <header class="device-head"><span class="avatar">${icon('phone')}</span><b dir="ltr">${d.phone}</b></header>
  <div class="log phone-log" role="log" aria-label=${t('Messages on this phone')} tabindex="0">
    ${d.thread.error && !d.thread.loaded ? problem(d.thread.error, d.reload) : ''}
    ${
      d.thread.loaded && d.thread.rows.length === 0
        ? html`<p class="log-empty muted">${t('Nothing yet. Send a code, and it shows here as on a phone.')}</p>`
        : ''
    }
    ${[...d.thread.rows].reverse().map((r) => row(r, d.report))}
  </div>
  <form class="device-write" onsubmit=${submit(d.write)}>
    <input aria-label=${t('Message as customer')} placeholder=${t('Message as customer')} autocomplete="off" dir="auto"
      .value=${d.text} oninput=${typed(d.type)}>
    <button class="primary icon-only" aria-label=${t('Send as customer')} title=${t('Send as customer')} ?disabled=${d.writing}>
      ${icon('send')}</button>
  </form></section>`;
