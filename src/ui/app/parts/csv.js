/** A list as CSV or JSON lines, as the server writes it. */
import { context, withQuery } from '../lib/api.js';
import { download, on } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { attempt } from './dialog.js';

/**
 * A link that saves the server's answer to another `Accept`. The file has the rows that are shown, so the
 * filters are the list's.
 * @param {{path: string, query?: () => Record<string, unknown>, name: string, type?: 'text/csv' | 'application/x-ndjson'}} file
 */
export function downloadLink({ path, query = () => ({}), name, type = 'text/csv' }) {
  const text = type === 'text/csv' ? t('Download CSV') : t('Download JSON');
  /** @type {() => Promise<unknown>} */
  const run = () =>
    attempt(async () => {
      const answer = await fetch(withQuery(path, query()), {
        headers: { Accept: type, 'Postrider-Workspace': context.workspace },
      });
      const body = await answer.text();
      if (!answer.ok) {
        const refused = JSON.parse(body);
        if (refused.reason === 'step_up_required' && (await context.confirm())) return run();
        throw new Error(refused.message);
      }
      return download(name, [body], type);
    });
  return html`<a class="button" role="link" href="#file" download=${name} onclick=${on((e) => {
    e.preventDefault();
    return run();
  })}>${text}</a>`;
}
