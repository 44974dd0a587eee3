import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { context } from '../lib/api.js';
import { copyButton } from './copy.js';
import { badge } from './status.js';
import { dialog } from './dialog.js';
import { json } from './json.js';

/** @param {string} text for a POSIX shell */
const quote = (text) =>
  /^[\w@%+=:,./?&-]+$/.test(text) && !text.includes('&') && !text.includes('?')
    ? text
    : `'${text.replaceAll("'", `'\\''`)}'`;

/** A call as curl that works as pasted, the key from the environment.
 * @param {{method: string, path: string, body?: unknown, headers?: Record<string, string>}} call */
export function curlText(call) {
  const admin = call.path.startsWith('/admin/');
  const lines = [
    `curl${call.method === 'GET' || (call.method === 'POST' && call.body !== undefined) ? '' : ` -X ${call.method}`} ${quote(location.origin + call.path)}`,
  ];
  lines.push(`-H "Authorization: Bearer $${admin ? 'POSTRIDER_ADMIN_TOKEN' : 'POSTRIDER_API_KEY'}"`);
  for (const [name, value] of Object.entries(call.headers ?? {}))
    if (name !== 'Content-Type') lines.push(`-H ${quote(`${name}: ${value}`)}`);
  if (call.body !== undefined)
    lines.push(`-H 'Content-Type: application/json' \\\n  -d ${quote(JSON.stringify(call.body))}`);
  return lines.join(' \\\n  ');
}

/** @param {string} text @param {string} label */
export const code = (
  text,
  label,
) => html`<div class="code-block"><pre class="code" tabindex="0" role="group" aria-label=${label}>${text}</pre>
  <div class="code-copy">${copyButton(text, t('Copy'), true)}</div></div>`;

/** @param {Parameters<typeof curlText>[0]} call */
export const curl = (call) => code(curlText(call), 'curl');

/** The dialog "API calls": what the page called, and the answers. @param {() => void} close */
export function callsDialog(close) {
  const calls = context.calls.filter((c) => !c.path.startsWith('/ui/')).reverse();
  return dialog(
    t('API calls'),
    close,
    html`
    <p class="muted">${t('What this page called, the newest first. Set POSTRIDER_API_KEY and paste.')}</p>
    ${calls.length ? '' : html`<p>${t('This page has called nothing yet.')}</p>`}
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

/** A long list shows its first rows. @param {any} answer */
function brief(answer) {
  if (!Array.isArray(answer?.data) || answer.data.length <= 3) return answer;
  return { ...answer, data: [...answer.data.slice(0, 3), `… ${answer.data.length - 3} more`] };
}
