import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { copyButton, curl } from './code.js';
import { secondsLeft, waits } from './form.js';

/**
 * Shows the title of an empty list, the reason, and the action.
 * @param {{icon?: string, title: string, text: string, action?: unknown, call?: Parameters<typeof curl>[0]}} e
 */
export const empty = (e) => html`<div class="empty">
  <span class="empty-icon">${icon(e.icon ?? 'inbox')}</span>
  <p class="empty-title">${e.title}</p><p class="muted">${e.text}</p>
  ${e.action ? html`<div class="row center">${e.action}</div>` : ''}
  ${e.call ? html`<details><summary>${t('Use the API')}</summary>${curl(e.call)}</details>` : ''}
</div>`;

/** Shows a refusal by the interface, with its request id. @param {any} error @param {(() => unknown) | null} [again] */
export function problem(error, again) {
  if (!error) return '';
  const left = secondsLeft(error);
  return html`<div class="problem" role="alert">${icon('warning')}
    <div><p>${String(error.message)}</p>
      ${left ? html`<p>${waits(left)}</p>` : ''}
      ${error.requestId ? html`<p class="muted id"><code>${error.requestId}</code>${copyButton(error.requestId, t('Copy ID'), true)}</p>` : ''}</div>
    ${again ? html`<button type="button" ?disabled=${left > 0} onclick=${again}>${t('Try again')}</button>` : ''}
  </div>`;
}

/** Returns grey lines of the final size, which appear after 150 ms. @param {number} [rows] */
export const skeleton = (rows = 6) =>
  html`<div class="skeleton" aria-hidden="true">${Array.from({ length: rows }, () => html`<i></i>`)}</div>`;

/** Shown in place of "none" while there is more to search. @param {{loading: boolean, loadMore: () => unknown}} list */
export const searchOn = (list) => html`<div class="empty"><p class="muted" role="status">${t('No matches so far. Some entries have not been searched yet.')}</p>
  <div class="row center"><button type="button" ?disabled=${list.loading} onclick=${() => list.loadMore()}>${t('Keep searching')}</button></div></div>`;

/**
 * Shows the state of a source while it loads, fails or is empty; otherwise its view.
 * @param {{error: any, loading: boolean, data?: any, rows?: any[], loaded?: boolean, load: () => unknown,
 *   cursor?: string | null, loadMore?: () => unknown}} source
 * @param {() => unknown} view @param {() => unknown} [none]
 */
export function shown(source, view, none) {
  const has = source.rows ? source.loaded : source.data !== null;
  if (source.error && !has) return problem(source.error, () => source.load());
  if (!has) return skeleton();
  const { loading, loadMore } = source;
  const goesOn = source.rows?.length === 0 && source.cursor && loadMore;
  if (none && source.rows?.length === 0 && !goesOn) return none();
  return html`${source.error ? problem(source.error, () => source.load()) : ''}${goesOn
    ? searchOn({ loading, loadMore: () => loadMore.call(source) }) : view()}`;
}
