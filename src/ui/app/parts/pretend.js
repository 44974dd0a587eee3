import { words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { button, select } from './form.js';

const OUTCOMES = ['sent', 'failed', 'unavailable', 'lost', 'slow'];

/**
 * What the sandbox's channel and clock do next.
 * @param {{outcome: string, auto: string, script: (o: string) => unknown, deliver: (v: string) => unknown, move: (s: number) => unknown}} p
 */
export const pretend = (p) => html`<section class="card" aria-label=${t('What the sandbox pretends')}>
    <h2>${t('What the sandbox pretends')}</h2>
    <div class="columns tight">
      ${select({ label: t('Next outcome'), value: p.outcome, options: OUTCOMES.map((o) => [o, words(o)]), change: p.script })}
      ${select({
        label: t('Reports by themselves'),
        value: p.auto,
        options: [
          ['none', t('None')],
          ['delivered', t('Delivered')],
          ['read', t('Read')],
        ],
        change: p.deliver,
      })}</div>
    <div class="row clock-row">${button(t('Clock +5 minutes'), () => p.move(300))}${button(t('Clock +1 hour'), () => p.move(3600))}${button(t('Clock +24 hours'), () => p.move(86400))}</div>
  </section>`;
