import { get, intent, persist, post } from '../lib/api.js';
import { debounce, submit } from '../lib/dom.js';
import { dateTime, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { go, query } from '../lib/router.js';
import { can } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { parseLocal } from '../parts/bound.js';
import { placeField } from '../parts/broadcast-place.js';
import { previewAside } from '../parts/broadcast-preview.js';
import { contactFinder } from '../parts/contact-finder.js';
import { testDialog } from '../parts/broadcast-test.js';
import { attempt, dialog, overlay } from '../parts/dialog.js';
import { button, errorFor, field, formError, radios, select } from '../parts/form.js';
import { describe, segmentDialog } from '../parts/segment-form.js';
import { componentsOf, places } from '../parts/template.js';

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  const state = {
    name: '',
    template: '',
    audience: 'segment',
    segment: query('segment'),
    contacts: '',
    phones: '',
    start: '',
    values: /** @type {{from: string, text: string}[]} */ ([]),
    preview: /** @type {any} */ (null),
    error: /** @type {any} */ (null),
    previewing: false,
    busy: false,
    key: '',
  };
  /** @type {AbortSignal | undefined} */
  let signal;
  let turn = 0;
  const templates = new Resource((s) => get('/v1/messaging/templates', { limit: 100 }, s));
  const segments = new Resource((s) => get('/v1/segments', { limit: 100 }, s));
  const fields = new Set(/** @type {string[]} */ ([]));
  const template = () =>
    (templates.data?.data ?? []).find((/** @type {any} */ x) => `${x.name} ${x.language}` === state.template);
  const phones = () => (state.audience === 'phones' ? state.phones : state.contacts).split(/[\s,;]+/).filter(Boolean);

  const startAt = () => parseLocal(state.start);
  const startWrong = () => state.start.trim().length > 15 && !startAt();

  const body = () => {
    const x = template();
    const all = places(x);
    const texts = all.map((_, i) => state.values[i]?.text ?? '');
    const from = all.flatMap(({ part }, i) => {
      const source = state.values[i]?.from ?? 'text';
      return part !== 'body' ? [] : [source === 'text' ? { text: texts[i] ?? '' } : source];
    });
    const n = from.length;
    // What is not in the text is the same for all.
    const components = componentsOf(x, texts).filter((it) => it.type !== 'body');
    return {
      name: state.name.trim(),
      template_name: x?.name ?? '',
      language: x?.language,
      ...(components.length ? { components } : {}),
      ...(state.audience === 'segment'
        ? { segment_id: state.segment, ...(n ? { variables_from: from } : {}) }
        : {
            recipients: phones().map((to) =>
              n ? { to, variables: from.map((v) => (typeof v === 'object' ? v.text : '')) } : to,
            ),
          }),
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
      const asked = { ...body(), name: state.name.trim() || t('Preview') };
      const answer = await post('/v1/messaging/broadcasts/preview', asked);
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
  /** @param {any} into @param {string} key */
  const set = (into, key) => (/** @type {string} */ v) => changed(() => (into[key] = v));
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
    close = overlay(() =>
      dialog(
        t('Send broadcast?'),
        close,
        html`<div class="prose"><p><b>${state.name}</b></p>
      <p>${t('{n} recipients', { n: state.preview?.recipients ?? 0 })} · ${cost()}${startAt()
        ? ` · ${t('starts {time}', { time: dateTime(startAt()?.toISOString()) })}` : ''}</p>
      ${state.preview?.missing_variables ? html`<p class="error" role="alert">${t('{n} recipients lack a value for a place.',
        { n: state.preview.missing_variables })}</p>` : ''}</div>`,
        {
          kind: 'small',
          actions: html`<button type="button" onclick=${close}>${t('Back')}</button><button type="button" class="primary" autofocus
            ?disabled=${state.busy} onclick=${send}>${t('Send now')}</button>`,
        },
      ),
    );
  };
  const test = () => {
    const { schedule_at: _, ...rest } = /** @type {any} */ (body());
    testDialog({ ...rest, name: rest.name || t('Test') });
  };

  /** @param {any} x */
  const templateOption = (x) =>
    /** @type {[string, string]} */ ([
      `${x.name} ${x.language}`,
      `${x.name} (${x.language})${x.status === 'approved' ? '' : ` – ${words(x.status)}`}`,
    ]);
  /** What a place may be filled with besides a text. @returns {[string, string][]} */
  const sources = () =>
    state.audience === 'segment' ? [['name', t('Name')], ...[...fields].map((f) => /** @type {[string, string]} */ ([`custom_fields.${f}`, f]))] : [];
  const place = (/** @type {import('../parts/template.js').Place} */ one, /** @type {number} */ i) =>
    placeField(one, (state.values[i] ??= { from: 'text', text: '' }), sources(), set);
  const audience = () => {
    if (state.audience === 'segment') {
      const chosen = (segments.data?.data ?? []).find((/** @type {any} */ s) => s.id === state.segment);
      return html`<div class="row bottom nowrap"><div class="grow">${select({
        label: t('Segment'),
        value: state.segment,
        options: [['', t('Choose')], ...(segments.data?.data ?? []).map((/** @type {any} */ s) => [s.id, s.name])],
        change: set(state, 'segment'),
      })}</div>
        ${
          can('contacts:write')
            ? button(t('New segment'), () =>
                segmentDialog({
                  after: async (s) => {
                    await segments.load(signal);
                    changed(() => {
                      state.segment = s.id;
                    });
                  },
                }),
              )
            : ''
        }</div>${chosen ? html`<p class="hint">${describe(chosen.filter)}</p>` : ''}`;
    }
    const contacts = state.audience === 'contacts';
    return field({
      label: contacts ? t('Contacts') : t('Phone numbers'),
      rows: 4,
      mono: true,
      dir: 'ltr',
      value: contacts ? state.contacts : state.phones,
      input: (v) =>
        changed(() => {
          state[contacts ? 'contacts' : 'phones'] = v;
        }),
      placeholder: '+15550123456\n+15550123457',
      hint: contacts
        ? t('Their phones or user ids, one in a line. “Find” adds a contact.')
        : t('One in a line. Twice counts once.'),
    });
  };
  return {
    title: 'New broadcast',
    async open(_, s) {
      signal = s;
      await Promise.all([
        templates.load(s),
        segments.load(s),
        get('/v1/contacts', { limit: 50 }, s).then(
          (r) =>
            r.data.forEach((/** @type {any} */ c) => Object.keys(c.custom_fields ?? {}).forEach((f) => fields.add(f))),
          () => {},
        ),
      ]);
      const first = (templates.data?.data ?? []).find(
        (/** @type {any} */ x) => x.status === 'approved' && x.category === 'marketing',
      );
      if (!state.template && first) state.template = templateOption(first)[0];
      changed(() => {});
    },
    onEvent: (event) => (event.type === 'template.status_changed' ? templates.load(signal).then(preview) : undefined),
    view: () => html`<div class="compose"><form class="stack" onsubmit=${submit(confirm)}>
      ${field({
        label: t('Name'),
        value: state.name,
        input: (v) => {
          state.name = v;
          state.key = '';
          state.error = null;
        },
        error: errorFor(state.error, 'name'),
        hint: t('For you; nobody else sees it'),
      })}
      ${select({
        label: t('Template'),
        value: state.template,
        options: [
          ['', t('Choose')],
          ...(templates.data?.data ?? [])
            .filter((/** @type {any} */ x) => x.category !== 'authentication')
            .map(templateOption),
        ],
        change: (v) =>
          changed(() => {
            state.template = v;
            state.values = [];
          }),
      })}
      ${places(template()).map(place)}
      ${radios(
        t('Audience'),
        state.audience,
        [
          ['segment', t('Segment')],
          ['contacts', t('Contacts')],
          ['phones', t('Phone numbers')],
        ],
        set(state, 'audience'),
        { shown: true },
      )}
      ${audience()}${
        state.audience === 'contacts'
          ? html`<div class="row">${button(t('Find'), () =>
              contactFinder((party) =>
                changed(() => {
                  state.contacts = `${state.contacts.trim()}\n${party}`.trim();
                }),
              ),
            )}</div>`
          : ''
      }
      ${field({
        label: t('Start'),
        value: state.start,
        input: (v) => {
          state.start = v;
          state.key = '';
        },
        placeholder: '2026-06-21 09:00',
        dir: 'ltr',
        hint: t('Empty: now. Else the day and time here, such as 2026-06-21 09:00'),
        error: startWrong() ? t('is no day and time') : null,
      })}
      ${formError(templates.error)}
      <div class="row">${button(t('Send test'), test, { disabled: !template() })}<button class="primary" ?disabled=${!ready() ||
        state.busy || !state.preview || template()?.status !== 'approved'}>${t('Send broadcast')}</button></div>
    </form>${previewAside({ template: template(), preview: state.preview, error: ready() ? state.error : null, cost: cost() })}</div>`,
  };
}
