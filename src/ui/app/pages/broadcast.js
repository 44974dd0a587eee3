/** One broadcast and its progress. All counts come from one answer or one event, so they always add up. */
import { get, part, patch, post } from '../lib/api.js';
import { dateTime, duration, number, percent, time, words } from '../lib/format.js';
import { submit } from '../lib/dom.js';
import { t, tv } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { go, query, setQuery } from '../lib/router.js';
import { can } from '../lib/session.js';
import { Resource, Rows } from '../lib/store.js';
import { errorCell } from '../parts/channel-errors.js';
import { idText } from '../parts/code.js';
import { downloadLink } from '../parts/csv.js';
import { bound, sending } from '../parts/bound.js';
import { ask, attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { empty, shown } from '../parts/empty.js';
import { choice } from '../parts/filter.js';
import { button, errorFor, formError, submitButton } from '../parts/form.js';
import { Moment } from '../parts/moment.js';
import { ofAll, outcomeBar } from '../parts/outcomes.js';
import { person } from '../parts/person.js';
import { badge, facts } from '../parts/status.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {import('../lib/types.js').Recipient} Recipient */
const STATUSES = ['pending', 'held', 'sent', 'delivered', 'read', 'failed', 'unknown', 'suppressed', 'cancelled'];
const OVER = ['completed', 'cancelled', 'failed'];

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let id = '';
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {number | null} */
  let eta = null;
  let busy = '';
  const one = new Resource((s) => get(`/v1/messaging/broadcasts/${part(id)}`, {}, s));
  const rows = new Rows(
    '',
    () => ({ status: query('outcome') }),
    (/** @type {Recipient} */ r) => r.message_id ?? r.to,
  );
  const load = () => Promise.all([one.load(signal), rows.load(signal)]);
  let later = 0;
  /** Reloads later: an answer from before the last progress may come after it. */
  const loadLater = () => {
    clearTimeout(later);
    later = setTimeout(() => signal?.aborted || one.load(signal), 600);
  };
  /** @param {string} what @param {string} name */
  const act = async (what, name) => {
    busy = name;
    await attempt(async () => {
      one.data = await post(`/v1/messaging/broadcasts/${part(id)}/${what}`);
      rows.refetch();
      loadLater();
    });
    busy = '';
  };
  const cancel = () =>
    ask({
      title: t('Cancel {name}?', { name: one.data.name }),
      text: t('{n} recipients will be skipped permanently.', { n: one.data.counts.pending }),
      action: t('Cancel broadcast'),
      run: () => act('cancel', 'cancel'),
    });
  /** Edits its name and its start, until it starts. */
  const edit = () => {
    const { name } = one.data;
    const state = { name, busy: false, error: /** @type {any} */ (null) };
    const start = new Moment(one.data.schedule_at);
    const save = () => (start.check() ? sending(state, change) : undefined);
    const change = async () => {
      const body = {
        ...(state.name === name ? {} : { name: state.name.trim() }),
        ...(start.isTouched ? { schedule_at: start.date?.toISOString() } : {}),
      };
      if (Object.keys(body).length) one.data = await patch(`/v1/messaging/broadcasts/${part(id)}`, body);
      close();
    };
    const close = overlay(() =>
      dialog(
        t('Edit broadcast'),
        () => close(),
        html`<form class="stack" onsubmit=${submit(save)}>${bound(state, 'name', { label: t('Name'), required: true, focus: true })}
        ${start.view({ label: t('Start'), required: true, error: errorFor(state.error, 'schedule_at') })}
        ${formError(state.error, ['name', 'schedule_at'])}<div class="row end">${submitButton(t('Save'), state.busy)}</div></form>`,
        { kind: 'small' },
      ),
    );
  };
  const retry = () =>
    attempt(async () => {
      const made = await post(`/v1/messaging/broadcasts/${part(id)}/retry`);
      notify(t('Retrying {n} recipients', { n: made.total_recipients }));
      go(`/broadcasts/${made.broadcast_id}`);
    });
  const buttons = () => {
    const b = one.data;
    if (!b || !can('broadcasts:write')) return '';
    const over = OVER.includes(b.status);
    return html`${b.status === 'scheduled' ? button(t('Edit'), edit) : ''}${button(t('Pause'), () => act('pause', 'pause'), { disabled: !['queued', 'sending'].includes(b.status), busy: busy === 'pause' })}
      ${button(t('Resume'), () => act('resume', 'resume'), { disabled: b.status !== 'paused', busy: busy === 'resume' })}
      ${button(t('Cancel'), cancel, { disabled: over, kind: over ? '' : 'danger' })}
      ${button(t('Retry failed'), retry, { disabled: !over || b.counts.failed === 0 || Boolean(b.retried_by) })}`;
  };
  /** @param {any} b */
  const waits = (b) =>
    b.reason === 'portfolio_limit'
      ? html`<p class="muted">${tv('The numbers have reached their daily limit. Sending resumes automatically: {time}', { time: time(b.resumes_at) })}</p>`
      : '';
  /** @param {any} b */
  const progress = (b) => {
    const goes = !OVER.includes(b.status);
    const rate = goes && b.status !== 'paused' && b.rate_per_second ? t('{n} per second', { n: Math.round(b.rate_per_second) }) : '';
    return html`<section class="card progress-card"><div class="row between">
        <span role="status" aria-label=${t('Broadcast status')} class="status-line">${badge(b.status)}</span>
        <span class="row muted"><span role="status" aria-label=${t('Rate')} aria-live="off">${rate}</span>
          <span role="timer" aria-label=${t('Time left')}>${goes && eta !== null ? duration(eta) : ''}</span>
          <span>${ofAll(b)}</span></span></div>
      ${outcomeBar(b)}
      ${waits(b) || (b.reason ? html`<p class="error" role="alert">${b.reason}</p>` : '')}</section>`;
  };
  /** @param {any} b */
  const counts = (b) =>
    table({
      label: t('Counts'),
      small: true,
      rows: STATUSES,
      key: (s) => s,
      columns: [
        { name: t('Status'), cell: (s) => words(s) },
        { name: t('Recipients'), kind: 'num', cell: (s) => number(b.counts[s]) },
        {
          name: t('Share'),
          kind: 'num',
          cell: (s) => percent(b.total_recipients ? b.counts[s] / b.total_recipients : 0),
        },
      ],
    });
  /** @param {any} b */
  const about = (b) =>
    html`<section class="card">${facts([
      [t('Template'), html`<code>${b.template_name}</code> ${b.language}`],
      [t('Created'), time(b.created_at, dateTime)],
      [t('Scheduled'), b.schedule_at ? time(b.schedule_at, dateTime) : null],
      [t('Started'), b.started_at ? time(b.started_at, dateTime) : null],
      [t('Finished'), b.finished_at ? time(b.finished_at, dateTime) : null],
      [t('Delivery'), words(b.policy)],
      [t('Retry of'), b.retry_of ? html`<a href=${`/ui/broadcasts/${b.retry_of}`}>${b.retry_of}</a>` : null],
      [t('Retried in'), b.retried_by ? html`<a href=${`/ui/broadcasts/${b.retried_by}`}>${b.retried_by}</a>` : null],
      [t('ID'), idText(b.broadcast_id)],
    ])}</section>`;

  return {
    title: () => one.data?.name ?? t('Broadcast'),
    open(params, s) {
      [id, signal] = [params['id'] ?? '', s];
      rows.path = `/v1/messaging/broadcasts/${part(id)}/recipients`;
      return load();
    },
    onEvent(event) {
      const d = event.data;
      if (d?.broadcast_id !== id) return;
      if (event.type === 'broadcast.progress') {
        eta = d.eta_seconds;
        if (one.data)
          one.data = {
            ...one.data,
            status: d.status,
            counts: d.counts,
            total_recipients: d.total_recipients,
            rate_per_second: d.rate_per_second,
          };
        if (OVER.includes(d.status)) loadLater();
        if (OVER.includes(d.status) || rows.rows.length === 0) rows.refetch();
      } else if (event.type.startsWith('broadcast.')) load();
    },
    resync: load,
    actions: buttons,
    view: () =>
      shown(
        one,
        () => html`<div class="stack">${progress(one.data)}<div class="columns">${counts(one.data)}${about(one.data)}</div></div>
      <section class="section"><div class="toolbar">${choice(
        t('Outcome'),
        query('outcome'),
        [['', t('All')], ...STATUSES.map((s) => /** @type {[string, string]} */ ([s, words(s)]))],
        (v) => {
          setQuery({ outcome: v });
          return rows.load(signal);
        },
      )}<span class="grow"></span>${downloadLink({ path: rows.path, query: () => ({ status: query('outcome') }), name: `${id}.csv` })}</div>
        ${shown(
          rows,
          () =>
            html`${table({
              label: t('Recipients'),
              rows: rows.rows,
              key: (r) => r.message_id ?? r.to,
              href: (r) => (r.message_id && can('messages:read') ? `/ui/messages/${r.message_id}` : null),
              columns: [
                { name: t('To'), kind: 'main', cell: (r) => person(r.contact, r.to) },
                { name: t('Status'), cell: (r) => badge(r.status) },
                { name: t('Error'), cell: (r) => errorCell(r.error) },
              ],
            })}${moreButton(rows)}`,
          () =>
            empty({
              icon: 'contacts',
              title: t('No recipients'),
              text: query('outcome')
                ? t('No recipients have this outcome.')
                : t('Broadcasts cancelled before they start have no recipient list.'),
            }),
        )}</section>`,
      ),
  };
}
