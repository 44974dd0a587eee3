/** Code to copy: a button that copies it, and a call as curl. */
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';

/** @type {{text: string, at: number}} */
let copied = { text: '', at: 0 };

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure context there is no clipboard to write to; a selection can still be copied.
    const area = Object.assign(document.createElement('textarea'), { value: text });
    (document.querySelector('dialog[open]') ?? document.body).append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  copied = { text, at: Date.now() };
  setTimeout(refresh, 1600);
}

/** @param {string} text what is copied @param {string} [name] of the button @param {boolean} [small] only an icon */
export function copyButton(text, name = t('Copy'), small = false) {
  const done = copied.text === text && Date.now() - copied.at < 1500;
  return html`<button type="button" class=${small ? 'quiet icon-only' : 'quiet'} aria-label=${small ? name : null} title=${small ? name : null}
    onclick=${() => copy(text)}>${icon(done ? 'check' : 'copy')}${small ? '' : done ? t('Copied') : name}</button>`;
}

/** Shows an id with a button that copies it. @param {string | null | undefined} id */
export const idText = (id) =>
  id ? html`<span class="id"><code>${id}</code>${copyButton(id, t('Copy ID'), true)}</span>` : '–';

/** @param {string} text for a POSIX shell */
const quote = (text) =>
  /^[\w@%+=:,./?&-]+$/.test(text) && !text.includes('&') && !text.includes('?')
    ? text
    : `'${text.replaceAll("'", `'\\''`)}'`;

/** The calls that no scope of a key allows: they need a person's session. */
const PEOPLE_ONLY = /^(GET \/v1\/requests|(POST|PATCH) \/v1\/templates|PATCH \/v1\/workspace)\b/;

/** Returns a call as curl that works as pasted, with the key from the environment.
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
  const note = PEOPLE_ONLY.test(`${call.method} ${call.path}`) ? '# Needs a session: no scope of a key allows it.\n' : '';
  return note + lines.join(' \\\n  ');
}

/** @param {string} text @param {string} label */
export const code = (
  text,
  label,
) => html`<div class="code-block"><pre class="code" tabindex="0" role="group" aria-label=${label}>${text}</pre>
  <div class="code-copy">${copyButton(text, t('Copy'), true)}</div></div>`;

/** @param {Parameters<typeof curlText>[0]} call */
export const curl = (call) => code(curlText(call), 'curl');
