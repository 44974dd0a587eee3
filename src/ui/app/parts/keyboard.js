/** The dialog "Keyboard": every key and its action. */
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { dialog, overlay } from './dialog.js';

/** @returns {[string, string][]} */
const list = () => [
  ['Ctrl K', t('Search')],
  ['g h', t('Home')],
  ['g p', t('Phone')],
  ['g c', t('Codes')],
  ['g i', t('Inbox')],
  ['g b', t('Broadcasts')],
  ['g o', t('Contacts')],
  ['j / k', t('Next or previous row')],
  ['Enter', t('Open the row')],
  ['/', t('Focus the search field')],
  ['r', t('Reply')],
  ['a', t('Assign to me')],
  ['e', t('Resolve')],
  ['.', t('API calls')],
  ['?', t('Show keyboard shortcuts')],
];

export function openKeys() {
  const close = overlay(() =>
    dialog(
      t('Keyboard shortcuts'),
      close,
      html`<dl class="keys">${list().map(([key, text]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
    <p class="muted">${t('You can turn off single-key shortcuts in My account.')}</p>`,
      { kind: 'small' },
    ),
  );
}
