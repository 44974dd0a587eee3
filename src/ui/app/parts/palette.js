/** The dialog "Search": pages, contacts, and any id that is pasted. */
import { get } from '../lib/api.js';
import { debounce, on } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { go, inMenu, ROUTES } from '../lib/router.js';
import { can } from '../lib/session.js';
import { dialog, overlay, overlays } from './dialog.js';

/** @typedef {{key: string, title: string, note: string, icon: string, path: string}} Hit */

/** The page of an id, its kind, and the permission to see it. @type {[RegExp, (id: string) => string, string, string?][]} */
const IDS = [
  [/^otp_[0-9a-z]{26}$/, (id) => `/codes/${id}`, 'Code'],
  [/^msg_[0-9a-z]{26}$/, (id) => `/messages/${id}`, 'Message'],
  [/^cnv_[0-9a-z]{26}$/, (id) => `/inbox/${id}`, 'Conversation'],
  [/^brd_[0-9a-z]{26}$/, (id) => `/broadcasts/${id}`, 'Broadcast'],
  [/^con_[0-9a-z]{26}$/, (id) => `/contacts/${id}`, 'Contact'],
  [/^seg_[0-9a-z]{26}$/, (id) => `/segments/${id}`, 'Segment'],
  [/^whk_[0-9a-z]{26}$/, (id) => `/webhooks/${id}`, 'Webhook'],
  [/^evt_[0-9a-z]{26}$/, (id) => `/events?event=${id}`, 'Event'],
  [/^key_[0-9a-z]{26}$/, (id) => `/keys?row=${id}`, 'API key'],
  [/^num_[0-9a-z]{26}$/, (id) => `/settings/numbers/${id}`, 'Number', 'numbers:manage'],
  [/^(usr|inv)_[0-9a-z]{26}$/, (id) => `/settings/people?row=${id}`, 'People', 'people:manage'],
  [/^aud_[0-9a-z]{26}$/, () => '/operator/audit', 'Audit log', 'operator'],
  [/^req_[0-9a-z]{26}$/, (id) => `/requests?request=${id}`, 'Request', 'requests:read'],
  [/^med_[0-9a-z]{26}$/, () => '', 'File', 'inbox:read'],
];

export function openPalette() {
  if (overlays.length) return;
  const state = { text: '', at: 0, contacts: /** @type {Hit[]} */ ([]) };
  const close = overlay(() => view(state, close));
}

const findContacts = debounce(async (state) => {
  const text = state.text;
  if (text.length < 2 || !can('contacts:read')) return;
  try {
    const answer = await get('/v1/contacts', { search: text, limit: 6 });
    if (state.text !== text) return;
    state.contacts = answer.data.map((/** @type {any} */ c) => ({
      key: c.id,
      title: c.name || c.phone || c.id,
      note: c.phone ?? c.email ?? '',
      icon: 'person',
      path: `/contacts/${c.id}`,
    }));
  } catch {
    state.contacts = [];
  }
  refresh();
}, 120);

/** @param {{text: string, contacts: Hit[]}} state @returns {Hit[]} */
function hits(state) {
  const text = state.text.trim().toLowerCase();
  const id = IDS.find(([pattern, , , may]) => pattern.test(text) && (!may || can(may)));
  if (id) return [{ key: text, title: text, note: t(id[2]), icon: 'search', path: id[1](text) }];
  const pages = ROUTES.filter(inMenu)
    .map(({ path, menu: [, title, sign] = ['', '', ''] }) => ({ key: path, title: t(title), note: '', icon: sign, path }))
    .filter((p) => p.title.toLowerCase().includes(text));
  return [...pages.slice(0, text ? 6 : 20), ...(text.length > 1 ? state.contacts : [])];
}

/** @param {{text: string, at: number, contacts: Hit[]}} state @param {() => void} close */
function view(state, close) {
  const found = hits(state);
  state.at = Math.max(0, Math.min(state.at, found.length - 1));
  const open = (/** @type {Hit | undefined} */ hit) => {
    if (!hit) return;
    close();
    if (hit.path) go(hit.path);
    else import('./media-file.js').then((it) => it.openFile(hit.key));
  };
  const keys = on((e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[/** @type {string} */ (e.key)];
    if (step) {
      e.preventDefault();
      state.at = (state.at + step + found.length) % Math.max(1, found.length);
    } else if (e.key === 'Enter' && !e.isComposing) {
      e.preventDefault();
      open(found[state.at]);
    }
  });
  return dialog(
    t('Search'),
    close,
    html`
    <label class="search big">${icon('search')}<input type="search" autofocus role="combobox"
      aria-label=${t('Search pages, contacts or IDs')} aria-expanded="true" aria-controls="hits"
      aria-activedescendant=${found.length ? `hit${state.at}` : null} placeholder=${t('Search pages, contacts or IDs')} .value=${state.text} autocomplete="off"
      oninput=${on((e) => {
        state.text = e.target.value;
        state.at = 0;
        state.contacts = [];
        findContacts(state);
      })} onkeydown=${keys}></label>
    <ul id="hits" class="hits" role="listbox" aria-label=${t('Search results')}>${found.map(
      (hit, i) => html`<li key=${hit.key} id=${`hit${i}`} role="option" aria-selected=${i === state.at}
      onclick=${() => open(hit)}>${icon(hit.icon)}<span>${hit.title}</span><span class="muted">${hit.note}</span></li>`,
    )}</ul>
    ${found.length ? '' : html`<p class="muted pad">${t('Nothing found')}</p>`}`,
    { kind: 'palette' },
  );
}
