import { call, get } from '../lib/api.js';
import { paced } from '../lib/dom.js';
import { day, now, number, percent } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { icon } from '../lib/icons.js';
import { html, refresh } from '../lib/render.js';
import { adminPath, can, session } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { problem } from '../parts/empty.js';
import { liveFeed } from '../parts/feed.js';
import { problems } from '../parts/frame.js';
import { figure, label } from '../parts/status.js';

/** @typedef {{key: string, title: string, text: string, href: string, done: boolean | null}} Step */

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  const workspace = new Resource((s) => get('/v1/workspace', {}, s));
  const inbox = new Resource((s) => get('/v1/conversations/counts', {}, s));
  /** A role without events sees the codes of today and the running broadcasts, if it may. */
  const codes = new Resource((s) => get('/v1/analytics/otp', { from: day(0), to: day(0) }, s));
  const sends = new Resource((s) => get('/v1/messaging/broadcasts', { limit: 50 }, s));
  const templates = new Resource((s) => get('/v1/messaging/templates', { limit: 100 }, s));
  const without = () => !can('events:read');
  const inboxLater = paced(() => signal?.aborted || inbox.load(signal));
  const hour = lastHour();
  const feed = liveFeed(8);
  /** @type {Record<string, boolean | null>} */
  const has = {};
  /** @param {string} key @param {string} path @param {boolean} may */
  const look = async (key, path, may) => {
    if (!may) return;
    has[key] = null;
    try {
      const answer = await call('GET', path, { signal });
      has[key] = (answer.total ?? answer.data?.length ?? 0) > 0;
    } catch {
      delete has[key];
    }
  };
  const load = () =>
    Promise.all([
      workspace.load(signal),
      can('templates:read') ? templates.load(signal) : null,
      can('events:read') ? hour.events.load(signal) : null,
      can('inbox:read') ? inbox.load(signal) : null,
      without() && can('analytics:read') ? codes.load(signal) : null,
      without() && can('broadcasts:read') ? sends.load(signal) : null,
      feed.load(signal),
    ]);
  const steps = () => {
    /** @type {Step[]} */
    const all = [
      {
        key: 'key',
        title: t('Create an API key'),
        text: t('Programs use it to authenticate.'),
        href: '/ui/keys',
        done: has['key'] ?? null,
      },
      {
        key: 'number',
        title: t('Connect a number'),
        text: session.sandbox && has['number'] ? t('The sandbox already has a number.') : t('Messages are sent from this number.'),
        href: '/ui/settings/numbers',
        done: has['number'] ?? null,
      },
      {
        key: 'code',
        title: t('Send your first code'),
        text: session.sandbox ? t('Send it to a phone in the sandbox.') : t('Send it through the API.'),
        href: session.sandbox ? '/ui/phone' : '/ui/explorer/sendOtp',
        done: has['code'] ?? null,
      },
      {
        key: 'webhook',
        title: t('Receive events'),
        text: t('Postrider delivers events to your webhook endpoint.'),
        href: '/ui/webhooks',
        done: has['webhook'] ?? null,
      },
      {
        key: 'template',
        title: t('Create a template'),
        text: t('A template lets you message a customer first.'),
        href: '/ui/templates',
        done: templates.data ? templates.data.total > 0 : null,
      },
    ];
    return all.filter((s) => s.key in has || (s.key === 'template' && can('templates:read') && !templates.error));
  };
  const setup = () => {
    const all = steps();
    const done = all.filter((s) => s.done).length;
    return all.length
      ? html`<section class="card"><div class="card-head"><h2>${t('Set up')}</h2><span class="muted">${t('{done} of {total}',
        { done, total: all.length })}</span></div>
      <ol class="setup" aria-label=${t('Setup')}>${all.map(
        (
          s,
        ) => html`<li key=${s.key} class=${s.done ? 'done' : null}><span class="setup-sign">${s.done ? icon('check') : ''}</span>
        <div><a class="row-link" href=${s.href}>${s.title}<span class="sr">${s.done ? `, ${t('done')}` : ''}</span></a><p
          class="muted">${s.text}</p></div>${icon('chevron')}</li>`,
      )}</ol></section>`
      : '';
  };
  const lately = () => html`${figure(t('Codes sent'), hour.text('codes'))}
    ${figure(t('Verified'), hour.text('verified'), hour.sum('codes') ? percent(hour.sum('verified') / hour.sum('codes')) : '–')}
    ${figure(t('Messages sent'), hour.text('messages'))}${figure(t('Failures'), hour.text('failed'))}`;
  const today = () => html`${can('analytics:read') ? figure(t('Codes sent'), number(codes.data?.totals.sent), t('today')) : ''}
    ${can('broadcasts:read') ? figure(t('Broadcasts'), html`<a href="/ui/broadcasts">${number(sends.data?.data.filter((/** @type {any} */ b) => b.status === 'sending').length)}</a>`, t('in progress')) : ''}`;
  const hourView = () => html`<section aria-label=${t('Last hour')} class="home-hour"><h2>${without() ? t('Now') : t('Last hour')}</h2>
    ${hour.events.error ? problem(hour.events.error, () => hour.events.load(signal)) : ''}<dl class="figures">
    ${without() ? today() : lately()}
    ${can('inbox:read') ? figure(t('Open conversations'), html`<a href="/ui/inbox?status=open">${number(inbox.data?.open)}</a>`,
      t('{n} unread', { n: inbox.data?.unread ?? 0 })) : ''}
    ${figure(t('Credits'), number(workspace.data?.credits))}</dl></section>`;
  /** Returns missing parts, which no event reports. @returns {{key: string, text: string, href: string | null}[]} */
  const missing = () => {
    const [w, known] = [workspace.data, templates.data];
    if (!w) return [];
    const all = [];
    if (w.numbers === 0)
      all.push({ key: 'number', text: t('No number is connected, so nothing can be sent.'), href: can('numbers:manage') ? '/ui/settings/numbers' : null });
    if (!w.credits && Object.values(w.prices).some(Boolean))
      all.push({ key: 'credits', text: t('No credits left. An operator can add more.'), href: can('operator') ? '/ui/operator' : null });
    const approved = (known?.data ?? []).filter((/** @type {any} */ x) => x.status === 'approved');
    // Templates on a later page are not known.
    if (!known || known.total > known.data.length) return all;
    const { name, language } = w.otp_template;
    if (!approved.some((/** @type {any} */ x) => x.name === name && x.language === language))
      all.push({ key: 'code', text: t('The code template {name} is not approved, so codes cannot be sent.', { name }), href: '/ui/templates' });
    if (!approved.some((/** @type {any} */ x) => x.category !== 'authentication'))
      all.push({ key: 'template', text: t('No utility or marketing template is approved, so you can only reply to customers.'), href: '/ui/templates' });
    return all;
  };
  /** @param {string} key @param {unknown} sign @param {{text: string, href: string | null}} p */
  const line = (key, sign, p) => html`<li key=${key}>${sign} ${p.href ? html`<a href=${p.href}>${p.text}</a>` : html`<span>${p.text}</span>`}</li>`;
  const wrong = () => {
    const lacks = missing();
    return html`<section class="card" aria-label=${t('Current problems')}><h2>${t('Current problems')}</h2>${
      problems.size || lacks.length
        ? html`<ul class="stack tight wrong">${[...problems].map(([key, p]) => line(key, label('bad', 'warning', t('Problem')), p))}
          ${lacks.map((p) => line(p.key, label('warning', 'warning', t('Missing')), p))}</ul>`
        : html`<p class="row">${label('good', 'check', t('No problems'))}<span class="muted">${t('Numbers and storage are operational.')}</span></p>`
    }</section>`;
  };
  return {
    title: 'Home',
    async open(_, s) {
      signal = s;
      await Promise.all([
        load(),
        look('key', adminPath('/keys?limit=1'), can('keys:manage')),
        look('number', adminPath('/numbers?limit=1'), can('numbers:manage')),
        look('code', '/v1/events?types=otp.sent&limit=1', can('events:read')),
        look('webhook', '/v1/webhooks?limit=1', can('webhooks:manage')),
      ]);
    },
    onEvent(event) {
      feed.take(event);
      hour.take(event);
      if (/^conversation\./.test(event.type)) inboxLater();
      if (event.type === 'otp.sent') has['code'] = true;
      if (event.type === 'template.status_changed' && can('templates:read')) templates.load(signal);
    },
    resync: load,
    view: () => html`
      ${hourView()}
      <div class="columns">${setup()}<div class="stack">${wrong()}${can('events:read') ? html`<section class="card"><div
        class="card-head"><h2>${t('Now')}</h2><a href="/ui/events">${t('All events')}</a></div>${feed.view()}</section>` : ''}</div></div>`,
  };
}

