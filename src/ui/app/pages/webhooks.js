import { number, percent } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { list, t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { Rows } from '../lib/store.js';
import { empty, shown } from '../parts/empty.js';
import { label } from '../parts/status.js';
import { moreButton, table } from '../parts/table.js';
import { endpointDialog } from '../parts/endpoint.js';

/** @typedef {import('../lib/types.js').Webhook} Webhook */

/** @param {Webhook} w */
export const stateOf = (w) => {
  if (!w.enabled) return label('bad', 'stop', t('Disabled'));
  if (w.health?.breaker_open) return label('warning', 'warning', t('Failing'));
  return label('good', 'check', t('Enabled'));
};

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {AbortSignal | undefined} */
  let signal;
  const rows = new Rows(
    '/v1/webhooks',
    () => ({}),
    (/** @type {Webhook} */ w) => w.id,
  );
  const add = () => endpointDialog(() => rows.load(signal));
  return {
    title: 'Webhooks',
    open(_, s) {
      signal = s;
      return rows.load(s);
    },
    onEvent: (event) => (event.type.startsWith('webhook.') ? rows.refetch() : undefined),
    resync: () => rows.load(signal),
    actions: () =>
      html`<button type="button" class="primary" onclick=${add}>${icon('plus')}${t('New endpoint')}</button>`,
    view: () =>
      shown(
        rows,
        () =>
          html`${table({
            label: t('Webhooks'),
            rows: rows.rows,
            key: (w) => w.id,
            href: (w) => `/ui/webhooks/${w.id}`,
            columns: [
              { name: t('Address'), cell: (w) => html`<span class="wrap" dir="ltr">${w.url}</span>` },
              {
                name: t('Events'),
                cell: (w) =>
                  w.events.length
                    ? html`<span title=${list(w.events)}>${w.events.length === 1 ? w.events[0] : t('{n} event types', { n: w.events.length })}</span>`
                    : t('All'),
              },
              { name: t('State'), cell: stateOf },
              { name: t('Success'), kind: 'num', cell: (w) => percent(w.health?.success_24h) },
              { name: t('Waiting'), kind: 'num', cell: (w) => number(w.health?.waiting) },
            ],
          })}${moreButton(rows)}`,
        () =>
          empty({
            icon: 'webhook',
            title: t('No endpoints yet'),
            text: t(
              'Postrider posts signed events to your endpoint and retries failed deliveries.',
            ),
            action: html`<button type="button" class="primary" onclick=${add}>${t('New endpoint')}</button>`,
            call: {
              method: 'POST',
              path: '/v1/webhooks',
              body: { url: `${location.protocol}//example.com/hooks`, events: ['otp.verified'] },
            },
          }),
      ),
  };
}
