/** Keys. Single keys act only outside fields, and can be switched off. */
import { t } from './i18n.js';
import { html } from './render.js';
import { go } from './router.js';
import { openPalette } from './palette.js';
import { dialog, overlay, overlays } from '../parts/dialog.js';
import { session } from './session.js';

/** @type {Record<string, string>} */
const PLACES = { h: '/', p: '/phone', c: '/codes', i: '/inbox', b: '/broadcasts', o: '/contacts' };
let afterG = 0;

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
    openKeys();
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

/** @returns {[string, string][]} */
const list = () => [
  ['Ctrl K', t('Search')],
  ['g h', t('Home')],
  ['g p', t('Phone')],
  ['g c', t('Codes')],
  ['g i', t('Inbox')],
  ['g b', t('Broadcasts')],
  ['g o', t('Contacts')],
  ['j / k', t('Next or previous row')],
  ['Enter', t('Open the row')],
  ['/', t('Search field')],
  ['r', t('Reply')],
  ['a', t('Assign to me')],
  ['e', t('Resolve')],
  ['.', t('API calls')],
  ['?', t('This list')],
];

export function openKeys() {
  const close = overlay(() =>
    dialog(
      t('Keyboard'),
      close,
      html`<dl class="keys">${list().map(([key, text]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
    <p class="muted">${t('Single keys can be switched off in My account.')}</p>`,
      { kind: 'small' },
    ),
  );
}