/** @typedef {import('../lib/types.js').LiveEvent} LiveEvent */
/** @typedef {'codes' | 'verified' | 'messages' | 'failed'} Figure */

/** @type {Record<string, Figure>} */
const FIGURES = {
  'otp.sent': 'codes',
  'otp.verified': 'verified',
  'message.sent': 'messages',
  'message.failed': 'failed',
  'otp.failed': 'failed',
};
const MINUTE = 60_000;
/** The number of events of one answer. */
const MOST = 200;

function lastHour() {
  /** The counts by minute of engine time, so that memory does not grow with the traffic.
   * @type {Map<number, Record<Figure, number>>} */
  const minutes = new Map();
  /** The sequence of the newest counted event. */
  let newest = 0;
  /** Set if the log had more events of this hour than one answer contains. */
  let more = false;
  /** The events that came while the log was read. @type {LiveEvent[]} */
  let waiting = [];

  /** @param {LiveEvent} event */
  const count = (event) => {
    const name = FIGURES[event.type];
    if (!name || event.sequence <= newest) return;
    newest = event.sequence;
    const at = Math.floor(Date.parse(event.timestamp) / MINUTE);
    const there = minutes.get(at) ?? { codes: 0, verified: 0, messages: 0, failed: 0 };
    there[name] += 1;
    minutes.set(at, there);
  };
  const events = new Resource(async (signal) => {
    const types = Object.keys(FIGURES).join(',');
    /** @type {{data: LiveEvent[]}} */
    const answer = await get('/v1/events', { order: 'desc', limit: MOST, types }, signal);
    const oldest = answer.data.at(-1);
    minutes.clear();
    newest = 0;
    more = answer.data.length >= MOST && Date.parse(oldest?.timestamp ?? '') > now() - 60 * MINUTE;
    for (const event of [...answer.data.reverse(), ...waiting]) count(event);
    waiting = [];
    return true;
  });
  /** @param {Figure} name */
  const sum = (name) => {
    const first = Math.floor(now() / MINUTE) - 59;
    let all = 0;
    for (const [at, there] of minutes) {
      if (at < first) minutes.delete(at);
      else all += there[name];
    }
    return all;
  };
  return {
    events,
    sum,
    /** @param {LiveEvent} event */
    take(event) {
      if (!FIGURES[event.type]) return;
      if (events.loading) waiting.push(event);
      else count(event);
      refresh();
    },
    /** Returns a figure's text. It has its place before it is known, so that nothing moves. @param {Figure} name */
    text(name) {
      if (!events.data) return '–';
      const all = sum(name);
      return number(all) + (all && more ? '+' : '');
    },
  };
}
