/** The file of a message: a picture is shown, others are kept only, as strangers make these. */
import { context } from '../lib/api.js';
import { download } from '../lib/dom.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { attempt } from './dialog.js';
import { picture } from './phone-file.js';

/** @import { Written } from '../lib/types.js' */

/** A place or cards, in a line. Strangers make these. @param {any} content @returns {string} */
function described(content) {
  const numbers = [content?.latitude, content?.longitude];
  if (numbers.every((it) => typeof it === 'number')) return `${content.latitude}, ${content.longitude}`;
  const cards = Array.isArray(content?.contacts) ? content.contacts : [];
  const names = cards.map((/** @type {any} */ card) => card?.name?.formatted_name);
  return names.filter((/** @type {unknown} */ name) => typeof name === 'string').join(', ');
}

/** What stands for a message that has no words. @param {Written} m */
export const line = (m) => m.text || described(m.content) || (m.media ? '' : `[${m.type}]`);

/** @param {Pick<NonNullable<Written['media']>, 'media_id' | 'mime_type' | 'filename'>} media */
export const keep = (media) =>
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
  return html`${picture(media)}<p><button type="button" class="quiet" onclick=${() => keep(media)}>${t('Download')}
    <span dir="auto">${media.filename || `[${m.type}]`}</span></button></p>`;
}
