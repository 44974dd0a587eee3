/** New rows of a list in use: they wait for a click, and their number is announced now and then. */
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';

/** Pixels scrolled from which new rows wait. */
const FAR = 200;
/** Milliseconds between two counts for a screen reader. */
const PAUSE = 5000;

let said = { text: '', at: 0 };
/** @type {ReturnType<typeof setTimeout> | undefined} */
let later;

export const scrolled = () => scrollY > FAR;

/** Announces a count that changes with each event, at most every five seconds. @param {string} text */
export function announced(text) {
  const wait = said.at + PAUSE - Date.now();
  if (text !== said.text && wait <= 0) said = { text, at: Date.now() };
  if (text !== said.text)
    later ??= setTimeout(() => {
      later = undefined;
      refresh();
    }, wait);
  return html`<p class="sr" role="status">${said.text}</p>`;
}

/** The button for new rows. @param {number} n rows that wait @param {() => unknown} show @param {Element | null} [box] that scrolls */
export const freshRows = (n, show, box) =>
  html`${announced(n ? t('{n} new', { n }) : '')}${
    n
      ? html`<button type="button" class="new-rows" onclick=${() => {
          (box ?? window).scrollTo(0, 0);
          return show();
        }}>${t('{n} new', { n })}</button>`
      : ''
  }`;
