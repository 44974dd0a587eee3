import { html } from '../lib/render.js';
import { icon } from '../lib/icons.js';
import { dateTime, short, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { meaning } from './channel-errors.js';
import { dialog, overlay } from './dialog.js';

/** @type {Record<string, string>} */
const TICKS = {
  queued: 'clock',
  sending: 'clock',
  held: 'pause',
  sent: 'check',
  delivered: 'double',
  read: 'double',
  failed: 'warning',
};

/** Shows a stranger's text. Addresses in it stay text; a click asks before it leaves the page. @param {string} text */
export function strange(text) {
  const pieces = text.split(/(https?:\/\/[^\s<>"']+)/);
  return pieces.map((piece, i) =>
    i % 2 ? html`<button type="button" class="address" onclick=${() => leave(piece)}>${piece}</button>` : piece,
  );
}

/** @param {string} address */
function leave(address) {
  // URL writes a host with other letters in punycode, so a look-alike is seen.
  const url = URL.canParse(address) ? new URL(address).href : address;
  const close = overlay(() =>
    dialog(
      t('Leave Postrider?'),
      close,
      html`<p>${t('This link from a message opens an external site:')}</p>
    <p><code class="wrap">${url}</code></p>`,
      {
        kind: 'small',
        actions: html`<button type="button" onclick=${close}>${t('Stay')}</button>
      <a class="button primary" href=${url} target="_blank" rel="noopener noreferrer" onclick=${close}>${t('Open link')}</a>`,
      },
    ),
  );
}

/** @import { Bubble } from '../lib/types.js' */

/** @param {Bubble} b */
export const bubble = (
  b,
) => html`<div class=${`bubble ${b.direction === 'out' ? 'out' : 'in'} ${b.status === 'failed' ? 'failed' : ''}`} key=${b.key}>
  <p class="bubble-text" dir="auto">${strange(b.text)}</p>
  <p class="bubble-meta"><time datetime=${b.at} title=${dateTime(b.at)}>${short(b.at)}</time>
    ${b.direction === 'out' && b.status ? html`<span class=${`tick tick-${b.status}`}>${icon(TICKS[b.status] ?? 'check')}<span
      class="tick-word">${words(b.status)}</span></span>` : ''}</p>
  ${b.error ? html`<p class="bubble-error">${meaning({ reason: '', code: Number(b.error.code) || null, details: b.error.message ?? '' })} ${b.error.code ? html`<code>${b.error.code}</code>` : ''}</p>` : ''}
  ${b.note ?? ''}
</div>`;
