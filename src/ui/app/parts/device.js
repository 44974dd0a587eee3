/** The sandbox's phones, and the next actions of its channel and clock. */
import { on, submit, typed } from '../lib/dom.js';
import { ago, bytes, time, words } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { bubble } from './bubble.js';
import { problem, shown } from './empty.js';
import { button, select } from './form.js';

/** @import { Device, PhoneFile, PhoneRow } from '../lib/types.js' */

/** @type {typeof import('./phone-file.js') | undefined} */
let files;

/** @param {PhoneFile | null | undefined} file */
function phoneFile(file) {
  if (file && !files)
    import('./phone-file.js').then((it) => {
      files = it;
      refresh();
    });
  return files?.phoneFile(file) ?? '';
}

/** The words for refused verifications. @type {Record<string, string>} */
export const REFUSALS = {
  OTP_EXPIRED: 'Expired',
  OTP_ALREADY_USED: 'Already used',
  OTP_ALREADY_VERIFIED: 'Already used',
  OTP_NOT_FOUND: 'Unknown request',
};

/** Keeps phones in their places, so that nobody clicks the wrong one.
 * @template {{data: {phone: string}[]}} T @param {T} next @param {T | null} shown @returns {T} */
export function inPlace(next, shown) {
  const phones = shown?.data.map((it) => it.phone) ?? [];
  return { ...next, data: [...next.data].sort((a, b) => phones.indexOf(a.phone) - phones.indexOf(b.phone)) };
}

/** Shows buttons for the channel's reports of a message. @param {PhoneRow} r @param {Device['report']} report */
const reports = (r, report) =>
  r.status === 'failed' || r.status === 'read'
    ? ''
    : html`<p class="bubble-actions">
        ${
          r.status === 'delivered'
            ? ''
            : html`<button type="button" onclick=${() => report(r.message_id, 'delivered')}>${t('Mark delivered')}</button>`
        }
        <button type="button" onclick=${() => report(r.message_id, 'read')}>${t('Mark read')}</button>
        ${r.status === 'delivered' ? '' : html`<button type="button" onclick=${() => report(r.message_id, 'failed')}>${t('Mark failed')}</button>`}</p>`;

/** A message for the phone's owner: the sides are swapped. @param {PhoneRow} r @param {Device['report']} report */
const row = (r, report) => html`<div key=${r.message_id + r.direction} class="log-row">
  ${bubble({ key: r.message_id, direction: r.direction === 'out' ? 'in' : 'out', text: r.text, at: r.at, note: phoneFile(r.media) })}
  ${
    r.direction === 'out'
      ? html`<div class="log-foot"><span class="muted">${words(r.status)}</span>${reports(r, report)}</div>`
      : ''
  }</div>`;

/** Shows a phone of the sandbox: its messages, and a field to write as its owner. @param {Device} d */
export const device = (d) => html`<section class="device" aria-label=${t('Phone {phone}', { phone: d.phone })}>
  <header class="device-head"><span class="avatar">${icon('phone')}</span><b dir="ltr">${d.phone}</b></header>
  <div class="log phone-log" role="log" aria-label=${t('Messages on this phone')} tabindex="0">
    ${d.thread.error && !d.thread.loaded ? problem(d.thread.error, d.reload) : ''}
    ${
      d.thread.loaded && d.thread.rows.length === 0
        ? html`<p class="log-empty muted">${t('No messages yet. Send a code to see it here as it appears on a phone.')}</p>`
        : ''
    }
    ${[...d.thread.rows].reverse().map((r) => row(r, d.report))}
  </div>
  <form class="device-write" onsubmit=${submit(d.write)}>
    <input aria-label=${t('Message as customer')} placeholder=${t('Message as customer')} autocomplete="off" dir="auto"
      .value=${d.text} oninput=${typed(d.type)}>
    <label class="button icon-only" title=${t('Attach file as customer')}>${icon('upload')}<input class="sr" type="file"
      aria-label=${t('Attach file as customer')} onchange=${on((e) => {
        const [file] = e.target.files;
        e.target.value = '';
        return file && d.choose(file);
      })}></label>
    <button class="primary icon-only" aria-label=${t('Send as customer')} title=${t('Send as customer')} ?disabled=${d.writing}>
      ${icon('send')}</button>
  </form>
  ${
    d.file
      ? html`<p class="device-file row between"><span dir="auto">${d.file.name} <span class="muted">${bytes(d.file.size)}</span></span>
    <button type="button" class="quiet" onclick=${() => d.choose(null)}>${t('Remove')}</button></p>`
      : ''
  }</section>`;

/** Shows the phones that the sandbox knows, the newest first.
 * @param {import('../lib/store.js').Resource<any>} phones @param {string} current @param {(phone: string) => unknown} show */
export const phoneList = (phones, current, show) => html`<section class="phones" aria-label=${t('Known phones')}>
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
    ${phones.data.data.length ? '' : html`<p class="muted pad">${t('No phone has received a message yet.')}</p>`}`,
  )}
</section>`;

const OUTCOMES = ['sent', 'held', 'failed', 'unavailable', 'lost', 'slow'];

/**
 * Controls the next actions of the sandbox's channel and clock.
 * @param {{outcome: string, auto: string, script: (o: string) => unknown, deliver: (v: string) => unknown, move: (s: number) => unknown}} p
 */
export const pretend = (p) => html`<section class="card" role="group" aria-label=${t('Simulate delivery')}>
    <h2>${t('Simulate delivery')}</h2>
    <div class="columns tight">
      ${select({ label: t('Next outcome'), value: p.outcome, options: OUTCOMES.map((o) => [o, words(o)]), change: p.script })}
      ${select({
        label: t('Delivery receipts'),
        value: p.auto,
        options: [
          ['none', t('None')],
          ['delivered', t('Delivered')],
          ['read', t('Read')],
        ],
        change: p.deliver,
      })}</div>
    <div class="row clock-row">${button(t('Clock +5 minutes'), () => p.move(300))}${button(t('Clock +1 hour'),
      () => p.move(3600))}${button(t('Clock +24 hours'), () => p.move(86400))}</div>
  </section>`;
