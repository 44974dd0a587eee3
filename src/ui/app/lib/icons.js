/** Icons: strokes in a square of 16, drawn here. Screen readers ignore them. */
import { html } from './render.js';

/** @type {Record<string, string>} */
const PATHS = {
  home: 'M2.5 7 8 2.5 13.5 7v6.5h-4V10h-3v3.5h-4z',
  phone: 'M4.5 1.5h7v13h-7z M7 12.5h2',
  code: 'M2 5.5h12v5H2z M5 8h.01 M8 8h.01 M11 8h.01',
  message: 'M2 3h12v8H7l-3 2.5V11H2z',
  inbox: 'M2 9.5 4 3h8l2 6.5v3.5H2z M2 9.5h3.5l1 1.5h3l1-1.5H14',
  broadcast: 'M2.5 6.5v3H5l5 3.5V3L5 6.5z M12.5 5.5a3.5 3.5 0 0 1 0 5',
  contacts:
    'M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z M1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4 M10.5 2.8a2.5 2.5 0 0 1 0 4.4 M12 9.8c1.6.5 2.5 1.8 2.5 3.7',
  segments: 'M8 2a6 6 0 1 0 6 6H8z M10.5 1.8a6 6 0 0 1 3.7 3.7h-3.7z',
  import: 'M8 2v7.5 M5 6.5l3 3 3-3 M2.5 10.5v3h11v-3',
  template: 'M2.5 2.5h11v11h-11z M2.5 6h11 M6 6v7.5',
  events: 'M1.5 8h3l2-5 3 10 2-5h3',
  webhook:
    'M5.5 9.5 8 5 M8 5a2 2 0 1 0-2-2 M10.5 11.5H5.5 M5.5 11.5a2 2 0 1 1-2-2 M8 5l2.7 4.7 M10.5 9.8a2 2 0 1 1 0 3.5',
  key: 'M5.5 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6z M8.5 8h6 M12.5 8v2.5',
  requests: 'M2 4h9 M8.5 1.5 11 4 8.5 6.5 M14 12H5 M7.5 9.5 5 12l2.5 2.5',
  explorer: 'M5 4.5 1.5 8 5 11.5 M11 4.5 14.5 8 11 11.5 M9.5 2.5l-3 11',
  analytics: 'M2 13.5h12 M4 11V8 M8 11V3 M12 11V5.5',
  settings:
    'M2 4.5h6 M11.5 4.5H14 M2 11.5h2.5 M8 11.5h6 M9.7 6.2a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4z M6.2 13.2a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4z',
  operator: 'M2 2.5h12v4H2z M2 9.5h12v4H2z M4.5 4.5h.01 M4.5 11.5h.01',
  search: 'M7 12a5 5 0 1 0 0-10 5 5 0 0 0 0 10z M10.7 10.7 14 14',
  menu: 'M2 4h12 M2 8h12 M2 12h12',
  close: 'M3.5 3.5l9 9 M12.5 3.5l-9 9',
  check: 'M3 8.5 6.5 12 13 4.5',
  double: 'M1.5 8.5 4.5 12 9 4.5 M8 11.5l.5.5L14 4.5',
  cross: 'M4 4l8 8 M12 4l-8 8',
  clock: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z M8 4.5V8l2.5 1.5',
  dot: 'M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z',
  warning: 'M8 2 14.5 13.5h-13z M8 6.5v3 M8 11.5h.01',
  pause: 'M5 3v10 M11 3v10',
  play: 'M4.5 3v10l8-5z',
  stop: 'M4 4h8v8H4z',
  copy: 'M5.5 5.5h8v8h-8z M10.5 5.5v-3h-8v8h3',
  plus: 'M8 3v10 M3 8h10',
  person: 'M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6z M2.5 14c0-3 2.5-4.5 5.5-4.5s5.5 1.5 5.5 4.5',
  question: 'M6 6a2 2 0 1 1 3 1.8c-.7.4-1 .8-1 1.7 M8 12h.01',
  send: 'M14 2 7 9 M14 2 9.5 14 7 9 2 6.5z',
  upload: 'M8 10V2.5 M5 5.5l3-3 3 3 M2.5 10.5v3h11v-3',
  filter: 'M2 3.5h12 M4.5 8h7 M7 12.5h2',
  chevron: 'M6 3.5 10.5 8 6 12.5',
  refresh: 'M13 3v3.5H9.5 M13 6.5A5.5 5.5 0 1 0 13.5 9',
  out: 'M6 2.5H2.5v11H6 M10 5l3 3-3 3 M13 8H6',
};

/** @param {string} name */
export const icon = (
  name,
) => html`<svg class=${`icon icon-${name}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
  <path d=${PATHS[name] ?? PATHS['dot']} /></svg>`;
