/**
 * One event stream per browser: the tab that holds the lock has it and informs the others over a
 * BroadcastChannel; when it closes, the next takes over after the last event. Without a secure context
 * there are no locks, and only the visible tab has a stream.
 *
 * @import { LiveEvent, LiveState } from './types.js'
 */
import { parse } from './api.js';
import { setClock } from './format.js';
import { refresh } from './render.js';

/** A browser delivers only events of registered names. */
const TYPES = `otp.sent otp.verified otp.expired otp.failed otp.delivered otp.pumping_suspected
  broadcast.created broadcast.started broadcast.paused broadcast.resumed broadcast.completed broadcast.cancelled
  broadcast.failed contact.created contact.updated contact.deleted contact.merged contact.opted_out contact.opted_in
  conversation.opened conversation.updated webhook.disabled webhook.test message.queued message.held
  message.sent message.delivered message.read message.failed message.received template.status_changed
  template.category_changed template.quality_changed number.stopped number.recovered
  number.changed number.limit_reached number.limit_freed channel.error channel.ignored
  otp.cancelled otp.decided otp.try_started otp.try_ended media.ready media.failed`.split(/\s+/);
/** Only on the stream, without an id: not in the log. */
const PASSING = ['broadcast.progress', 'conversation.typing', 'conversation.noted'];
export const EVENT_TYPES = TYPES;

export const live = {
  /** @type {LiveState} */
  state: 'Reconnecting',
  last: '',
  sequence: 0,
  leads: false,
};

/** @type {Set<(event: LiveEvent) => unknown>} */
const listeners = new Set();
/** @type {Set<() => unknown>} */
const resyncs = new Set();
/** @type {BroadcastChannel | null} */
let channel = null;
/** @type {EventSource | null} */
let source = null;
/** @type {AbortController | null} */
let stopped = null;
let heard = 0;
let wait = 1000;
let workspace = '';

/** @param {(event: LiveEvent) => unknown} onEvent @param {() => unknown} onResync */
export function listen(onEvent, onResync) {
  listeners.add(onEvent);
  resyncs.add(onResync);
}

/** @param {LiveState} state */
function setState(state) {
  if (live.leads) channel?.postMessage({ state });
  if (live.state === state) return;
  live.state = state;
  refresh();
}

function resync() {
  if (live.leads) channel?.postMessage({ resync: true });
  resyncs.forEach((fn) => fn());
  refresh();
}

/** @param {LiveEvent} event */
function take(event) {
  if (event.sequence) {
    if (event.sequence <= live.sequence) return;
    const gap = live.sequence && event.sequence !== live.sequence + 1 && !filtered;
    live.sequence = event.sequence;
    live.last = event.id;
    if (gap) resync();
  }
  listeners.forEach((fn) => fn(event));
  refresh();
}

/** Set for a role that may not read every type: then a gap in the numbers means nothing. */
let filtered = false;

/** @param {any} data of a ping */
function tick(data) {
  setClock(data.now, data.offset_seconds);
  refresh();
}

/** @param {string} name of the workspace @param {boolean} sees whether this role may read every type */
export function startLive(name, sees) {
  stopLive();
  workspace = name;
  filtered = !sees;
  stopped = new AbortController();
  const { signal } = stopped;
  channel = new BroadcastChannel(`live:${name}`);
  channel.onmessage = ({ data }) => {
    if (live.leads) {
      if (data.hello) channel?.postMessage({ state: live.state, last: live.last, sequence: live.sequence });
      return;
    }
    if (data.state) setState(data.state);
    if (data.last && data.sequence > live.sequence) [live.last, live.sequence] = [data.last, data.sequence];
    if (data.event) take(parse(data.event));
    if (data.ping) tick(data.ping);
    if (data.resync) resync();
  };
  channel.postMessage({ hello: true });
  if (navigator.locks) {
    navigator.locks.request(`live:${name}`, { signal }, () => lead(signal)).catch(() => {});
  } else {
    const follow = () => (document.hidden ? close() : source || open(signal));
    document.addEventListener('visibilitychange', follow, { signal });
    live.leads = true;
    follow();
  }
  const watch = setInterval(() => live.leads && source && Date.now() - heard > 40_000 && reopen(signal, 0), 5000);
  signal.addEventListener('abort', () => clearInterval(watch));
  addEventListener('offline', () => setState('Offline'), { signal });
  addEventListener('online', () => live.leads && reopen(signal, 0), { signal });
}

/** Holds the lock until the session or the tab ends. @param {AbortSignal} signal @returns {Promise<void>} */
function lead(signal) {
  live.leads = true;
  open(signal);
  return new Promise((done) => signal.addEventListener('abort', () => done()));
}

export function stopLive() {
  stopped?.abort();
  stopped = null;
  close();
  channel?.close();
  channel = null;
  Object.assign(live, { state: 'Reconnecting', last: '', sequence: 0, leads: false });
}

function close() {
  source?.close();
  source = null;
}

/** @param {AbortSignal} signal @param {number} delay */
function reopen(signal, delay) {
  close();
  setTimeout(() => signal.aborted || source || (document.hidden && !navigator.locks) || open(signal), delay);
}

/** @param {AbortSignal} signal */
function open(signal) {
  const query = new URLSearchParams({ workspace });
  if (live.last) query.set('last_event_id', live.last);
  const made = new EventSource(`/v1/events/stream?${query}`);
  source = made;
  heard = Date.now();
  const took = (/** @type {MessageEvent} */ message) => {
    heard = Date.now();
    const data = parse(message.data);
    const event = PASSING.includes(message.type)
      ? { id: '', type: message.type, timestamp: '', sequence: 0, data }
      : data;
    channel?.postMessage({ event: JSON.stringify(event) });
    take(event);
  };
  made.onopen = () => {
    heard = Date.now();
    wait = 1000;
    setState('Live');
    // Without an id to continue from, events before the start of the stream are not emitted.
    if (!live.last) resync();
  };
  made.onerror = () => {
    setState(navigator.onLine ? 'Reconnecting' : 'Offline');
    if (made.readyState !== EventSource.CLOSED || source !== made) return;
    // After another answer than 200 a browser never retries: perhaps the id is ahead of the log.
    if (live.last && wait > 4000) [live.last, live.sequence] = ['', 0];
    wait = Math.min(30_000, wait * 2);
    reopen(signal, wait * (0.5 + Math.random() / 2));
  };
  made.addEventListener('ping', (message) => {
    heard = Date.now();
    const ping = JSON.parse(message.data);
    channel?.postMessage({ ping });
    tick(ping);
  });
  // A role that reads every type sees the gap.
  made.addEventListener('skipped', () => filtered && resync());
  for (const type of [...TYPES, ...PASSING]) made.addEventListener(type, took);
}
