import { get } from '../lib/api.js';
import { day, now, number, percent, time, way, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can, session } from '../lib/session.js';
import { Resource, Rows } from '../lib/store.js';
import { downloadLink } from '../parts/csv.js';
import { empty, shown } from '../parts/empty.js';
import { codeState, wrongAttempts } from '../parts/code-state.js';
import { choice, filters } from '../parts/filter.js';
import { e164Now } from '../parts/form.js';
import { freshRows, scrolled } from '../parts/fresh.js';
import { period } from '../parts/period.js';
import { clearTyped, otherSearch, person, personSearch } from '../parts/person.js';
import { moreButton, table } from '../parts/table.js';
import { funnel } from '../lib/chart.js';
import { icon } from '../lib/icons.js';

/** @typedef {import('../lib/types.js').Otp} Otp */
const STATUSES = ['active', 'verified', 'expired', 'invalidated', 'cancelled'];
const CHANNELS = ['messaging', 'sms', 'email'];

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {Rows<Otp>} */
  const rows = new Rows(
    '/v1/otp',
    /** @returns {Record<string, unknown>} */ () => ({ ...filter.values, ...range.moments(), phone: e164Now(filter.values.phone) }),
    (/** @type {Otp} */ r) => r.request_id,
  );
  const filter = filters(['phone', 'status', 'channel', 'reference'], () => rows.load(signal));
  const range = period(() => rows.load(signal));
  rows.held = scrolled;
  const byDay = new Resource((s) => get('/v1/analytics/otp', { from: day(6), to: day(0), group_by: 'day' }, s));
  const byCountry = new Resource((s) => get('/v1/analytics/otp', { from: day(6), to: day(0), group_by: 'country' }, s));
  /** @type {{code: string, n: number, refused: boolean, at: string}[]} */
  let pumping = [];
  const warnings = async () => {
    if (!can('events:read')) return;
    const answer = await get('/v1/events', { types: 'otp.pumping_suspected', order: 'desc', limit: 5 }, signal).catch(
      () => ({ data: [] }),
    );
    pumping = answer.data
      .filter(
        (/** @type {any} */ e) => e.type === 'otp.pumping_suspected' && now() - Date.parse(e.timestamp) < 86_400_000,
      )
      .map((/** @type {any} */ e) => ({
        code: e.data.calling_code,
        n: e.data.unverified,
        refused: e.data.refused,
        at: e.timestamp,
      }));
  };
  const figures = () => {
    if (can('analytics:read')) {
      byDay.load(signal);
      byCountry.load(signal);
    }
  };

  const list = () =>
    table({
      label: t('Codes'),
      rows: rows.rows,
      key: (r) => r.request_id,
      href: (r) => `/ui/codes/${r.request_id}`,
      columns: [
        { name: t('Phone'), kind: 'main', cell: (r) => person(r.contact, r.phone) },
        { name: t('Status'), cell: codeState },
        { name: t('Channel'), kind: 'tight', cell: (r) => (r.mode === 'inbound' ? t('Sent by the user') : way(r.channel)) },
        { name: t('Wrong attempts'), kind: 'num', cell: (r) => wrongAttempts(r) ?? '' },
        { name: t('Time'), kind: 'when', cell: (r) => time(r.created_at) },
      ],
    });

  return {
    title: 'Codes',
    async open(_, s) {
      signal = s;
      figures();
      await Promise.all([rows.load(s), warnings()]);
    },
    onEvent(event) {
      if (!event.type.startsWith('otp.')) return;
      rows.refetch();
      if (event.type === 'otp.pumping_suspected') warnings();
    },
    resync: () => {
      rows.load(signal);
      figures();
    },
    actions: () => downloadLink({ path: rows.path, query: rows.query, name: 'codes.csv' }),
    view: () => html`
      ${pumping.map(
        (p) =>
          html`<div class="problem warning" role="alert">${icon('warning')}<p>${
            p.refused
              ? t('Codes to +{code} were blocked for an hour: {n} codes were not verified', { code: p.code, n: p.n })
              : t('Codes to +{code} look like SMS pumping: {n} codes were not verified', { code: p.code, n: p.n })
          }</p></div>`,
      )}
      ${
        can('analytics:read')
          ? html`<div class="columns codes-top">
        <section class="card" aria-label=${t('Funnel')}><h2>${t('Funnel')} <span class="hint">${t('last 7 days')}</span></h2>
          ${shown(byDay, () => funnel(byDay.data.totals))}</section>
        <section class="card" aria-label=${t('Countries')}><h2>${t('By country')}</h2>${shown(byCountry, () => countries(byCountry.data.data))}</section></div>`
          : ''
      }
      <div class="toolbar">
        ${personSearch(filter, 'phone')}
        ${choice(t('Status'), filter.values.status,
          [['', t('All')], ...STATUSES.map((s) => /** @type {[string, string]} */ ([s, s === 'active' ? t('Not verified yet') : words(s)]))], (v) => filter.set('status', v))}
        ${choice(t('Channel'), filter.values.channel,
          [['', t('All')], ...CHANNELS.map((c) => /** @type {[string, string]} */ ([c, way(c)]))], (v) => filter.set('channel', v))}
        ${range.view()}</div>
      ${shown(
        rows,
        () =>
          html`${freshRows(rows.fresh, () => rows.load(signal))}${list()}${moreButton(rows)}<p class="hint foot">${t('By default, codes are retained for 30 days after they end.')}</p>`,
        () =>
          filter.used || range.used
            ? empty({
                icon: 'search',
                title: t('No matching codes'),
                text: t('Try different filters.'),
                action: html`${otherSearch(filter, 'phone')}<button type="button" onclick=${() => (range.clear(), clearTyped(), filter.clear())}>${t('Clear filters')}</button>`,
              })
            : empty({
                icon: 'code',
                title: t('No codes yet'),
                text: t('A code is a one-time password that you send to a phone and verify.'),
                action: session.sandbox ? html`<a class="button primary" href="/ui/phone">${t('Send a code')}</a>` : '',
                call: { method: 'POST', path: '/v1/otp/send', body: { phone: '+15550123456' } },
              }),
      )}`,
  };
}

/** @param {any[]} data */
const countries = (data) =>
  data.length === 0
    ? html`<p class="muted">${t('No codes were sent.')}</p>`
    : table({
        label: t('By country'),
        small: true,
        rows: [...data].sort((a, b) => b.sent - a.sent).slice(0, 8),
        key: (r) => r.country,
        columns: [
          { name: t('Country'), cell: (r) => html`<span dir="ltr">+${r.country}</span>` },
          { name: t('Sent'), kind: 'num', cell: (r) => number(r.sent) },
          { name: t('Verified'), kind: 'num', cell: (r) => number(r.verified) },
          { name: t('Share'), kind: 'num', cell: (r) => percent(r.sent ? r.verified / r.sent : null) },
        ],
      });
