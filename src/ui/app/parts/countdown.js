import { duration, now } from '../lib/format.js';
import { html, refresh } from '../lib/render.js';
import { icon } from '../lib/icons.js';

/** Countdowns change by themselves: one timer for all that a page shows. */
let shownAt = 0;
setInterval(() => Date.now() - shownAt < 2500 && refresh(), 1000);

/** Returns the seconds until a time of the engine; below zero after it. @param {string | null} at */
export function secondsTo(at) {
  shownAt = Date.now();
  return at ? (Date.parse(at) - now()) / 1000 : -1;
}

/**
 * @param {string} label @param {string | null} at @param {string} over what it says when it is over
 */
export function countdown(label, at, over) {
  const left = secondsTo(at);
  // Minutes are rounded down: a window of "23 h 59 min" has at least that much left.
  const text = left > 0 ? duration(left >= 60 ? Math.floor(left / 60) * 60 : left) : over;
  const tone = left <= 0 ? 'neutral' : left < 3600 ? 'warning' : 'good';
  return html`<span class=${`badge ${tone}`} title=${label}>${icon('clock')}<span role="timer" aria-label=${label}>${text}</span></span>`;
}
