import { duration, number, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { strange } from './bubble.js';
import { filled } from './template.js';

/** What should be known before sending. @param {any} p */
const notes = (p) => {
  if (!p) return [];
  return [
    p.suppressed ? t('{n} have opted out and are left out', { n: p.suppressed }) : '',
    p.without_phone ? t('{n} have no phone', { n: p.without_phone }) : '',
    p.missing_variables ? t('{n} lack a value for a place', { n: p.missing_variables }) : '',
    p.cost > p.credits_left ? t('There are only {n} credits', { n: p.credits_left }) : '',
  ].filter(Boolean);
};

/** @param {any} template @returns {string} */
export const notApproved = (template) =>
  t('This template is not approved: {status}. It cannot be sent.', { status: words(template.status) });

/**
 * What a broadcast sends and costs, before it is sent.
 * @param {{template: any, preview: any, cost: string}} b
 */
export const previewAside = ({
  template,
  preview,
  cost,
}) => html`<section class="card stack preview" aria-label=${t('Preview')}><h2>${t('Preview')}</h2>
    ${template && template.status !== 'approved' ? html`<p class="error block" role="alert">
      ${notApproved(template)}</p>` : ''}
    ${
      preview?.samples?.length
        ? html`<div class="samples">${preview.samples.map((/** @type {any} */ s) => html`<div key=${s.to}><p class="hint">${s.name
          ? html`<span dir="auto">${s.name}</span> ` : ''}<span dir="ltr">${s.to}</span></p><p class="bubble in bubble-text"
          dir="auto">${strange(s.text)}</p></div>`)}</div>`
        : html`<p class="template-text" dir="auto">${template ? filled(template)
          : t('Choose a template and an audience, and five recipients are shown as their phones show it.')}</p>`
    }
    <dl class="facts"><div><dt>${t('Recipients')}</dt><dd>${preview ? number(preview.recipients) : '–'}</dd></div>
      <div><dt>${t('Cost')}</dt><dd><span role="status" aria-label=${t('Cost')}>${cost}</span></dd></div><div><dt>${t('Duration')}
        </dt><dd><span role="status" aria-label=${t('Duration')}>${preview?.seconds_at_pace === null ||
        !preview ? '–' : duration(preview.seconds_at_pace)}</span></dd></div></dl>
    ${notes(preview).length ? html`<ul class="notes-list">${notes(preview).map((x) => html`<li key=${x}>${x}</li>`)}</ul>` : ''}</section>`;
