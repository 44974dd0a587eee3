import { get, part, post } from '../lib/api.js';
import { number, time, way, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { attempt, notify } from '../parts/dialog.js';
import { shown } from '../parts/empty.js';
import { button } from '../parts/form.js';
import { idText } from '../parts/code.js';
import { badge, facts } from '../parts/status.js';
import { table } from '../parts/table.js';
import { eventsAbout, timelineOf } from '../parts/timeline.js';
import { countdown } from '../parts/countdown.js';

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

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let id = '';
  /** @type {AbortSignal | undefined} */
  let signal;
  const otp = new Resource((s) => get(`/v1/otp/${part(id)}`, {}, s));
  const events = eventsAbout(() => id);
  const load = () => Promise.all([otp.load(signal), can('events:read') ? events.load(signal) : null]);
  const phone = () => events.rows.find((/** @type {any} */ e) => e.data.phone)?.data.phone ?? null;
  const resend = () =>
    attempt(async () => {
      await post('/v1/otp/resend', { request_id: id });
      notify(t('The same code is on its way'));
      await load();
    });
  return {
    title: () => (phone() ? t('Code to {phone}', { phone: phone() }) : t('Code')),
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
        html`<section class="card">${facts([
          [t('Status'), badge(otp.data.status)],
          [t('Delivery'), words(otp.data.delivery_status)],
          [t('Channel'), otp.data.mode === 'inbound' ? t('Sent by the user') : way(otp.data.channel)],
          [t('Language'), otp.data.language],
          [t('Reference'), otp.data.reference],
          [t('Decision'), otp.data.decision ? words(otp.data.decision) : null],
          [t('Number'), otp.data.number_id ? idText(otp.data.number_id) : null],
          [t('Attempts left'), number(otp.data.attempts_remaining)],
          [
            t('Expires'),
            otp.data.status === 'active'
              ? countdown(t('Expires'), otp.data.expires_at, t('Expired'))
              : otp.data.status === 'expired'
                ? time(otp.data.expires_at)
                : null,
          ],
          [t('ID'), idText(id)],
        ])}</section>
        ${otp.data.tries.length ? html`<section class="section"><h2>${t('Deliveries')}</h2>${tries(otp.data.tries)}</section>` : ''}`,
    )}
    <section class="section"><h2>${t('Timeline')}</h2>${can('events:read') ? timelineOf(events) : ''}</section>`,
  };
}
