/** Icons: strokes in a square of 16, drawn here. They say nothing to a screen reader. */
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
    'M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z M1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4 M10.5 2.8a2.5 2.5 0 0 1 0 4.4 M12 9.8c1.6.5 2.5 1.800 2.500 3.700',
  segments: 'M8 2a6 6 0 1 0 6 6H8z M10.500 1.800a6 6 0 0 1 3.700 3.700h-3.700z',
  import: 'M8 2v7.500 M5 6.500l3 3 3-3 M2.500 10.500v3h11v-3',
  template: 'M2.500 2.500h11v11h-11z M2.500 6h11 M6 6v7.500',
  events: 'M1.500 8h3l2-5 3 10 2-5h3',
  webhook:
    'M5.500 9.500 8 5 M8 5a2 2 0 1 0-2-2 M10.500 11.500H5.500 M5.500 11.500a2 2 0 1 1-2-2 M8 5l2.700 4.700 M10.500 9.800a2 2 0 1 1 0 3.500',
  key: 'M5.500 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6z M8.500 8h6 M12.500 8v2.500',
  requests: 'M2 4h9 M8.500 1.500 11 4 8.500 6.500 M14 12H5 M7.500 9.500 5 12l2.500 2.500',
  explorer: 'M5 4.500 1.500 8 5 11.500 M11 4.500 14.500 8 11 11.500 M9.500 2.500l-3 11',
  analytics: 'M2 13.500h12 M4 11V8 M8 11V3 M12 11V5.500',
  settings:
    'M2 4.500h6 M11.500 4.500H14 M2 11.500h2.500 M8 11.500h6 M9.700 6.200a1.700 1.700 0 1 0 0-3.400 1.700 1.700 0 0 0 0 3.400z M6.200 13.200a1.700 1.700 0 1 0 0-3.400 1.700 1.700 0 0 0 0 3.400z',
  operator: 'M2 2.500h12v4H2z M2 9.500h12v4H2z M4.500 4.500h.01 M4.500 11.500h.01',
  search: 'M7 12a5 5 0 1 0 0-10 5 5 0 0 0 0 10z M10.700 10.700 14 14',
  menu: 'M2 4h12 M2 8h12 M2 12h12',
  close: 'M3.500 3.500l9 9 M12.500 3.500l-9 9',
  check: 'M3 8.500 6.500 12 13 4.500',
  double: 'M1.500 8.500 4.500 12 9 4.500 M8 11.500l.5.500L14 4.500',
  cross: 'M4 4l8 8 M12 4l-8 8',
  clock: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z M8 4.500V8l2.500 1.500',
  dot: 'M8 10.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5z',
  warning: 'M8 2 14.500 13.500h-13z M8 6.500v3 M8 11.500h.01',
  pause: 'M5 3v10 M11 3v10',
  play: 'M4.500 3v10l8-5z',
  stop: 'M4 4h8v8H4z',
  copy: 'M5.500 5.500h8v8h-8z M10.500 5.500v-3h-8v8h3',
  plus: 'M8 3v10 M3 8h10',
  person: 'M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6z M2.500 14c0-3 2.500-4.500 5.500-4.500s5.500 1.500 5.500 4.500',
  question: 'M6 6a2 2 0 1 1 3 1.800c-.7.400-1 .8-1 1.700 M8 12h.01',
  send: 'M14 2 7 9 M14 2 9.500 14 7 9 2 6.500z',
  upload: 'M8 10V2.500 M5 5.500l3-3 3 3 M2.500 10.500v3h11v-3',
  filter: 'M2 3.500h12 M4.500 8h7 M7 12.500h2',
  chevron: 'M6 3.500 10.500 8 6 12.500',
  refresh: 'M13 3v3.500H9.500 M13 6.500A5.500 5.500 0 1 0 13.500 9',
  out: 'M6 2.500H2.500v11H6 M10 5l3 3-3 3 M13 8H6',
};

/** @param {string} name */
export const icon = (
  name,
) => html`<svg class=${`icon icon-${name}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
  <path d=${PATHS[name] ?? PATHS['dot']} /></svg>`;
