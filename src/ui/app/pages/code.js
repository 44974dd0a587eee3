import { get, part, post } from '../lib/api.js';
import { dateTime, duration, number, time, way, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { attempt, notify } from '../parts/dialog.js';
import { shown } from '../parts/empty.js';
import { button } from '../parts/form.js';
import { codeState, wrongAttempts } from '../parts/code-state.js';
import { idText } from '../parts/code.js';
import { personLink } from '../parts/person.js';
import { badge, facts } from '../parts/status.js';
import { table } from '../parts/table.js';
import { eventsAbout, timelineOf } from '../parts/timeline.js';
import { countdown } from '../parts/countdown.js';

/** @typedef {import('../lib/types.js').Otp} Otp */

/** Shows the outcome of each try to deliver the code. @param {import('../lib/types.js').Schemas['OtpTry'][]} rows */
const tries = (rows) =>
  table({
    label: t('Deliveries'),
    rows,
    key: (r) => String(r.step),
    small: true,
    columns: [
      { name: t('Channel'), cell: (r) => way(r.channel) },
      { name: t('Status'), cell: (r) => badge(r.status) },
      { name: t('Error'), cell: (r) => (r.error ? html`<code>${r.error}</code>` : '') },
      { name: t('Price'), kind: 'num', cell: (r) => number(r.price) },
      { name: t('Started'), cell: (r) => time(r.started_at) },
      { name: t('Ended'), cell: (r) => (r.ended_at ? time(r.ended_at) : '') },
    ],
  });

/** Returns the seconds until the right code was entered. @param {Otp} r */
const seconds = (r) => (Date.parse(r.verified_at ?? '') - Date.parse(r.created_at)) / 1000;

/** @param {Otp} r */
const price = (r) => r.tries.reduce((all, it) => all + it.price, 0);

/** @param {Otp} r */
const known = (r) =>
  facts([
    [t('Status'), codeState(r)],
    [t('To'), personLink(r.contact, r.phone)],
    [t('Created'), time(r.created_at, dateTime)],
    [t('Verified after'), r.verified_at ? html`<span title=${dateTime(r.verified_at)}>${duration(seconds(r))}</span>` : null],
    [t('Expires'), r.status === 'active' ? countdown(t('Expires'), r.expires_at, t('Expired')) : null],
    [t('Expired'), r.status === 'expired' ? time(r.expires_at, dateTime) : null],
    [t('Wrong attempts'), wrongAttempts(r)],
    // From an hour after its end on, the price is not known.
    [t('Price'), price(r) ? t('{n} credits', { n: price(r) }) : null],
    [t('Channel'), r.mode === 'inbound' ? t('Sent by the user') : way(r.channel)],
    [t('Language'), r.language],
    [t('Reference'), r.reference],
    [t('Decision'), r.decision ? words(r.decision) : null],
    [t('Number'), r.number_id ? idText(r.number_id) : null],
    [t('ID'), idText(r.request_id)],
  ]);

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let id = '';
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {Resource<Otp>} */
  const otp = new Resource((s) => get(`/v1/otp/${part(id)}`, {}, s));
  const events = eventsAbout(() => id);
  const load = () => Promise.all([otp.load(signal), can('events:read') ? events.load(signal) : null]);
  const whom = () => otp.data?.contact?.name || otp.data?.phone;
  const resend = () =>
    attempt(async () => {
      await post('/v1/otp/resend', { request_id: id });
      notify(t('The same code is on its way'));
      await load();
    });
  return {
    title: () => (whom() ? t('Code to {phone}', { phone: whom() ?? '' }) : t('Code')),
    open(params, s) {
      [id, signal] = [params['id'] ?? '', s];
      return load();
    },
    onEvent: (event) => (event.data?.request_id === id ? load() : undefined),
    resync: load,
    actions: () => (can('otp:send') ? button(t('Resend'), resend, { disabled: otp.data?.status !== 'active' }) : ''),
    view: () => html`${shown(
      otp,
      () =>
        html`<section class="card">${known(/** @type {Otp} */ (otp.data))}</section>
        ${otp.data?.tries.length ? html`<section class="section"><h2>${t('Deliveries')}</h2>${tries(otp.data.tries)}</section>` : ''}`,
    )}
    <section class="section"><h2>${t('Timeline')}</h2>${can('events:read') ? timelineOf(events) : ''}</section>`,
  };
}
