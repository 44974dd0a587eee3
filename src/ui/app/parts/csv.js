/** A list as CSV or JSON lines, as the server writes it; without its help, out of the rows that are here. */
import { context, withQuery } from '../lib/api.js';
import { csvCell, download, on } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { attempt } from './dialog.js';

/**
 * A link that keeps what the server answers to another `Accept`. The file is as the rows are shown, so
 * filters are those of the list.
 * @param {{path: string, query?: () => Record<string, unknown>, name: string, type?: 'text/csv' | 'application/x-ndjson',
 *   rows?: () => unknown[][]}} file `rows` with the head first, where the server writes no CSV
 */
export function downloadLink({ path, query = () => ({}), name, type = 'text/csv', rows }) {
  const text = type === 'text/csv' ? t('Download CSV') : t('Download JSON');
  const run = () =>
    attempt(async () => {
      const answer = await fetch(withQuery(path, query()), {
        headers: { Accept: type, 'Postrider-Workspace': context.workspace },
      });
      const body = await answer.text();
      if (answer.ok && answer.headers.get('Content-Type')?.startsWith(type)) return download(name, [body], type);
      if (!answer.ok && answer.status !== 406) throw new Error(JSON.parse(body).message);
      if (!rows) throw new Error(t('This server has no such interface yet.'));
      return download(name, [rows().map((line) => line.map(csvCell).join(',')).join('\r\n'), '\r\n'], type);
    });
  return html`<a class="button" role="link" href="#file" download=${name} onclick=${on((e) => {
    e.preventDefault();
    return run();
  })}>${text}</a>`;
}
