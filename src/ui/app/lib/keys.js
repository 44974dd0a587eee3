/** Keys. Single keys act only outside fields, and can be switched off. */
import { go } from './router.js';
import { overlays } from '../parts/dialog.js';
import { session } from './session.js';

/** @type {Record<string, string>} */
const PLACES = { h: '/', p: '/phone', c: '/codes', i: '/inbox', b: '/broadcasts', o: '/contacts' };
let afterG = 0;

/** Opens the dialog "Search", which is fetched at its first use. */
export const openPalette = () => import('../parts/palette.js').then((it) => it.openPalette());

export const singleKeys = () => localStorage.getItem('single-keys') !== 'off';

export function startKeys() {
  addEventListener('keydown', (event) => {
    if (!session.me || event.isComposing) return;
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k' && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      if (overlays.length === 0) openPalette();
      return;
    }
    const target = /** @type {Element} */ (event.target);
    const typing = target.closest('input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]');
    if (
      event.metaKey ||
      event.ctrlKey ||
      event.altKey ||
      typing ||
      overlays.length ||
      document.querySelector('dialog[open]')
    )
      return;
    if (singleKeys() && act(event.key)) event.preventDefault();
  });
}

/** @param {string} key @returns {boolean} whether it meant something */
function act(key) {
  if (Date.now() - afterG < 2000 && PLACES[key]) {
    afterG = 0;
    go(PLACES[key] ?? '/');
    return true;
  }
  if (key === 'g') {
    afterG = Date.now();
    return true;
  }
  if (key === 'j' || key === 'k') return step(key === 'j' ? 1 : -1);
  if (key === '/') return focus('main input[type=search]');
  if (key === 'r') return focus('[data-key=reply]');
  if (key === 'a') return press('[data-key=assign]');
  if (key === 'e') return press('[data-key=resolve]');
  if (key === '.') return press('[data-key=calls]');
  if (key === '?') {
    import('../parts/keyboard.js').then((it) => it.openKeys());
    return true;
  }
  return false;
}

/** @param {string} selector */
function focus(selector) {
  const node = /** @type {HTMLElement | null} */ (document.querySelector(selector));
  node?.focus();
  return Boolean(node);
}

/** @param {string} selector */
function press(selector) {
  const node = /** @type {HTMLButtonElement | null} */ (document.querySelector(selector));
  node?.click();
  return Boolean(node);
}

/** @param {number} by */
function step(by) {
  const rows = [...document.querySelectorAll('main .row-link')];
  const at = rows.indexOf(/** @type {Element} */ (document.activeElement));
  const next = /** @type {HTMLElement | undefined} */ (
    rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))]
  );
  next?.focus();
  return Boolean(next);
}
