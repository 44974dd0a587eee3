/** The file of a message: a picture is shown, others can only be saved, because strangers make them. */
import { context } from '../lib/api.js';
import { download } from '../lib/dom.js';
import { readable } from '../lib/exact.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { strange } from './bubble.js';
import { attempt } from './dialog.js';
import { picture } from './phone-file.js';

/** @import { Written } from '../lib/types.js' */

/** Returns the line of a message, even of one without words. @param {Written} m */
export function line(m) {
  if (m.type === 'reaction' && !m.text) return t('Reaction removed');
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

/** Shows the rest of a message: its file, the answered one, its content. @param {Written} m @param {Written[]} thread */
export function attached(m, thread) {
  return html`${m.media ? file(m.media, m.type) : ''}${brought(m, thread, line)}`;
}

/** The maximum number of values that are shown of one message. */
const SHOWN = 100;
/** The fields that the bubble shows already, or in another form. */
const ELSEWHERE = ['type', 'text', 'title', 'caption', 'emoji', 'media_id', 'message_id', 'mime_type', 'filename'];

/** Returns the values in an object, each with its path. @param {any} value @param {string} path @returns {[string, string][]} */
function leaves(value, path) {
  if (value === null || typeof value !== 'object' || value instanceof Number) return [[path, readable(value)]];
  const many = Array.isArray(value) && value.length > 1;
  return Object.entries(value).flatMap(([name, inner]) => {
    const own = Array.isArray(value) ? (many ? String(Number(name) + 1) : '') : name;
    return leaves(inner, [path, own].filter(Boolean).join(' '));
  });
}

/** @param {[string, string][]} pairs */
const values = (pairs) => html`<dl class="facts one brought">${pairs
  .slice(0, SHOWN)
  .map(([name, value]) => html`<div key=${name}><dt dir="auto">${name}</dt><dd class="lines" dir="auto">${strange(value)}</dd></div>`)}</dl>`;

/** The message that it answers or reacts to. @param {Written} m @param {Written[]} thread @param {(m: Written) => string} line */
function answered(m, thread, line) {
  const reacts = m.type === 'reaction';
  if (!(reacts || (m.context && (m.context.message_id || !m.context.forwarded)))) return '';
  const id = reacts ? /** @type {any} */ (m.content)?.message_id : m.context?.message_id;
  const of = thread.find((it) => it.id === id);
  const text = of && line(of);
  return html`<p class="bubble-note" dir="auto">${text ? t('In reply to: {text}', { text }) : t('In reply to an earlier message')}</p>`;
}

/** @param {Written} m @param {Written[]} thread @param {(m: Written) => string} line */
function brought(m, thread, line) {
  if (m.direction !== 'in') return '';
  const content = Object.entries(m.content ?? {}).filter(([name]) => !ELSEWHERE.includes(name));
  // A text that is too long for its line is shown here in full.
  const pairs = leaves(Object.fromEntries(content), '').filter(([, value]) => value !== m.text);
  const ad = leaves(m.referral ?? {}, '');
  return html`${answered(m, thread, line)}
    ${m.context?.forwarded ? html`<p class="bubble-note">${t('Forwarded')}</p>` : ''}
    ${pairs.length ? values(pairs) : ''}
    ${m.content_truncated ? html`<p class="bubble-note">${t('Part of this message was too large and is not shown.')}</p>` : ''}
    ${ad.length ? html`<p class="bubble-note">${t('From an ad')}</p>${values(ad)}` : ''}`;
}
