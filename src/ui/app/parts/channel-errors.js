/** The meanings of the channel's errors, in words. */
import { words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';

/** @type {Record<string, string>} */
const MEANINGS = {
  131026: 'This phone cannot receive the message. It may not have the app, or the app may be outdated.',
  131047: 'More than 24 hours have passed since the customer last wrote. Send a template instead.',
  131051: 'The channel does not support this message type.',
  131049: 'The channel did not deliver this message because the recipient has received many marketing messages.',
  131050: 'The recipient has turned off marketing messages from you in the app.',
  130472: 'The recipient is part of a channel experiment and receives no marketing messages.',
  190: 'The access token is no longer valid. Replace the number’s token.',
};

/** @typedef {{reason: string, code?: number | null | undefined, details: string}} ChannelError */

/** Returns what an error means, or else what the channel said. @param {ChannelError} error @returns {string} */
export const meaning = (error) => t(MEANINGS[error.code ?? ''] ?? '') || error.details || words(error.reason);

/** Shows an error in a row: its meaning, and the code for a search. @param {ChannelError | null | undefined} error */
export const errorCell = (error) =>
  error
    ? html`<span class="why" title=${error.details || null}>${meaning(error)}${error.code ? html` <code>${error.code}</code>` : ''}</span>`
    : '';
