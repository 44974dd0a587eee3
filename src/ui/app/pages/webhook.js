/** One endpoint: its deliveries, its failures with their reasons, and the remedies. */
import { get, parse, part, patch, post, remove } from '../lib/api.js';
import { paced } from '../lib/dom.js';
import { dateTime, now, number, percent, time, words } from '../lib/format.js';
import { t, tv } from '../lib/i18n.js';
import { icon } from '../lib/icons.js';
import { html } from '../lib/render.js';
import { go, query, setQuery } from '../lib/router.js';
import { Resource, Rows } from '../lib/store.js';
import { code } from '../parts/code.js';
import { ask, attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { empty, shown } from '../parts/empty.js';
import { endpointDialog, onceShown } from '../parts/endpoint.js';
import { choice } from '../parts/filter.js';
import { button } from '../parts/form.js';
import { json } from '../parts/json.js';
import { badge, facts, figure, label } from '../parts/status.js';
import { moreButton, table } from '../parts/table.js';

/** @typedef {import('../lib/types.js').Delivery} Delivery */

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let id = '';
  /** @type {AbortSignal | undefined} */
  let signal;
  /** @type {Delivery | null} */
  let open = null;
  /** @type {any} */
  let detail = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let soon;
  const hook = new Resource((s) => get(`/v1/webhooks/${part(id)}`, {}, s));
  const rows = new Rows(
    '',
    () => ({ status: query('result') }),
    (/** @type {Delivery} */ d) => `${d.id ?? d.event_id ?? d.at}-${d.attempt}-${d.at}`,
  );
  const failed = new Resource((s) => get(`${base()}/deliveries`, { status: 'failed', limit: 50 }, s));
  /** Failures up to this time have been replayed. */
  let replayed = '';
  /** Returns whether a failed event has neither arrived since nor been replayed. */
  const canReplay = () =>
    (failed.data?.data ?? []).some(
      (/** @type {Delivery} */ d) =>
        d.at > replayed && !rows.rows.some((r) => !r.error && r.event_id === d.event_id && r.at > d.at),
    );
  /** Loads the page, and again when the list's next try is due, because tries have no event of their own. */
  const load = async () => {
    await Promise.all([hook.load(signal), rows.load(signal), failed.load(signal)]);
    clearTimeout(soon);
    const due = rows.rows
      .map((d) => (d.next_retry_at ? Date.parse(d.next_retry_at) - now() : Infinity))
      .filter((ms) => ms > -2000);
    const next = Math.min(...due);
    if (next < 300_000 && !signal?.aborted) soon = setTimeout(load, Math.max(400, next + 400));
  };
  /** Loads after a moment, because the try follows its event. */
  const loadSoon = paced(() => signal?.aborted || load(), 350);
  /** Runs an action and reloads: its try comes within moments. @param {() => Promise<unknown>} run */
  const act = (run) =>
    attempt(async () => {
      const before = rows.rows[0]?.at;
      await run();
      for (const wait of [80, 200, 400, 800, 1500]) {
        await new Promise((done) => setTimeout(done, wait));
        await load();
        if (signal?.aborted || rows.rows[0]?.at !== before) return;
      }
    });
  const base = () => `/v1/webhooks/${part(id)}`;
  const test = () => act(() => post(`${base()}/test`));
  const replayFailed = () =>
    act(async () => {
      const newest = failed.data?.data[0]?.at ?? '';
      const { queued } = await post(`${base()}/replay`, { failed: true });
      replayed = newest;
      notify(t('Deliveries queued: {n}', { n: queued }));
    });
  const edit = () => endpointDialog(load, hook.data);
  /** @param {Delivery} d */
  const replayOne = (d) => act(() => post(`${base()}/replay`, { event_id: d.event_id ?? d.event_ids[0] }));
  const rotate = () =>
    ask({
      title: t('Rotate secret?'),
      text: t('Deliveries are signed with both secrets for 24 hours, then with the new one only.'),
      action: t('Rotate secret'),
      danger: false,
      run: () =>
        attempt(async () => {
          const made = await post(`${base()}/rotate-secret`);
          const close = overlay(() =>
            dialog(
              t('New secret'),
              () => close(),
              onceShown(t('Signing secret'), made.secret, t('Copy'), () => close()),
            ),
          );
          await hook.load(signal);
        }),
    });
  /** @param {boolean} enabled */
  const enable = (enabled) =>
    attempt(async () => {
      await patch(base(), { enabled });
      await load();
    });
  const toggle = async () => {
    const enabled = !hook.data.enabled;
    await enable(enabled);
    if (hook.data.enabled === enabled) notify(enabled ? t('Enabled') : t('Disabled'), { undo: () => enable(!enabled) });
  };
  const drop = () =>
    ask({
      title: t('Delete {name}?', { name: hook.data.url }),
      text: t('Its delivery history is deleted, and waiting events are not delivered.'),
      action: t('Delete endpoint'),
      run: () =>
        attempt(async () => {
          await remove(base());
          go('/webhooks');
        }),
    });
  /** @param {Delivery} d */
  const pick = async (d) => {
    [open, detail] = [d, null];
    if (d.id) detail = await get(`${base()}/deliveries/${part(d.id)}`, {}, signal).catch(() => null);
  };
  /** @param {Delivery} d */
  const result = (d) =>
    d.status && d.status < 300
      ? badge('ok', String(d.status))
      : label('bad', 'cross', d.status ? String(d.status) : d.error ? words(d.error) : '–');

  /** @param {Delivery} d */
  const aside = (d) => html`<aside class="side card" aria-label=${t('Delivery')}>
    <div class="card-head"><h2>${d.type}</h2><button type="button" class="quiet icon-only" aria-label=${t('Close')} onclick=${() => {
      open = null;
    }}>${icon('close')}</button></div>
    ${facts([
      [t('Result'), result(d)],
      [t('Time'), time(d.at, dateTime)],
      [t('Try'), number(d.attempt)],
      [t('Latency'), t('{n} ms', { n: d.latency_ms })],
      [t('Next'), d.next_retry_at ? time(d.next_retry_at, dateTime) : null],
    ])}
    <h3>${t('Request')}</h3>${detail?.request ? exchange(detail.request, t('Request')) : html`<p class="muted">
      ${(d.event_ids ?? []).map((e) => html`<a key=${e} href=${`/ui/events?event=${e}`}>${e}</a> `)}</p>`}
    <h3>${t('Answer')}</h3>${d.error && !d.status ? html`<p class="muted">${t('No response: {reason}', { reason: d.error.replaceAll('_', ' ') })}</p>` : ''}
    ${detail?.response ? exchange(detail.response, t('Answer')) : d.response ? html`<pre class="code"
      tabindex="0">${d.response}</pre>` : d.error ? '' : html`<p class="muted">${t('No body')}</p>`}
    <div class="row end">${button(t('Replay'), () => replayOne(d))}</div></aside>`;

  /** @param {any} w */
  const head = (w) => html`<dl class="figures">
    ${figure(t('State'), w.enabled ? label('good', 'check', t('Enabled')) : label('bad', 'stop', t('Disabled')), w.disabled_reason ? words(w.disabled_reason) : '')}
    ${figure(t('Success, 24 h'), percent(w.health?.success_24h))}${figure(t('Latency, p95'), w.health?.p95_ms === null ||
      w.health?.p95_ms === undefined ? '–' : t('{n} ms', { n: w.health.p95_ms }))}
    ${figure(t('Waiting'), number(w.health?.waiting))}</dl>
    ${w.previous_secret_ends_at ? html`<p class="hint foot">${tv('Deliveries are also signed with the old secret until {time}.', { time: time(w.previous_secret_ends_at, dateTime) })}</p>` : ''}`;

  return {
    title: () => hook.data?.url ?? t('Webhook'),
    wide: true,
    open(params, s) {
      [id, signal] = [params['id'] ?? '', s];
      rows.path = `${base()}/deliveries`;
      s.addEventListener('abort', () => clearTimeout(soon));
      return load();
    },
    onEvent(event) {
      const w = hook.data;
      if (
        !w ||
        !event.sequence ||
        (w.events.length && !w.events.includes(event.type) && event.type !== 'webhook.disabled')
      )
        return;
      loadSoon();
    },
    resync: load,
    actions: () =>
      hook.data
        ? html`${button(t('Send test event'), test, { kind: 'primary' })}${button(t('Replay failed'), replayFailed, { disabled: !canReplay() })}${button(t('Edit'), edit)}${button(t('Rotate secret'), rotate)}
      ${button(hook.data.enabled ? t('Disable') : t('Enable'), toggle, { kind: 'quiet' })}${button(t('Delete'), drop, { kind: 'quiet' })}`
        : '',
    view: () =>
      shown(
        hook,
        () => html`${head(hook.data)}
      <div class="toolbar section">${choice(
        t('Result'),
        query('result'),
        [
          ['', t('All')],
          ['failed', t('Failed')],
        ],
        (v) => {
          setQuery({ result: v });
          return rows.load(signal);
        },
      )}</div>
      <div class=${open ? 'with-side' : ''}><div>${shown(
        rows,
        () =>
          html`${table({
            label: t('Deliveries'),
            rows: rows.rows,
            key: rows.id,
            onpick: pick,
            selected: (d) => d === open,
            columns: [
              { name: t('Type'), cell: (d) => html`<code>${d.type}</code>` },
              { name: t('Try'), kind: 'num', cell: (d) => number(d.attempt) },
              { name: t('Status'), cell: result },
              { name: t('Latency'), kind: 'num', cell: (d) => t('{n} ms', { n: d.latency_ms }) },
              { name: t('Next'), cell: (d) => (Date.parse(d.next_retry_at ?? '') > now() ? time(d.next_retry_at) : '–') },
              { name: t('Time'), kind: 'when', cell: (d) => time(d.at) },
            ],
            actions: (d) => button(t('Replay'), () => replayOne(d), { kind: 'quiet' }),
          })}${moreButton(rows)}`,
        () =>
          empty({
            icon: 'webhook',
            title: query('result') ? t('No failed deliveries') : t('No deliveries yet'),
            text: t('Each delivery attempt appears here with its response. Send a test event to try the endpoint now.'),
            action: query('result') ? '' : button(t('Try it now'), test),
          }),
      )}</div>${open ? aside(open) : ''}</div>
      <section class="section card" aria-label=${t('Verify signatures')}><h2>${t('Verify signatures')}</h2>
        <p class="muted">${t('Each request is signed according to Standard Webhooks. The example below listens on port 9000 and accepts only requests signed with your secret.')}</p>
        ${code(verifySnippet, t('JavaScript example'))}</section>`,
      ),
  };
}

