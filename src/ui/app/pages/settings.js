import { go } from '../lib/router.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { channels } from '../parts/settings-channels.js';
import { numbers } from '../parts/settings-numbers.js';
import { people } from '../parts/settings-people.js';
import { workspaceTab } from '../parts/settings-workspace.js';
import { suppressions } from '../parts/settings-suppressions.js';

/** @typedef {{open: (signal: AbortSignal) => unknown, view: () => unknown}} Tab */

/** @returns {[string, string, boolean, () => Tab][]} */
const tabs = () => [
  ['workspace', t('Workspace'), true, workspaceTab],
  ['people', t('People'), can('people:manage'), people],
  ['numbers', t('Numbers'), can('numbers:manage'), numbers],
  ['opt-outs', t('Opt-outs'), can('contacts:read'), suppressions],
  ['channels', t('Destinations and e-mail'), can('settings:write'), channels],
];

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let name = 'workspace';
  /** @type {Tab | null} */
  let tab = null;
  /** @type {AbortSignal} */
  let signal;
  /** @param {string} wanted */
  const choose = (wanted) => {
    const found = tabs().find(([key, , may]) => key === (wanted || 'workspace') && may);
    if (!found) return go('/settings', true);
    // This is another row of the same tab.
    if (tab && found[0] === name) return undefined;
    name = found[0];
    tab = found[3]();
    return tab.open(signal);
  };
  return {
    title: 'Settings',
    open(params, s) {
      signal = s;
      return choose(params['tab'] ?? '');
    },
    changed: (params) => choose(params['tab'] ?? ''),
    view: () =>
      html`<nav class="tabs" aria-label=${t('Settings')}>${tabs()
        .filter(([, , may]) => may)
        .map(
          ([key, title]) =>
            html`<a key=${key} href=${`/ui/settings${key === 'workspace' ? '' : `/${key}`}`} aria-current=${key === name ? 'page' : null}>${title}</a>`,
        )}</nav>${tab?.view()}`,
  };
}
