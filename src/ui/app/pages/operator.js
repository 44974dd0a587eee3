import { go, query } from '../lib/router.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { auditTab } from '../parts/operator-audit.js';
import { numbersTab } from '../parts/operator-numbers.js';
import { systemTab } from '../parts/operator-system.js';
import { workspacesTab } from '../parts/operator-workspaces.js';

/** @typedef {{open: (signal: AbortSignal) => unknown, view: () => unknown, actions?: () => unknown, onEvent?: (event: any) => unknown}} Tab */

/** @returns {[string, string, () => Tab][]} */
const tabs = () => [
  ['workspaces', t('Workspaces'), workspacesTab],
  ['numbers', t('Numbers'), numbersTab],
  ['system', t('System'), systemTab],
  ['audit', t('Audit log'), auditTab],
];

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let name = 'workspaces';
  /** @type {Tab | null} */
  let tab = null;
  /** Which tab is shown, and of which workspace. */
  let shown = '';
  /** @type {AbortSignal} */
  let signal;
  /** @param {string} wanted */
  const choose = (wanted) => {
    const found = tabs().find(([key]) => key === (wanted || 'workspaces'));
    if (!found) return go('/operator', true);
    // Another row of the same tab. The audit log itself looks for a workspace.
    const here = found[0] === 'audit' ? 'audit' : `${found[0]} ${query('workspace')}`;
    if (here === shown) return undefined;
    shown = here;
    name = found[0];
    tab = found[2]();
    return tab.open(signal);
  };
  return {
    title: 'Operator',
    wide: true,
    open(params, s) {
      signal = s;
      return choose(params['tab'] ?? '');
    },
    changed: (params) => choose(params['tab'] ?? ''),
    onEvent: (event) => (/^number\./.test(event.type) ? tab?.onEvent?.(event) : undefined),
    actions: () => tab?.actions?.(),
    view: () =>
      html`<nav class="tabs" aria-label=${t('Operator')}>${tabs().map(([key, title]) => html`<a key=${key}
        href=${`/ui/operator${key === 'workspaces' ? '' : `/${key}`}`} aria-current=${key === name ? 'page' : null}>${title}</a>`)}</nav>${tab?.view()}`,
  };
}
