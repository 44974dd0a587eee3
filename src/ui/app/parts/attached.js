/** The file of a message: a picture is shown, others are kept only, as strangers make these. */
import { context } from '../lib/api.js';
import { download } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { attempt } from './dialog.js';
import { brought } from './brought.js';
import { picture } from './phone-file.js';

/** @import { Written } from '../lib/types.js' */

/** What stands for a message that has no words. @param {Written} m */
export function line(m) {
  if (m.type === 'reaction' && !m.text) return t('Reaction taken back');
  return m.text || (m.media ? '' : `[${m.type}]`);
}

/** @param {Pick<NonNullable<Written['media']>, 'media_id' | 'mime_type' | 'filename'>} media */
export const keep = (media) =>
  attempt(async () => {
    const answer = await fetch(`/v1/media/${encodeURIComponent(media.media_id)}/content`, {
      headers: { 'Postrider-Workspace': context.workspace },
    });
    if (!answer.ok) throw new Error(JSON.parse(await answer.text()).message);
    return download(media.filename || media.media_id, [await answer.blob()], media.mime_type);
  });

/** @param {NonNullable<Written['media']>} media @param {string} type */
const file = (media, type) => html`${picture(media)}<p><button type="button" class="quiet" onclick=${() => keep(media)}>${t('Download')}
    <span dir="auto">${media.filename || `[${type}]`}</span></button></p>`;

/** What a message has beside its line: its file, what it answers, and its content. @param {Written} m @param {Written[]} thread */
export function attached(m, thread) {
  return html`${m.media ? file(m.media, m.type) : ''}${brought(m, thread, line)}`;
}