/** @param {string} text @returns {{value: unknown} | null} */
function parsed(text) {
  try {
    return { value: parse(text) };
  } catch {
    return null;
  }
}

/** @param {{headers?: Record<string, unknown>, body?: string | null}} side @param {string} label */
function exchange({ headers = {}, body }, label) {
  const known = parsed(body ?? '');
  return html`${
    Object.keys(headers).length
      ? html`<details><summary>${t('Headers')}</summary><dl class="facts one">${Object.entries(headers).map(
          ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd><code class="wrap">${String(value)}</code></dd></div>`,
        )}</dl></details>`
      : ''
  }${
    !body
      ? html`<p class="muted">${t('No body')}</p>`
      : known
        ? json(known.value, label)
        : html`<pre class="code" tabindex="0" role="group" aria-label=${label}>${body}</pre>`
  }`;
}

/** A program that verifies a delivery as pasted, with Node.js alone. */
const verifySnippet = `// node verify.mjs, with WEBHOOK_SECRET=whsec_… in the environment
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const secret = Buffer.from(process.env.WEBHOOK_SECRET.replace('whsec_', ''), 'base64');

createServer(async (request, response) => {
  let body = '';
  for await (const piece of request) body += piece;
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signatures } = request.headers;
  const wanted = createHmac('sha256', secret).update(\`\${id}.\${time}.\${body}\`).digest();
  const fresh = Math.abs(Date.now() / 1000 - Number(time)) < 300;
  const signed = String(signatures).split(' ').some((signature) => {
    const given = Buffer.from(signature.replace('v1,', ''), 'base64');
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  });
  response.writeHead(fresh && signed ? 204 : 401).end();
  console.log(fresh && signed ? 'verified' : 'refused', body);
}).listen(9000);
`;
