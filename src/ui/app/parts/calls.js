import { context } from '../lib/api.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { curl } from './code.js';
import { dialog, overlay } from './dialog.js';
import { json } from './json.js';
import { badge } from './status.js';

/** Opens the dialog "API calls": the page's calls, and the answers. */
export function openCalls() {
  const close = overlay(() => view(close));
}

/** @param {() => void} close */
function view(close) {
  const calls = context.calls.filter((c) => !c.path.startsWith('/ui/')).reverse();
  return dialog(
    t('API calls'),
    close,
    html`
    <p class="muted">${t('API calls made by this page, newest first. Set POSTRIDER_API_KEY, then paste a command into your terminal.')}</p>
    ${calls.length ? '' : html`<p>${t('This page has not made any API calls yet.')}</p>`}
    <ol class="calls">${calls.map(
      (c, i) => html`<li key=${`${c.at}${c.method}${c.path}`}>
      <details ?open=${i === 0}><summary><b class="method">${c.method}</b> <code>${c.path}</code>
        ${badge(c.status < 400 ? 'ok' : 'failed', String(c.status))}</summary>
        ${curl(c)}
        ${c.answer === null ? html`<p class="muted">${t('No body')}</p>` : json(brief(c.answer), t('Answer'))}
      </details></li>`,
    )}</ol>`,
    { kind: 'wide' },
  );
}

/** Shortens a long list to its first rows. @param {any} answer */
function brief(answer) {
  if (!Array.isArray(answer?.data) || answer.data.length <= 3) return answer;
  return { ...answer, data: [...answer.data.slice(0, 3), `… ${answer.data.length - 3} more`] };
}
