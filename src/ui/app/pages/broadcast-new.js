/** A new broadcast: what it sends, to whom, and what that costs, before anything is sent. */
import { get, intent, persist, post } from '../lib/api.js';
import { debounce, submit } from '../lib/dom.js';
import { dateTime, duration, number, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { go, query } from '../lib/router.js';
import { can } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { bodyOf, places, strange } from '../parts/bubble.js';
import { attempt, dialog, notify, overlay } from '../parts/dialog.js';
import { problem } from '../parts/empty.js';
import { button, errorFor, field, formError, radios, select } from '../parts/form.js';
import { describe, segmentDialog } from '../parts/segment-form.js';

/** @returns {import('../lib/router.js').Page} */
export default function page() {
  const state = {
    name: '', template: '', audience: 'segment', segment: query('segment'), contacts: '', phones: '', start: '', to: '',
    values: /** @type {{from: string, text: string}[]} */ ([]), preview: /** @type {any} */ (null), error: /** @type {any} */ (null), previewing: false, busy: false, key: '',
  };
  /** @type {AbortSignal | undefined} */
  let signal;
  let turn = 0;
  const templates = new Resource((s) => get('/v1/messaging/templates', { limit: 100 }, s));
  const segments = new Resource((s) => get('/v1/segments', { limit: 100 }, s));
  const fields = new Set(/** @type {string[]} */ ([]));
  const template = () => (templates.data?.data ?? []).find((/** @type {any} */ x) => `${x.name} ${x.language}` === state.template);
  const phones = () => (state.audience === 'phones' ? state.phones : state.contacts).split(/[\s,;]+/).filter(Boolean);

  /** @returns {Date | null} the start that was typed, in this place's time */
  const startAt = () => {
    const found = /^(\d{4})-(\d\d?)-(\d\d?)[ T](\d\d?):(\d\d)$/.exec(state.start.trim());
    return found ? new Date(Number(found[1]), Number(found[2]) - 1, Number(found[3]), Number(found[4]), Number(found[5])) : null;
  };
  const startWrong = () => state.start.trim().length > 15 && !startAt();

  const body = () => {
    const x = template();
    const n = places(x);
    const text = (/** @type {number} */ i) => state.values[i]?.text ?? '';
    const from = Array.from({ length: n }, (_, i) => {
      const source = state.values[i]?.from ?? 'text';
      return source === 'text' ? { text: text(i) } : source;
    });
    return {
      name: state.name.trim(), template_name: x?.name ?? '', language: x?.language,
      ...(state.audience === 'segment'
        ? { segment_id: state.segment, ...(n ? { variables_from: from } : {}) }
        : { recipients: phones().map((to) => (n ? { to, variables: from.map((v) => (typeof v === 'object' ? v.text : '')) } : to)) }),
      ...(startAt() ? { schedule_at: startAt()?.toISOString() } : {}),
    };
  };
  const ready = () => Boolean(template() && (state.audience === 'segment' ? state.segment : phones().length));
  const preview = debounce(async () => {
    const mine = ++turn;
    if (!ready()) {
      state.preview = null;
      refresh();
      return;
    }
    state.previewing = true;
    try {
      const answer = await post('/v1/messaging/broadcasts/preview', { ...body(), name: state.name.trim() || t('Preview') });
      if (mine === turn) [state.preview, state.error] = [answer, null];
    } catch (error) {
      if (mine === turn) [state.preview, state.error] = [null, error];
    }
    state.previewing = false;
    refresh();
  }, 250);
  /** Another text is another intent, and another preview. @param {() => unknown} change */
  const changed = (change) => {
    change();
    state.key = '';
    preview();
  };
  const send = async () => {
    state.busy = true;
    state.key ||= intent();
    await attempt(async () => {
      const made = await persist(() => post('/v1/messaging/broadcasts', body(), state.key));
      close();
      go(`/broadcasts/${made.broadcast_id}`);
    });
    state.busy = false;
  };
  let close = () => {};
  const cost = () => (state.preview ? t('{n} credits', { n: state.preview.cost }) : '–');
  const confirm = () => {
    if (state.start.trim() && !startAt()) return;
    if (!state.name.trim()) {
      state.error = { message: t('`name` is missing') };
      return;
    }
    close = overlay(() => dialog(t('Send broadcast?'), close, html`<div class="prose"><p><b>${state.name}</b></p>
      <p>${t('{n} recipients', { n: state.preview?.recipients ?? 0 })} · ${cost()}${startAt() ? html` · ${t('starts')} ${dateTime(startAt()?.toISOString())}` : ''}</p>
      ${state.preview?.missing_variables ? html`<p class="error">${t('{n} recipients lack a value for a place.', { n: state.preview.missing_variables })}</p>` : ''}</div>`, {
      kind: 'small', actions: html`<button type="button" onclick=${close}>${t('Back')}</button><button type="button" class="primary" autofocus ?disabled=${state.busy} onclick=${send}>${state.start ? t('Schedule') : t('Send now')}</button>` }));
  };
  const test = () => {
    const done = overlay(() => dialog(t('Send test'), done, html`<form class="stack" onsubmit=${submit(() => attempt(async () => {
      const { name, schedule_at: _, ...rest } = /** @type {any} */ (body());
      await post('/v1/messaging/broadcasts/test', { ...rest, name: name || t('Test'), to: state.to.trim() }, intent());
      notify(t('The test is on its way to {phone}', { phone: state.to }));
      done();
    }))}>${field({ label: t('Phone'), type: 'tel', value: state.to, input: (v) => { state.to = v; }, dir: 'ltr', placeholder: '+15550123456', focus: true, required: true })}
      <div class="row end"><button class="primary">${t('Send test')}</button></div></form>`, { kind: 'small' }));
  };

  /** @param {any} x */
  const templateOption = (x) => /** @type {[string, string]} */ ([`${x.name} ${x.language}`, `${x.name} (${x.language})${x.status === 'approved' ? '' : ` – ${words(x.status)}`}`]);
  const place = (/** @type {number} */ i) => {
    const value = (state.values[i] ??= { from: 'text', text: '' });
    /** @type {[string, string][]} */
    const sources = [['text', t('Text')], ...(state.audience === 'segment' ? [/** @type {[string, string]} */ (['name', t('Name')]), ...[...fields].map((f) => /** @type {[string, string]} */ ([`custom_fields.${f}`, f]))] : [])];
    return html`<div key=${i} class="place">${select({ label: `{{${i + 1}}}`, value: value.from, options: sources, change: (v) => changed(() => { value.from = v; }) })}
      ${value.from === 'text' ? field({ label: t('Text of {place}', { place: `{{${i + 1}}}` }), value: value.text, input: (v) => changed(() => { value.text = v; }), dir: 'auto' }) : ''}</div>`;
  };
  const audience = () => {
    if (state.audience === 'segment') {
      const chosen = (segments.data?.data ?? []).find((/** @type {any} */ s) => s.id === state.segment);
      return html`<div class="row bottom nowrap"><div class="grow">${select({ label: t('Segment'), value: state.segment, options: [['', t('Choose')], ...(segments.data?.data ?? []).map((/** @type {any} */ s) => [s.id, s.name])], change: (v) => changed(() => { state.segment = v; }) })}</div>
        ${can('contacts:write') ? button(t('New segment'), () => segmentDialog({ after: async (s) => { await segments.load(signal); changed(() => { state.segment = s.id; }); } })) : ''}</div>${chosen ? html`<p class="hint">${describe(chosen.filter)}</p>` : ''}`;
    }
    const contacts = state.audience === 'contacts';
    return field({ label: contacts ? t('Contacts') : t('Phone numbers'), rows: 4, mono: true, dir: 'ltr', value: contacts ? state.contacts : state.phones, input: (v) => changed(() => { state[contacts ? 'contacts' : 'phones'] = v; }),
      placeholder: '+15550123456\n+15550123457', hint: contacts ? t('Their phones or user ids, one in a line. “Find” adds a contact.') : t('One in a line. Twice counts once.') });
  };
  const finder = () => {
    let text = '';
    /** @type {any[]} */
    let found = [];
    const look = debounce(async () => { found = (await get('/v1/contacts', { search: text, limit: 20 }, signal)).data; refresh(); }, 150);
    const done = overlay(() => dialog(t('Find contacts'), done, html`${field({ label: t('Search contacts'), value: text, input: (v) => { text = v; look(); }, focus: true })}
      <ul class="hits">${found.filter((c) => c.phone ?? c.user_id).map((c) => html`<li key=${c.id}><span dir="auto">${c.name}</span><span class="muted">${c.phone ?? c.user_id}</span>${button(t('Add'), () => changed(() => { state.contacts = `${state.contacts.trim()}\n${c.phone ?? c.user_id}`.trim(); }))}</li>`)}</ul>`));
  };
  const notes = () => {
    const p = state.preview;
    if (!p) return [];
    return [p.suppressed ? t('{n} have opted out and are left out', { n: p.suppressed }) : '', p.without_phone ? t('{n} have no phone', { n: p.without_phone }) : '', p.missing_variables ? t('{n} lack a value for a place', { n: p.missing_variables }) : '',
      p.cost > p.credits_left ? t('There are only {n} credits', { n: p.credits_left }) : ''].filter(Boolean);
  };
  const aside = () => html`<section class="card stack preview" aria-label=${t('Preview')}><h2>${t('Preview')}</h2>
    ${template() && template().status !== 'approved' ? html`<p class="error block" role="alert">${t('This template is not approved: {status}. It cannot be sent.', { status: words(template().status) })}</p>` : ''}
    ${state.preview?.samples?.length ? html`<div class="samples">${state.preview.samples.map((/** @type {any} */ s) => html`<div key=${s.to}><p class="hint">${s.name ? html`<span dir="auto">${s.name}</span> ` : ''}<span dir="ltr">${s.to}</span></p><p class="bubble in bubble-text" dir="auto">${strange(s.text)}</p></div>`)}</div>`
      : html`<p class="template-text" dir="auto">${template() ? bodyOf(template()) : t('Choose a template and an audience, and five recipients are shown as their phones show it.')}</p>`}
    ${state.error && !ready() ? '' : state.error ? problem(state.error) : ''}
    <dl class="facts"><div><dt>${t('Recipients')}</dt><dd>${state.preview ? number(state.preview.recipients) : '–'}</dd></div>
      <div><dt>${t('Cost')}</dt><dd role="presentation"><span role="status" aria-label=${t('Cost')}>${cost()}</span></dd></div><div><dt>${t('Duration')}</dt><dd><span role="status" aria-label=${t('Duration')}>${state.preview?.seconds_at_pace === null || !state.preview ? '–' : duration(state.preview.seconds_at_pace)}</span></dd></div></dl>
    ${notes().length ? html`<ul class="notes-list">${notes().map((x) => html`<li key=${x}>${x}</li>`)}</ul>` : ''}</section>`;

  return {
    title: 'New broadcast',
    async open(_, s) {
      signal = s;
      await Promise.all([templates.load(s), segments.load(s), get('/v1/contacts', { limit: 50 }, s).then((r) => r.data.forEach((/** @type {any} */ c) => Object.keys(c.custom_fields ?? {}).forEach((f) => fields.add(f))), () => {})]);
      const first = (templates.data?.data ?? []).find((/** @type {any} */ x) => x.status === 'approved' && x.category === 'marketing');
      if (!state.template && first) state.template = templateOption(first)[0];
      changed(() => {});
    },
    onEvent: (event) => (event.type === 'template.status_changed' ? templates.load(signal).then(preview) : undefined),
    view: () => html`<div class="compose"><form class="stack" onsubmit=${submit(confirm)}>
      ${field({ label: t('Name'), value: state.name, input: (v) => { state.name = v; state.key = ''; state.error = null; }, error: errorFor(state.error, 'name'), hint: t('For you; nobody else sees it') })}
      ${select({ label: t('Template'), value: state.template, options: [['', t('Choose')], ...(templates.data?.data ?? []).filter((/** @type {any} */ x) => x.category !== 'authentication').map(templateOption)], change: (v) => changed(() => { state.template = v; state.values = []; }) })}
      ${Array.from({ length: places(template()) }, (_, i) => place(i))}
      ${radios(t('Audience'), state.audience, [['segment', t('Segment')], ['contacts', t('Contacts')], ['phones', t('Phone numbers')]], (v) => changed(() => { state.audience = v; }), { shown: true })}
      ${audience()}${state.audience === 'contacts' ? html`<div class="row">${button(t('Find'), finder)}</div>` : ''}
      ${field({ label: t('Start'), value: state.start, input: (v) => { state.start = v; state.key = ''; }, placeholder: '2026-06-21 09:00', dir: 'ltr', hint: t('Empty: now. Else the day and time here, such as 2026-06-21 09:00'), error: startWrong() ? t('is no day and time') : null })}
      ${formError(templates.error)}
      <div class="row">${button(t('Send test'), test, { disabled: !template() })}<button class="primary" ?disabled=${!ready() || state.busy || !state.preview || template()?.status !== 'approved'}>${t('Send broadcast')}</button></div>
    </form>${aside()}</div>`,
  };
}
