import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { on } from '../lib/dom.js';

/** @type {WeakMap<Element, Element | null>} */
const openers = new WeakMap();

/** Shows it as a modal, and returns the focus to the element that opened it.
 * @param {HTMLDialogElement | null} node @param {HTMLDialogElement} [closed] */
function modal(node, closed) {
  if (node) {
    openers.set(node, document.activeElement);
    queueMicrotask(() => {
      if (!node.isConnected || node.open) return;
      node.showModal();
      /** @type {HTMLElement | null} */ (node.querySelector('[autofocus]'))?.focus();
    });
  } else if (closed) {
    closed.close();
    const opener = /** @type {HTMLElement | null} */ (openers.get(closed) ?? null);
    queueMicrotask(() => opener?.isConnected && opener.focus());
  }
}

/**
 * A modal dialog named by its heading. It closes when the page no longer renders it.
 * @param {string} label @param {() => unknown} close @param {unknown} body
 * @param {{actions?: unknown, kind?: string}} [options]
 */
export function dialog(label, close, body, options = {}) {
  return html`<dialog class=${`dialog ${options.kind ?? ''}`} ref=${modal} aria-label=${label}
      oncancel=${on((e) => {
        e.preventDefault();
        close();
      })}
      onclick=${on((e) => e.target === e.currentTarget && outside(e) && close())}>
    <header class="dialog-head"><h2>${label}</h2>
      <button type="button" class="quiet icon-only" aria-label=${t('Close')} onclick=${close}>${icon('close')}</button></header>
    <div class="dialog-body">${body}</div>
    ${options.actions ? html`<footer class="dialog-foot">${options.actions}</footer>` : ''}
  </dialog>`;
}

/** Returns whether a click was beside the dialog, whose backdrop is the dialog itself. @param {MouseEvent} e */
function outside(e) {
  const box = /** @type {Element} */ (e.currentTarget).getBoundingClientRect();
  return e.clientX < box.x || e.clientX > box.x + box.width || e.clientY < box.y || e.clientY > box.y + box.height;
}

/** The open dialogs of any page; the frame shows the newest. @type {(() => unknown)[]} */
export const overlays = [];

/** @param {() => unknown} view @returns {() => void} what closes it */
export function overlay(view) {
  overlays.push(view);
  refresh();
  return () => {
    const at = overlays.indexOf(view);
    if (at >= 0) overlays.splice(at, 1);
    refresh();
  };
}

/**
 * Asks before an action that cannot be undone.
 * @param {{title: string, text: unknown, action: string, run: () => unknown, danger?: boolean}} question
 */
export function ask({ title, text, action, run, danger = true }) {
  let busy = false;
  const close = overlay(() =>
    dialog(title, close, html`<div class="prose">${text}</div>`, {
      kind: 'small',
      actions: html`<button type="button" onclick=${close}>${t('Keep')}</button>
      <button type="button" class=${danger ? 'danger' : 'primary'} ?disabled=${busy} autofocus
        onclick=${async () => {
          busy = true;
          try {
            await run();
          } finally {
            close();
          }
        }}>${action}</button>`,
    }),
  );
}

/** @type {{id: number, text: string, undo?: (() => unknown) | undefined, bad?: boolean}[]} */
export const notices = [];
let last = 0;

/** Shows a notice for five seconds. @param {string} text @param {{undo?: () => unknown, bad?: boolean}} [options] */
export function notify(text, options = {}) {
  const id = ++last;
  notices.push({ id, text, undo: options.undo, bad: options.bad ?? false });
  refresh();
  setTimeout(() => dismiss(id), options.bad ? 8000 : 5000);
}

/** @param {number} id */
export function dismiss(id) {
  const at = notices.findIndex((n) => n.id === id);
  if (at >= 0) notices.splice(at, 1);
  refresh();
}

/** Runs a button's action; shows a refusal with the interface's message.
 * @param {() => Promise<unknown>} run */
export async function attempt(run) {
  try {
    return await run();
  } catch (error) {
    const { message, requestId } = /** @type {any} */ (error);
    notify(requestId ? `${message} (${requestId})` : String(message), { bad: true });
    return undefined;
  }
}
