/** What the last hour brought: the newest events of the log once, and then each event as it comes. */
import { get } from '../lib/api.js';
import { now, number } from '../lib/format.js';
import { refresh } from '../lib/render.js';
import { Resource } from '../lib/store.js';

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
/** Events of one answer. */
const MOST = 200;

export function lastHour() {
  /** By minute of engine time, so that what is kept does not grow with the traffic.
   * @type {Map<number, Record<Figure, number>>} */
  const minutes = new Map();
  /** The newest event that is counted. */
  let newest = 0;
  /** Whether the log had more of this hour than one answer holds. */
  let more = false;
  /** Those that came while the log was read. @type {LiveEvent[]} */
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
    /** A figure has its place before it is there, so that nothing moves. @param {Figure} name */
    text(name) {
      if (!events.data) return '–';
      const all = sum(name);
      return number(all) + (all && more ? '+' : '');
    },
  };
}
