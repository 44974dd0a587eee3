import { get, intent, persist, post } from '../lib/api.js';
import { debounce, submit } from '../lib/dom.js';
import { dateTime, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { go, query } from '../lib/router.js';
import { Resource } from '../lib/store.js';
import { audienceField, notApproved, placeField, previewAside, testDialog, valueFault } from '../parts/broadcast-parts.js';
import { dialog, overlay } from '../parts/dialog.js';
import { button, e164, errorIn, field, focusWrong, formError, phonesOf, radios, select } from '../parts/form.js';
import { Moment } from '../parts/moment.js';
import { componentsOf, pathsOf, places } from '../parts/template.js';

const PHONE = /^\+[1-9]\d{6,14}$/;

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  const state = {
    name: '',
    template: '',
    audience: 'segment',
    segment: query('segment'),
    contacts: '',
    phones: '',
    when: 'now',
    /** The last attempted action, whose missing fields are shown: `test`, `send`, or none yet. */
    asked: '',
    values: /** @type {{from: string, text: string}[]} */ ([]),
    preview: /** @type {any} */ (null),
    error: /** @type {any} */ (null),
    /** Set if the preview is outdated. */
    stale: false,
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
  const phones = () => (state.audience === 'phones' ? phonesOf(state.phones) : state.contacts.split(/[\s,;]+/).filter(Boolean));

  const start = new Moment();
  const startAt = () => (state.when === 'later' ? start.date : null);
  const valueOf = (/** @type {number} */ i) => (state.values[i] ??= { from: 'text', text: '' });

  const body = () => {
    const x = template();
    const all = places(x);
    const texts = all.map((_, i) => valueOf(i).text);
    const from = all.flatMap(({ part }, i) => {
      const source = valueOf(i).from;
      return part !== 'body' ? [] : [source === 'text' ? { text: texts[i] ?? '' } : source];
    });
    const n = from.length;
    // Parts outside of the text are the same for all.
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
  /** Returns a broadcast that starts now, even before it has a name. @param {string} name */
  const unscheduled = (name) => {
    const { schedule_at: _, ...rest } = /** @type {any} */ (body());
    return { ...rest, name: rest.name || name };
  };
  /** Returns the fault of each field, in words, as far as it is known. @param {number} [missing] recipients without a value */
  const faults = (missing = state.preview?.missing_variables ?? 0) => {
    const x = template();
    const [list, bySegment] = [phones(), state.audience === 'segment'];
    const wrong = list.find((it) => !PHONE.test(it));
    const nobody = bySegment ? !state.segment && t('Choose a segment') : !list.length && t('Enter at least one recipient');
    return {
      name: state.name.trim() ? null : t('This field is required'),
      template: !x ? t('Choose a template') : x.status === 'approved' ? null : notApproved(x),
      places: places(x).map((one, i) => valueFault(one, valueOf(i), missing)),
      audience: nobody || (wrong && !bySegment ? t('{text} is not a valid phone number (example: +15550123456)', { text: wrong }) : null),
      start: state.when === 'later' ? start.fault : null,
    };
  };
  /** Returns whether a test or preview is possible; only a send needs a name and a start. @param {number} [missing] */
  const ready = (missing) => {
    const { template: x, places: all, audience: whom } = faults(missing);
    return ![x, whom, ...all].some(Boolean);
  };
  /** Returns the interface's paths of each field; a place has its number. @returns {Record<string, string[]>} */
  const paths = () => ({
    name: ['name'],
    template: ['template_name', 'language'],
    audience: ['segment_id', 'recipients'],
    start: ['schedule_at'],
    ...Object.fromEntries(pathsOf(template(), true).entries()),
  });
  /** @param {'name' | 'template' | 'audience'} field */
  const errorOf = (field) =>
    (state.asked === 'send' || (state.asked && field !== 'name') ? faults()[field] : null) ?? errorIn(state.error, paths(), field);
  const look = async () => {
    const mine = ++turn;
    // Phones that are not in E.164 are converted first.
    if (state.audience === 'phones') await e164(state.phones);
    let [answer, refused] = /** @type {any[]} */ ([null, null]);
    // An incomplete broadcast would be refused.
    if (ready(0)) {
      try {
        answer = await post('/v1/messaging/broadcasts/preview', unscheduled(t('Preview')));
      } catch (error) {
        refused = error;
      }
    }
    if (mine === turn) Object.assign(state, { preview: answer, error: refused, stale: false });
    refresh();
  };
  const preview = debounce(look, 250);
  /** Applies a change: another text is another intent, and another preview. @param {() => unknown} change */
  const changed = (change) => {
    change();
    state.key = '';
    state.stale = true;
    preview();
  };
  /** Applies a change that the preview does not show. @param {() => unknown} change */
  const noted = (change) => {
    change();
    [state.key, state.error] = ['', null];
  };
  /** @param {any} into @param {string} key */
  const set = (into, key) => (/** @type {string} */ v) => changed(() => (into[key] = v));
  const focusFirst = () => focusWrong(document.querySelector('.compose form'));
  const send = async () => {
    state.busy = true;
    state.key ||= intent();
    try {
      const made = await persist(() => post('/v1/messaging/broadcasts', body(), state.key));
      close();
      go(`/broadcasts/${made.broadcast_id}`);
    } catch (error) {
      state.error = error;
      close();
      focusFirst();
    }
    state.busy = false;
  };
  let close = () => {};
  const cost = () => (state.preview ? t('{n} credits', { n: state.preview.cost }) : '–');
  const confirm = async () => {
    if (state.busy) return;
    state.asked = 'send';
    start.asked = true;
    if (state.stale || !state.preview) {
      state.busy = true;
      await look();
      state.busy = false;
    }
    const { name, start: begins } = faults();
    if (name || begins || !ready() || !state.preview) return focusFirst();
    close = overlay(() =>
      dialog(
        t('Send broadcast?'),
        close,
        html`<div class="prose"><p><b>${state.name}</b></p>
      <p>${t('{n} recipients', { n: state.preview?.recipients ?? 0 })} · ${cost()}${startAt()
        ? ` · ${t('starts {time}', { time: dateTime(startAt()?.toISOString()) })}` : ''}</p></div>`,
        {
          kind: 'small',
          actions: html`<button type="button" onclick=${close}>${t('Back')}</button><button type="button" class="primary" autofocus
            ?disabled=${state.busy} onclick=${send}>${startAt() ? t('Schedule') : t('Send now')}</button>`,
        },
      ),
    );
  };
  const test = () => {
    state.asked ||= 'test';
    if (!ready()) return focusFirst();
    return testDialog(unscheduled(t('Test')));
  };

  /** @param {any} x */
  const templateOption = (x) =>
    /** @type {[string, string]} */ ([
      `${x.name} ${x.language}`,
      `${x.name} (${x.language})${x.status === 'approved' ? '' : ` – ${words(x.status)}`}`,
    ]);
  /** Returns the sources of a place's value besides a text. @returns {[string, string][]} */
  const sources = () =>
    state.audience === 'segment' ? [['name', t('Name')], ...[...fields].map((f) => /** @type {[string, string]} */ ([`custom_fields.${f}`, f]))] : [];
  const place = (/** @type {import('../parts/template.js').Place} */ one, /** @type {number} */ i) =>
    placeField(one, valueOf(i), sources(), set, (state.asked ? faults().places[i] : null) ?? errorIn(state.error, paths(), String(i)));
  /** @param {any} made */
  const chosen = async (made) => {
    await segments.load(signal);
    set(state, 'segment')(made.id);
  };
  const audience = () =>
    audienceField(state, segments.data?.data ?? [], (key) => set(state, key), { error: errorOf('audience'), made: chosen });
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
    view: () => html`<div class="compose"><form class="stack" novalidate onsubmit=${submit(confirm)}>
      ${field({
        label: t('Name'),
        value: state.name,
        input: (v) =>
          noted(() => {
            state.name = v;
          }),
        error: errorOf('name'),
        hint: t('Recipients don’t see this name.'),
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
        error: errorOf('template'),
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
        (v) =>
          changed(() => {
            state.audience = v;
            // Only a segment has contacts whose fields are known.
            if (v !== 'segment') for (const it of state.values) it.from = 'text';
          }),
        { shown: true },
      )}
      ${audience()}
      ${radios(
        t('Start'),
        state.when,
        [
          ['now', t('Now')],
          ['later', t('Later')],
        ],
        (v) =>
          noted(() => {
            state.when = v;
            start.asked = false;
          }),
        { shown: true },
      )}
      ${state.when === 'later' ? start.view({ label: t('Date and time'), error: errorIn(state.error, paths(), 'start'), change: () => noted(() => {}) }) : ''}
      ${formError(state.error, Object.values(paths()).flat())}
      ${formError(templates.error)}
      <div class="row">${button(t('Send test'), test)}<button class="primary" ?disabled=${state.busy}>${t('Send broadcast')}</button></div>
    </form>${previewAside({ template: template(), preview: state.preview, cost: cost() })}</div>`,
  };
}
