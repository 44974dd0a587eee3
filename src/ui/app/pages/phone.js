/** The sandbox's phones: what they received, what they write, and what the channel does next. */
import { call, get, intent, part, persist, post, put, remove } from '../lib/api.js';
import { paced, submit } from '../lib/dom.js';
import { end, words } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { can } from '../lib/session.js';
import { Resource, Rows } from '../lib/store.js';
import { curl } from '../parts/code.js';
import { REFUSALS, device, inPlace, phoneList, pretend } from '../parts/device.js';
import { attempt, notify } from '../parts/dialog.js';
import { problem } from '../parts/empty.js';
import { e164, field, phoneNote } from '../parts/form.js';
import { liveFeed } from '../parts/feed.js';

/** @typedef {{message_id: string, direction: 'in' | 'out', kind: string, text: string, code?: string | null, status: string, at: string}} Row */
/** @typedef {{method: string, path: string, body?: unknown, headers?: Record<string, string>}} Shown */

const FIRST = '+15550123456';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  const state = {
    phone: query('phone') || FIRST,
    number: query('phone') || FIRST,
    entered: '',
    verification: '',
    text: '',
    file: /** @type {File | null} */ (null),
    sending: false,
    verifying: false,
    writing: false,
    outcome: 'sent',
    auto: 'none',
    error: /** @type {any} */ (null),
    last: /** @type {Shown | null} */ (null),
    requests: /** @type {Map<string, string>} */ (new Map()),
    code: '',
    codeOf: '',
    key: '',
  };
  const thread = new Rows(
    '',
    () => ({}),
    (/** @type {Row} */ r) => r.message_id + r.direction,
  );
  /** @type {Resource<{data: {phone: string}[]}>} */
  const phones = new Resource(async (signal) => inPlace(await get('/v1/sandbox/phones', {}, signal), phones.data));
  const phonesLater = paced(() => signal?.aborted || phones.load(signal));
  const feed = liveFeed(12);
  /** @type {AbortSignal | undefined} */
  let signal;

  const where = () => {
    thread.path = `/v1/sandbox/phones/${part(state.phone)}/thread`;
  };
  const loadThread = async () => {
    where();
    await thread.load(signal);
    const newest = thread.rows.find((r) => r.direction === 'out' && r.code);
    if (newest && newest.message_id !== state.codeOf) {
      Object.assign(state, { code: newest.code ?? '', codeOf: newest.message_id, entered: newest.code ?? '' });
      refresh();
    }
    if (!newest) Object.assign(state, { code: '', codeOf: '' });
    queueMicrotask(() => requestAnimationFrame(() => document.querySelector('.phone-log')?.scrollTo(0, 1e9)));
  };

  /** The message leaves after the answer: look a few times until the phone has it. @param {number} before */
  const arrived = async (before) => {
    for (const wait of [0, 20, 40, 80, 160, 400, 900]) {
      if (wait) await new Promise((done) => setTimeout(done, wait));
      await loadThread();
      if (thread.rows.length > before || signal?.aborted) return;
    }
  };

  /** @param {Shown} shown @returns {Promise<any>} */
  const run = (shown) => {
    state.last = shown;
    return call(shown.method, shown.path, {
      body: shown.body,
      ...(shown.headers?.['Idempotency-Key'] ? { key: shown.headers['Idempotency-Key'] } : {}),
    });
  };

  const sendCode = async () => {
    if (state.sending) return;
    Object.assign(state, { sending: true, error: null, verification: '' });
    state.key ||= intent();
    state.number = await e164(state.number);
    show(state.number);
    const before = thread.rows.length;
    const shown = {
      method: 'POST',
      path: '/v1/otp/send',
      body: { phone: state.phone },
      headers: { 'Idempotency-Key': state.key },
    };
    try {
      const answer = await persist(() => run(shown));
      state.requests.set(state.phone, answer.request_id);
      state.key = '';
      state.sending = false;
      refresh();
      await arrived(before);
      phones.load(signal);
    } catch (error) {
      // Refused for good: the next try is another intent.
      if (/** @type {any} */ (error).status >= 400 && /** @type {any} */ (error).status < 500) state.key = '';
      state.error = error;
    }
    state.sending = false;
  };

  const requestOf = async () => {
    const known = state.requests.get(state.phone);
    if (known || !can('otp:read')) return known;
    const list = await get('/v1/otp', { phone: state.phone, limit: 1 });
    return list.data[0]?.request_id;
  };

  const verify = async () => {
    if (state.verifying) return;
    state.verifying = true;
    state.verification = '';
    try {
      const id = await requestOf();
      if (!id) throw new Error(t('Send a code to this phone first'));
      const answer = await run({
        method: 'POST',
        path: '/v1/otp/verify',
        body: { request_id: id, otp: state.entered.trim() },
      });
      state.verification = answer.verified
        ? t('Verified')
        : t('Wrong code, {n} attempts left', { n: answer.attempts_remaining ?? 0 });
    } catch (error) {
      const { code, message } = /** @type {any} */ (error);
      state.verification = REFUSALS[code] ? t(REFUSALS[code] ?? '') : String(message);
    }
    state.verifying = false;
  };

  const write = async () => {
    const text = state.text.trim();
    const { file } = state;
    if ((!text && !file) || state.writing) return;
    state.writing = true;
    await attempt(async () => {
      const said = { from: state.phone, ...(text ? { text } : {}) };
      const body = file ? { ...said, ...(await (await import('../parts/phone-file.js')).uploaded(file)) } : said;
      await run({ method: 'POST', path: '/v1/sandbox/inbound', body });
      Object.assign(state, { text: '', file: null });
      await Promise.all([loadThread(), phones.load(signal)]);
    });
    state.writing = false;
  };

  /** @param {string} phone */
  const show = (phone) => {
    if (!phone || phone === state.phone) return undefined;
    Object.assign(state, { phone, number: phone, code: '', codeOf: '', entered: '', verification: '', text: '', file: null });
    thread.rows = [];
    setQuery({ phone: phone === FIRST ? '' : phone });
    return loadThread();
  };

  /** @param {number} seconds */
  const move = (seconds) =>
    attempt(() => run({ method: 'POST', path: '/v1/sandbox/clock', body: { advance_seconds: seconds } }));

  /** @param {string} id @param {string} status */
  const report = (id, status) =>
    attempt(async () => {
      await run({ method: 'POST', path: '/v1/sandbox/reports', body: { message_id: id, status } });
      thread.change(`${id}out`, { status });
    });

  /** @param {string} outcome */
  const script = (outcome) =>
    attempt(async () => {
      state.outcome = outcome;
      if (outcome === 'sent') {
        state.last = { method: 'DELETE', path: '/v1/sandbox/outcomes' };
        await remove('/v1/sandbox/outcomes');
        return;
      }
      await run({ method: 'POST', path: '/v1/sandbox/outcomes', body: { to: state.phone, outcome, times: 1 } });
      notify(t('Next message to {phone}: {outcome}', { phone: state.phone, outcome: words(outcome) }));
    });

  /** @param {string} value */
  const deliver = (value) =>
    attempt(async () => {
      state.auto = value;
      state.last = { method: 'PUT', path: '/v1/sandbox/settings', body: { auto_deliver: value } };
      await put('/v1/sandbox/settings', { auto_deliver: value });
    });

  const tone = () => (state.verification === t('Verified') ? 'good' : state.verification ? 'bad' : '');

  const codeCard = () => html`<section class="card" aria-label=${t('One-time code')}>
    <form class="phone-send" onsubmit=${submit(sendCode)}>
      ${field({
        label: t('Phone number'),
        type: 'tel',
        value: state.number,
        input: (v) => {
          state.number = v;
          state.key = '';
        },
        autocomplete: 'off',
        dir: 'ltr',
      })}
      <button class="primary" ?disabled=${state.sending}>${t('Send code')}</button></form>${phoneNote(state.number)}
    ${problem(state.error)}
    <div class="code-shown ${state.code ? '' : 'none'}"><span class="muted" aria-hidden="true">${t('The phone shows')}</span>
      <output role="status" aria-label=${t('Code')} class="big-code">${state.code}</output></div>
    <form class="phone-send" onsubmit=${submit(verify)}>
      ${field({
        label: t('Enter code'),
        value: state.entered,
        input: (v) => {
          state.entered = v;
        },
        autocomplete: 'one-time-code',
        inputmode: 'numeric',
        mono: true,
        dir: 'ltr',
      })}
      <button ?disabled=${state.verifying || !state.entered}>${t('Verify')}</button></form>
    <p class=${`verification ${tone()}`} role="status" aria-label=${t('Verification')}>${state.verification
      ? html`${icon(tone() === 'good' ? 'check' : 'warning')}${state.verification}` : ''}</p>
  </section>`;

  return {
    title: 'Phone',
    async open(_, s) {
      signal = s;
      await Promise.all([
        loadThread(),
        phones.load(s),
        feed.load(s),
        get('/v1/sandbox/settings')
          .then((r) => {
            state.auto = r.auto_deliver;
          })
          .catch(() => {}),
      ]);
    },
    onEvent(event) {
      feed.take(event);
      if (/^(message|otp)\./.test(event.type)) {
        const d = event.data;
        const isTheirs = [d.to, d.phone, d.from].some((it) => it?.endsWith(end(state.phone)));
        if (isTheirs && !state.sending) loadThread();
        phonesLater();
      }
    },
    resync: () => {
      loadThread();
      feed.load(signal);
    },
    view: () => html`<div class="phone-page">
      ${phoneList(phones, state.phone, show)}
      ${device({
        phone: state.phone,
        thread,
        reload: loadThread,
        report,
        text: state.text,
        type: (v) => {
          state.text = v;
        },
        write,
        writing: state.writing,
        file: state.file,
        choose: (v) => {
          state.file = v;
        },
      })}
      <div class="stack">${codeCard()}
        <section class="card" aria-label=${t('API call')}><h2>${t('API call')}</h2>
          ${state.last ? curl(state.last) : html`<p class="muted">${t('Your actions on this page appear here as curl commands that use $POSTRIDER_API_KEY.')}</p>`}</section>
        ${pretend({ outcome: state.outcome, auto: state.auto, script, deliver, move })}
        <section class="card" aria-label=${t('Live')}><div class="card-head"><h2>${t('Live')}</h2>${can('events:read') ? html`<a
          href="/ui/events">${t('All events')}</a>` : ''}</div>${feed.view()}</section>
      </div></div>`,
  };
}
