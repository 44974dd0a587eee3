/**
 * A table of very many rows: only those in sight are in the document. Pages are fetched as they
 * come into sight, and requests for rows that were scrolled past are aborted.
 */
import { get } from '../lib/api.js';
import { on } from '../lib/dom.js';
import { html, refresh } from '../lib/render.js';
import { problem } from './empty.js';

const PAGE = 50;
const PAGES = 40;
const OVER = 6;
/** Browsers bound an element's height; above it the scroll is scaled. */
const TALLEST = 8_000_000;

/** @template T */
export class VirtualList {
  /** @param {{path: string, query: () => Record<string, unknown>, id: (row: T) => string, rowHeight?: number}} options */
  constructor(options) {
    this.options = options;
    /** @type {Map<number, T[]>} */
    this.pages = new Map();
    /** @type {Map<number, AbortController>} */
    this.asked = new Map();
    this.total = 0;
    this.loaded = false;
    /** @type {any} */
    this.error = null;
    this.top = 0;
    this.height = 600;
    this.turn = 0;
    /** @type {HTMLElement | null} */
    this.box = null;
    this.restore = Number(history.state?.list ?? 0);
  }

  get rowHeight() {
    return (
      this.options.rowHeight ??
      (matchMedia('(max-width: 44rem)').matches ? 80 : document.documentElement.dataset['rows'] ? 40 : 33)
    );
  }

  get full() {
    return Math.min(TALLEST, this.total * this.rowHeight);
  }

  /** The index of the first row in sight. */
  get first() {
    const most = Math.max(1, this.full - this.height);
    const share = Math.min(1, this.top / most);
    const rows = Math.max(0, this.total - this.height / this.rowHeight);
    return this.full < TALLEST ? this.top / this.rowHeight : share * rows;
  }

  /** @param {AbortSignal} [signal] */
  async load(signal) {
    this.turn++;
    this.asked.forEach((c) => c.abort());
    this.asked.clear();
    const before = this.pages;
    this.pages = new Map();
    const from = this.loaded ? Math.floor(this.first / PAGE) : Math.floor(this.restore / this.rowHeight / PAGE);
    // The shown rows stay until the new ones have come.
    this.stale = before;
    await this.take(from + 1, signal);
    // More than one page may be in sight.
    if (!this.error) await this.ask();
    this.stale = undefined;
    refresh();
  }

  /** @param {number} page from 1 @param {AbortSignal} [signal] */
  async take(page, signal) {
    if (this.pages.has(page) || this.asked.has(page)) return;
    const turn = this.turn;
    const stop = new AbortController();
    signal?.addEventListener('abort', () => stop.abort());
    this.asked.set(page, stop);
    try {
      const answer = await get(this.options.path, { ...this.options.query(), page, limit: PAGE }, stop.signal);
      if (turn !== this.turn) return;
      this.total = answer.total;
      this.pages.set(page, answer.data);
      if (this.pages.size > PAGES) this.pages.delete(/** @type {number} */ (this.pages.keys().next().value));
      [this.error, this.loaded] = [null, true];
    } catch (error) {
      if (!stop.signal.aborted && turn === this.turn) this.error = error;
    } finally {
      if (this.asked.get(page) === stop) this.asked.delete(page);
    }
    refresh();
  }

  /** @param {number} at @returns {T | undefined} */
  row(at) {
    const page = Math.floor(at / PAGE) + 1;
    return (this.pages.get(page) ?? this.stale?.get(page))?.[at % PAGE];
  }

  /** @type {Map<number, T[]> | undefined} */
  stale;

  async ask() {
    const from = Math.floor(Math.max(0, this.first - OVER) / PAGE) + 1;
    const to = Math.floor(Math.min(this.total - 1, this.first + this.height / this.rowHeight + OVER) / PAGE) + 1;
    for (const [page, stop] of this.asked) {
      if ((page >= from && page <= to) || !this.loaded) continue;
      stop.abort();
      // It may come into sight again at once.
      this.asked.delete(page);
    }
    await Promise.all(Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => this.take(from + i)));
  }

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  soon;

  scrolled() {
    if (!this.box) return;
    this.top = this.box.scrollTop;
    clearTimeout(this.soon);
    this.soon = setTimeout(() => {
      this.ask();
      history.replaceState({ ...history.state, list: this.top }, '');
    }, 30);
  }

  /** @param {HTMLElement | null} node */
  attach = (node) => {
    this.box = node;
    if (!node) return;
    const size = () => {
      this.height = node.clientHeight || 600;
      refresh();
    };
    new ResizeObserver(size).observe(node);
    requestAnimationFrame(() => {
      if (this.restore) node.scrollTop = this.restore;
    });
  };

  /** @param {any} e */
  keys = (e) => {
    const far = {
      Home: -1e12,
      End: 1e12,
      PageUp: -(this.height - this.rowHeight),
      PageDown: this.height - this.rowHeight,
    }[/** @type {string} */ (e.key)];
    if (far === undefined || e.target !== e.currentTarget || !this.box) return;
    e.preventDefault();
    this.box.scrollTop += far;
  };

  /**
   * @param {{label: string, columns: {name: string, cell: (row: T) => unknown,
   *   kind?: string}[], href: (row: T) => string, lead?: (row: T) => unknown, selected?: (row: T) => boolean}} table
   */
  view({ label, columns, href, lead, selected }) {
    const from = Math.max(0, Math.floor(this.first) - OVER);
    const count = Math.min(60, Math.ceil(this.height / this.rowHeight) + 2 * OVER, Math.max(0, this.total - from));
    const shift = this.full < TALLEST ? from * this.rowHeight : this.top - (this.first - from) * this.rowHeight;
    const at = Array.from({ length: count }, (_, i) => from + i);
    return html`${this.error ? problem(this.error, () => this.load()) : ''}
      <div class="virtual" role="table" aria-label=${label} aria-rowcount=${this.total + 1} tabindex="0" ref=${this.attach}
        onscroll=${on(() => this.scrolled())} onkeydown=${on(this.keys)}>
        <div role="rowgroup" class="virtual-head"><div role="row" aria-rowindex="1" class="virtual-row">${lead ? html`<span
          role="cell" class="lead"></span>` : ''}${columns.map((c) => html`<span key=${c.name} role="columnheader"
          class=${c.kind ?? null}>${c.name}</span>`)}</div></div>
        <div role="rowgroup" class="virtual-body" style=${{ 'block-size': `${this.full}px` }}><div class="virtual-shift"
          role="presentation" style=${{ translate: `0 ${shift}px` }}>
          ${at.map((i) => {
            const row = this.row(i);
            return html`<div key=${i} role="row" aria-rowindex=${i + 2} class=${`virtual-row ${row && selected?.(row) ? 'selected'
              : ''}`} style=${{ 'block-size': `${this.rowHeight}px` }}>
              ${lead ? html`<span role="cell" class="lead">${row ? lead(row) : ''}</span>` : ''}
              ${columns.map((c, n) => html`<span key=${c.name} role="cell" class=${c.kind ?? null}>${!row ? html`<i class="wait">
                </i>` : n === 0 ? html`<a class="row-link one-line" dir="auto" href=${href(row)}>${c.cell(row)}</a>` : c.cell(row)}</span>`)}</div>`;
          })}</div></div></div>`;
  }
}
