/** A file of a message: pictures are shown, others by their name and size. */
import { call, context } from '../lib/api.js';
import { bytes } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';

/** @import { PhoneFile } from '../lib/types.js' */

/** The maximum number of pictures that are kept: more than a phone shows. */
const KEPT = 250;
/** The types of the pictures that are shown. */
const PICTURES = ['image/jpeg', 'image/png', 'image/webp'];
/** @type {Map<string, string>} addresses of pictures in this page, '' while one is got */
const pictures = new Map();
/** The page and the workspace that they are shown in. */
let place = '';
const here = () => `${location.pathname} ${context.workspace}`;
/** Frees them when their page or its workspace is left. */
const leaving = new MutationObserver(() => here() === place || forget());

function forget() {
  leaving.disconnect();
  for (const address of pictures.values()) URL.revokeObjectURL(address);
  pictures.clear();
}

/** @param {Pick<PhoneFile, 'media_id'>} file */
async function load(file) {
  if (place !== here()) forget();
  place = here();
  leaving.observe(document.body, { childList: true, subtree: true });
  pictures.set(file.media_id, '');
  const [oldest] = pictures;
  if (oldest && pictures.size > KEPT) {
    pictures.delete(oldest[0]);
    URL.revokeObjectURL(oldest[1]);
  }
  const answer = await fetch(`/v1/media/${encodeURIComponent(file.media_id)}/content`, {
    headers: { 'Postrider-Workspace': context.workspace },
  });
  if (!answer.ok) throw new Error(String(answer.status));
  const content = await answer.blob();
  // Its page may have been left meanwhile, or others may have replaced it.
  if (pictures.get(file.media_id) !== '') return;
  pictures.set(file.media_id, URL.createObjectURL(content));
  refresh();
}

/** Permits another fetch of a picture that did not come. @param {Pick<PhoneFile, 'media_id'>} file */
const again = (file) => pictures.get(file.media_id) === '' && pictures.delete(file.media_id);

/** @param {Pick<PhoneFile, 'media_id' | 'mime_type'> & {filename?: string | null | undefined}} file */
export function picture(file) {
  if (!PICTURES.includes(file.mime_type)) return '';
  const known = pictures.get(file.media_id);
  if (known === undefined) load(file).catch(() => setTimeout(() => again(file), 10_000));
  else {
    // The shown pictures count as the newest.
    pictures.delete(file.media_id);
    pictures.set(file.media_id, known);
  }
  const address = known;
  return address ? html`<img class="phone-picture" src=${address} alt=${file.filename || t('Image')}>` : '';
}

/** @param {PhoneFile | null | undefined} file */
export const phoneFile = (file) =>
  file
    ? html`<p class="phone-file">${picture(file)}<span dir="auto">${file.filename || file.mime_type}</span>
    <span class="muted">${bytes(file.size)}</span></p>`
    : '';

/** Returns the type of a message with a file of this type. @param {string} type */
function kindOf(type) {
  if (type === 'image/webp') return 'sticker';
  const kind = type.split('/')[0] ?? '';
  return ['image', 'video', 'audio'].includes(kind) ? kind : 'document';
}

/** Uploads a file, and returns the fields of a message with it. @param {File} file */
export async function uploaded(file) {
  const query = { filename: file.name };
  const { media_id } = await call('POST', '/v1/media', { query, file });
  return { type: kindOf(file.type), content: { media_id, filename: file.name } };
}
