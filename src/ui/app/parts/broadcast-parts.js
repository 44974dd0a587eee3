/** The parts of the page of a new broadcast: the values of a template's places, its audience, its preview, its test. */
import { get, intent, post } from '../lib/api.js';
import { debounce, submit } from '../lib/dom.js';
import { duration, number, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { can } from '../lib/session.js';
import { bound, sending } from './bound.js';
import { strange } from './bubble.js';
import { dialog, notify, overlay } from './dialog.js';
import { button, e164, field, formError, phoneNote, select, submitButton } from './form.js';
import { describe, segmentDialog } from './segment-form.js';
import { filled, placeFault } from './template.js';

/** @typedef {{from: string, text: string}} Value */
/** @typedef {import('./template.js').Place} Place */

/** Returns whether it is a text. A place in the text takes a text or a field of each contact, others a text that is
 * the same for all. @param {Place} place @param {Value} value */
const isText = (place, value) => place.part !== 'body' || value.from === 'text';

/** @param {Place} place @param {Value} value @param {number} missing recipients that lack a value @returns {string | null} */
export function valueFault(place, value, missing) {
  if (isText(place, value)) return placeFault(place, value.text);
  return missing ? t('{n} recipients are missing a value for a variable.', { n: missing }) : null;
}

/**
 * @param {Place} place @param {Value} value @param {[string, string][]} sources
 * @param {(into: Value, key: 'from' | 'text') => (value: string) => unknown} set @param {string | null} error
 */
export function placeField(place, value, sources, set, error) {
  const { part, label } = place;
  const text = (/** @type {string} */ name) => field({ label: name, value: value.text, input: set(value, 'text'), dir: 'auto', error });
  if (part !== 'body') return text(label);
  const options = /** @type {[string, string][]} */ ([['text', t('Text')], ...sources]);
  const isOwn = isText(place, value);
  return html`<div key=${label} class="place">${select({ label, value: value.from, options, change: set(value, 'from'),
    error: isOwn ? null : error })}
    ${isOwn ? text(t('Text for {place}', { place: label })) : ''}</div>`;
}

/**
 * Shows the field of the recipients: a segment, contacts by their phones, or phones.
 * @param {{audience: string, segment: string, contacts: string, phones: string}} state @param {any[]} segments
 * @param {(key: 'segment' | 'contacts' | 'phones') => (value: string) => unknown} set
 * @param {{error: string | null, made: (segment: any) => unknown}} more what is wrong with it, and what a new segment is given to
 */
export function audienceField(state, segments, set, { error, made }) {
  if (state.audience === 'segment') {
    const chosen = segments.find((s) => s.id === state.segment);
    const options = segments.map((s) => /** @type {[string, string]} */ ([s.id, s.name]));
    return html`<div class="row bottom nowrap"><div class="grow">${select({ label: t('Segment'), value: state.segment,
      options: [['', t('Choose')], ...options], change: set('segment'), error })}</div>
      ${can('contacts:write') ? button(t('New segment'), () => segmentDialog({ after: made })) : ''}</div>
      ${chosen ? html`<p class="hint">${describe(chosen.filter)}</p>` : ''}`;
  }
  const isContacts = state.audience === 'contacts';
  const list = isContacts ? 'contacts' : 'phones';
  return html`${field({ label: isContacts ? t('Contacts') : t('Phone numbers'), rows: 4, mono: true, dir: 'ltr', value: state[list],
    input: set(list), placeholder: '+15550123456\n+15550123457', error,
    hint: isContacts ? t('Enter one phone number per line. Use “Find” to add a contact.') : t('Enter one phone number per line. Duplicates count once.') })}${
    isContacts
      ? html`<div class="row">${button(t('Find'), () => contactFinder((phone) => set(list)(`${state.contacts.trim()}\n${phone}`.trim())))}</div>`
      : phoneNote(state.phones, () => set(list)(state.phones))}`;
}

/** Opens a dialog that finds contacts and adds their phones. @param {(phone: string) => unknown} add */
function contactFinder(add) {
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

/** Returns the warnings before a send. @param {any} p */
const notes = (p) => {
  if (!p) return [];
  return [
    p.suppressed ? t('{n} have opted out and will be skipped', { n: p.suppressed }) : '',
    p.without_phone ? t('{n} have no phone', { n: p.without_phone }) : '',
    p.missing_variables ? t('{n} are missing a value for a variable', { n: p.missing_variables }) : '',
    p.cost > p.credits_left ? t('Not enough credits: only {n} left', { n: p.credits_left }) : '',
  ].filter(Boolean);
};

/** @param {any} template @returns {string} */
export const notApproved = (template) =>
  t('This template is not approved and cannot be sent. Status: {status}.', { status: words(template.status) });

/**
 * Shows the text and the cost of a broadcast, before it is sent.
 * @param {{template: any, preview: any, cost: string}} b
 */
export const previewAside = ({
  template,
  preview,
  cost,
}) => html`<section class="card stack preview" aria-label=${t('Preview')}><h2>${t('Preview')}</h2>
    ${template && template.status !== 'approved' ? html`<p class="error block" role="alert">
      ${notApproved(template)}</p>` : ''}
    ${
      preview?.samples?.length
        ? html`<div class="samples">${preview.samples.map((/** @type {any} */ s) => html`<div key=${s.to}><p class="hint">${s.name
          ? html`<span dir="auto">${s.name}</span> ` : ''}<span dir="ltr">${s.to}</span></p><p class="bubble in bubble-text"
          dir="auto">${strange(s.text)}</p></div>`)}</div>`
        : html`<p class="template-text" dir="auto">${template ? filled(template)
          : t('Choose a template and an audience to preview the message for up to five recipients.')}</p>`
    }
    <dl class="facts"><div><dt>${t('Recipients')}</dt><dd>${preview ? number(preview.recipients) : '–'}</dd></div>
      <div><dt>${t('Cost')}</dt><dd><span role="status" aria-label=${t('Cost')}>${cost}</span></dd></div><div><dt>${t('Duration')}
        </dt><dd><span role="status" aria-label=${t('Duration')}>${preview?.seconds_at_pace === null ||
        !preview ? '–' : duration(preview.seconds_at_pace)}</span></dd></div></dl>
    ${notes(preview).length ? html`<ul class="notes-list">${notes(preview).map((x) => html`<li key=${x}>${x}</li>`)}</ul>` : ''}</section>`;

/** The phone of the last test. */
let last = '';

/** Sends a broadcast's text to one phone. @param {any} body of the broadcast */
export function testDialog(body) {
  const key = intent();
  const state = { to: last, busy: false, error: /** @type {any} */ (null) };
  const send = () =>
    sending(state, async () => {
      last = await e164(state.to);
      await post('/v1/messaging/broadcasts/test', { ...body, to: last }, key);
      notify(t('Sending test to {phone}', { phone: last }));
      close();
    });
  const phone = { label: t('Phone'), type: 'tel', dir: 'ltr', placeholder: '+15550123456', focus: true, required: true };
  const close = overlay(() =>
    dialog(
      t('Send test'),
      () => close(),
      html`<form class="stack" onsubmit=${submit(send)}>${bound(state, 'to', phone)}${phoneNote(state.to)}${formError(state.error, ['to'])}
        <div class="row end">${submitButton(t('Send test'), state.busy)}</div></form>`,
      { kind: 'small' },
    ),
  );
}
