import { icon } from '../lib/icons.js';
import { html } from '../lib/render.js';
import { words } from '../lib/format.js';

/** A state's colour and icon; never the colour alone. @type {Record<string, [string, string]>} */
const STATES = {
  verified: ['good', 'check'],
  delivered: ['good', 'double'],
  read: ['info', 'double'],
  sent: ['info', 'check'],
  completed: ['good', 'check'],
  approved: ['good', 'check'],
  open: ['good', 'dot'],
  enabled: ['good', 'check'],
  ok: ['good', 'check'],
  live: ['good', 'dot'],
  ready: ['good', 'check'],
  running: ['info', 'play'],
  sending: ['info', 'play'],
  started: ['info', 'play'],
  active: ['info', 'clock'],
  invalidated: ['bad', 'cross'],
  pending: ['neutral', 'clock'],
  queued: ['neutral', 'clock'],
  scheduled: ['neutral', 'clock'],
  resolved: ['neutral', 'check'],
  paused: ['warning', 'pause'],
  slow: ['warning', 'clock'],
  held: ['warning', 'pause'],
  expired: ['warning', 'clock'],
  unknown: ['warning', 'question'],
  suppressed: ['neutral', 'stop'],
  cancelled: ['neutral', 'cross'],
  skipped: ['neutral', 'stop'],
  failed: ['bad', 'cross'],
  failing: ['bad', 'stop'],
  rejected: ['bad', 'cross'],
  stopped: ['bad', 'stop'],
  disabled: ['bad', 'stop'],
  parked: ['bad', 'stop'],
  blocked: ['bad', 'stop'],
  in_appeal: ['warning', 'clock'],
  attempts_exceeded: ['bad', 'cross'],
  exhausted: ['bad', 'cross'],
  received: ['neutral', 'message'],
  limit_exceeded: ['bad', 'warning'],
};

/** @param {string | null | undefined} state @param {string} [text] what to say instead of the state's own word */
export function badge(state, text) {
  const [tone, sign] = STATES[String(state)] ?? ['neutral', 'dot'];
  return html`<span class=${`badge ${tone}`}>${icon(sign)}${text ?? words(state)}</span>`;
}

/** @param {string} tone @param {string} sign @param {unknown} text */
export const label = (tone, sign, text) => html`<span class=${`badge ${tone}`}>${icon(sign)}${text}</span>`;

/** @param {string} state @returns {string} */
export const tone = (state) => STATES[state]?.[0] ?? 'neutral';

/** Shows one figure with its name. @param {string} name @param {unknown} value @param {unknown} [note] */
export const figure = (name, value, note) => html`<div class="figure"><dt>${name}</dt><dd>${value}</dd>
  ${note ? html`<dd class="note">${note}</dd>` : ''}</div>`;

/** Shows names and values of one thing. @param {[string, unknown][]} pairs */
export const facts = (pairs) =>
  html`<dl class="facts">${pairs
    .filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
