/** A person in a row: the contact's name if there is one, and the phone. */
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { href, query, setQuery } from '../lib/router.js';
import { can } from '../lib/session.js';
import { search } from './filter.js';
import { e164 } from './form.js';

/** @typedef {{contact_id: string, name: string} | null | undefined} Named */

/** @param {Named} contact @param {string | null | undefined} phone or the channel's id of the person */
export const person = (contact, phone) =>
  contact && contact.name !== phone
    ? html`<span class="person"><span dir="auto">${contact.name || t('No name')}</span> <bdi class="muted" dir="ltr">${phone ?? ''}</bdi></span>`
    : html`<bdi dir="ltr">${phone ?? '–'}</bdi>`;

/** Shows the same on the page of something else. The name is a link to the contact.
 * @param {Named} contact @param {string | null | undefined} phone */
export const personLink = (contact, phone) =>
  contact
    ? html`<a href=${`/ui/contacts/${contact.contact_id}`} dir="auto">${contact.name || t('No name')}</a> <bdi class="muted" dir="ltr">${contact.name === phone ? '' : (phone ?? '')}</bdi>`
    : html`<bdi dir="ltr">${phone ?? '–'}</bdi>`;

const DIGITS = /^[\d\s()./-]{5,}$/;
/** The channel's ids of people, such as US.13491208655302741918. */
const PERSON_ID = /^[A-Z]{2}\.\w+$/;

/**
 * The search of a list by a person's phone or by the sender's reference, whichever the text is. The address has the text
 * as it was typed beside the phone.
 * @template {string} P
 * @param {import('./filter.js').Filters<P | 'reference'>} filter @param {P} phone the name of the phone's filter
 * @param {{ids?: boolean}} [how] whether the phone's filter takes the channel's ids of people, too
 */
export const personSearch = (filter, phone, { ids = false } = {}) =>
  search(t('Phone or reference'), filter.values[phone] || filter.values.reference, (typed) => {
    const text = typed.trim();
    if (text.startsWith('+') && text.replace(/\D/g, '').length < 7) return false;
    /** @param {string} value */
    const find = (value) => {
      const isPerson = value.startsWith('+') || (ids && PERSON_ID.test(value));
      return filter.setAll({
        [phone]: isPerson ? value : '',
        reference: isPerson ? '' : value,
        typed: isPerson && value !== text ? text : '',
      });
    };
    // A phone without its country code is one if the person's country is known.
    return DIGITS.test(text) || text.startsWith('+') ? e164(text).then(find) : find(text);
  });

/** Removes from the address what was typed. */
export const clearTyped = () => setQuery({ typed: '' });

/** Shows where else to search, where nothing was found.
 * @template {string} P @param {import('./filter.js').Filters<P | 'reference'>} filter @param {P} phone */
export function otherSearch(filter, phone) {
  const [typed, reference] = [query('typed'), filter.values.reference];
  if (filter.values[phone] && typed)
    return html`<button type="button" class="primary" onclick=${() => filter.setAll({ [phone]: '', reference: typed, typed: '' })}>
      ${t('Search references for {text}', { text: typed })}</button>`;
  if (!reference) return '';
  return html`${DIGITS.test(reference) ? html`<p class="hint">${t('To find a phone number, start with + and the country code.')}</p>` : ''}
    ${can('contacts:read') ? html`<a class="button primary" href=${href('/contacts', { search: reference })}>
      ${t('Search contacts for {text}', { text: reference })}</a>` : ''}`;
}
