import { get, part, patch, post } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { dateTime, duration, now, number, time, words } from '../lib/format.js';
import { t, tv } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { adminPath } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { idText } from '../parts/code.js';
import { bound, sending } from '../parts/bound.js';
import { attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { shown } from '../parts/empty.js';
import { button, formError } from '../parts/form.js';
import { numberProblems, quality } from '../parts/number-problems.js';
import { badge, facts } from '../parts/status.js';
import { table } from '../parts/table.js';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let path = '';
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;
  const one = new Resource(async (s) => {
    const n = await get(path, {}, s);
    const portfolio = path.replace(/numbers\/[^/]*$/, `portfolios/${part(n.portfolio_id ?? '')}`);
    // The number is shown even without it.
    return { ...n, budget: n.portfolio_id ? await get(portfolio, {}, s).catch(() => null) : null };
  });
  /** Reloads the state while something waits or a try is due; otherwise an event reports it. */
  const load = async () => {
    await one.load(signal);
    clearTimeout(soon);
    const n = one.data;
    const waiting = n?.lanes && Object.values(n.lanes).some((/** @type {any} */ l) => l.waiting > 0);
    const due = n?.breaker?.next_try_at ? Date.parse(n.breaker.next_try_at) - now() : waiting ? 1000 : Infinity;
    if (due < 300_000 && !signal?.aborted) soon = setTimeout(load, Math.max(1000, due + 300));
  };
  const replace = () => {
    const state = { token: '', busy: false, error: /** @type {any} */ (null) };
    const save = () =>
      sending(state, async () => {
        await patch(path, { token: state.token.trim() });
        notify(t('Token replaced'));
        close();
        await load();
      });
    const close = overlay(() =>
      dialog(
        t('Replace token'),
        () => close(),
        html`<form class="stack" onsubmit=${submit(save)}><p class="muted">${t('Queued messages are sent with the new token immediately.')}</p>
      ${bound(state, 'token', { label: t('New token'), type: 'password', required: true, focus: true })}${formError(state.error, ['token'])}
      <div class="row end"><button class="primary" ?disabled=${state.busy || !state.token.trim()}>${t('Replace token')}</button></div></form>`,
        { kind: 'small' },
      ),
    );
  };
  const check = () =>
    attempt(async () => {
      await post(`${path}/check`);
      await load();
    });
  const lanes = (/** @type {any} */ n) =>
    table({
      label: t('Lanes'),
      rows: Object.entries(n.lanes ?? {}),
      key: ([k]) => k,
      columns: [
        { name: t('Lane'), cell: ([k]) => t({ otp: 'Codes', single: 'Single', broadcast: 'Broadcast' }[k] ?? k) },
        { name: t('Waiting'), kind: 'num', cell: ([, l]) => number(/** @type {any} */ (l).waiting) },
        {
          name: t('Oldest'),
          kind: 'num',
          cell: ([, l]) =>
            !(/** @type {any} */ (l).waiting) ? '–' : duration(/** @type {any} */ (l).oldest_seconds),
        },
      ],
    });
  const used = (/** @type {any} */ b) =>
    b.daily_recipients === null
      ? number(b.used)
      : b.used >= b.daily_recipients && b.frees_at
        ? tv('{done} of {total}, next slot {time}', { done: number(b.used), total: number(b.daily_recipients), time: time(b.frees_at) })
        : t('{done} of {total}', { done: b.used, total: b.daily_recipients });
  return {
    title: () => (one.data ? (one.data.phone ?? t('Number ({kind})', { kind: one.data.kind })) : t('Number')),
    open(params, s) {
      signal = s;
      const number = `/numbers/${part(params['id'] ?? '')}`;
      path = params['workspace'] ? `/admin/v1/workspaces/${part(params['workspace'])}${number}` : adminPath(number);
      s.addEventListener('abort', () => clearTimeout(soon));
      return load();
    },
    onEvent: (event) => (/^(number|channel)\./.test(event.type) ? load() : undefined),
    resync: load,
    actions: () => (one.data?.kind === 'cloud_api'
      ? html`${button(t('Check now'), check)}${button(t('Replace token'), replace, { kind: 'primary' })}`
      : ''),
    view: () =>
      shown(one, () => {
        const n = one.data;
        const rate = n.pace?.now ?? n.messages_per_second;
        return html`<div class="stack"><section class="card"><p class="row" role="status" aria-label=${t('Number state')}>
          ${badge(n.state ?? (n.trouble ? 'stopped' : 'open'))}${(n.reason ?? n.trouble) ? html`<span>${n.reason ?? n.trouble}</span>` : ''}${n.since ? html`<span
          class="muted">${tv('since {time}', { time: time(n.since, dateTime) })}</span>` : ''}</p></section>
        ${numberProblems(n)}<div class="columns">${n.lanes ? lanes(n) : ''}<section class="card">${facts([
          [t('Rate'), rate ? t('{n} per second', { n: rate }) : t('As fast as the channel allows')],
          [t('Sent, last minute'), number(n.sent_last_minute)],
          [t('In flight'), number(n.in_flight)],
          [t('New recipients, 24 h'), n.budget ? used(n.budget) : null],
          [t('Quality'), n.quality === 'unknown' ? null : quality(n.quality)],
          [t('Display name'), n.name_status ? words(n.name_status) : null],
          [t('Throughput'), n.throughput ? words(n.throughput) : null],
          [t('In the pool'), n.pool ? t('Yes') : t('No')],
          [t('Portfolio'), n.portfolio_id ? html`<code class="wrap">${n.portfolio_id}</code>` : null],
          [
            t('Circuit breaker'),
            !n.breaker
              ? null
              : n.breaker.open
              ? n.breaker.next_try_at ? tv('open, next attempt {time}', { time: time(n.breaker.next_try_at) }) : t('open')
              : t('closed'),
          ],
          [
            t('Last error'),
            n.last_error ? html`${n.last_error.code ?? ''} ${n.last_error.message} ${time(n.last_error.at)}` : null,
          ],
          [t('Last callback'), n.last_callback_at ? time(n.last_callback_at) : null],
          [t('Type'), words(n.kind)],
          [t('Callback'), n.callback_path ? html`<code class="wrap">${n.callback_path}</code>` : null],
          [t('ID'), idText(n.id)],
        ])}</section></div></div>`;
      }),
  };
}
