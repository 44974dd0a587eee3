/** The file of a message, which is kept and not shown: strangers make these. */
import { context } from '../lib/api.js';
import { download } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { attempt } from './dialog.js';

/** @import { Written } from '../lib/types.js' */

/** What stands for a message that has no words. @param {Written} m */
export const line = (m) => m.text || (m.media ? '' : `[${m.type}]`);

/** @param {NonNullable<Written['media']>} media */
const keep = (media) =>
  attempt(async () => {
    const answer = await fetch(`/v1/media/${encodeURIComponent(media.media_id)}/content`, {
      headers: { 'Postrider-Workspace': context.workspace },
    });
    if (!answer.ok) throw new Error(JSON.parse(await answer.text()).message);
    return download(media.filename || media.media_id, [await answer.blob()], media.mime_type);
  });

/** @param {Written} m */
export function attached(m) {
  const { media } = m;
  if (!media) return '';
  return html`<p><button type="button" class="quiet" onclick=${() => keep(media)}>${t('Download')}
    <span dir="auto">${media.filename || `[${m.type}]`}</span></button></p>`;
}
