/** What is wrong now, on every page: a number that is stopped, storage that is down. */
import { call, context } from './api.js';
import { adminPath, can } from './session.js';
import { refresh } from './render.js';
import { t } from './i18n.js';

/** @type {Map<string, {text: string, href: string | null}>} */
export const problems = new Map();

export function startProblems() {
  problems.clear();
  checkReady();
  readNumbers();
  context.onStatus = (status) => {
    if (status === 503 || (status < 400 && problems.has('storage'))) checkReady();
  };
}

async function readNumbers() {
  if (!can('numbers:manage')) return;
  try {
    const numbers = await call('GET', adminPath('/numbers'), { quiet: true });
    for (const n of numbers.data) if (n.state === 'stopped') stopped(n.id, n.reason ?? n.trouble ?? '');
    refresh();
  } catch {
    // The strip is for what is known to be wrong; the number's own page says why it cannot be read.
  }
}

let asking = false;
async function checkReady() {
  if (asking) return;
  asking = true;
  try {
    const answer = await fetch('/readyz', { headers: { Accept: 'application/json' } });
    const body = await answer.json();
    if (answer.ok) problems.delete('storage');
    else
      problems.set('storage', {
        text: t('The server takes no work: {status}', { status: String(body.status ?? answer.status) }),
        href: null,
      });
  } catch {
    problems.delete('storage');
  }
  asking = false;
  refresh();
}

/** @param {string} id @param {string} reason */
function stopped(id, reason) {
  const href = can('operator') ? `/ui/operator/numbers/${encodeURIComponent(context.workspace)}/${id}` : null;
  problems.set(id, { text: t('A number has stopped sending: {reason}', { reason }), href });
}

/** @param {import('./types.js').LiveEvent} event */
export function tellProblems(event) {
  if (event.type === 'number.stopped') stopped(event.data.number_id, event.data.reason ?? '');
  if (event.type === 'number.recovered') problems.delete(event.data.number_id);
}
