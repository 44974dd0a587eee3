/** What a page has fetched: one thing, or rows that grow by a cursor or a page. */
import { get } from './api.js';
import { refresh } from './render.js';

const MOST = 5000;

/**
 * One answer of the interface.
 * @template T
 */
export class Resource {
  /** @param {(signal?: AbortSignal) => Promise<T>} load */
  constructor(load) {
    this.fetch = load;
    /** @type {T | null} */
    this.data = null;
    /** @type {any} */
    this.error = null;
    this.loading = false;
    this.turn = 0;
  }

  /** The last call wins, whatever the order of the answers. @param {AbortSignal} [signal] */
  async load(signal) {
    const turn = ++this.turn;
    this.loading = true;
    try {
      const data = await this.fetch(signal);
      if (turn !== this.turn) return;
      [this.data, this.error] = [data, null];
    } catch (error) {
      if (turn === this.turn && !signal?.aborted) this.error = error;
    }
    if (turn === this.turn) this.loading = false;
    refresh();
  }
}

/**
 * Rows of a list of the interface, by cursor or by page.
 * @template T
 */
export class Rows {
  /** @param {string} path @param {() => Record<string, unknown>} query @param {(row: T) => string} id */
  constructor(path, query, id) {
    this.path = path;
    this.query = query;
    this.id = id;
    /** @type {T[]} */
    this.rows = [];
    /** @type {any} */
    this.error = null;
    this.loading = true;
    this.loaded = false;
    this.total = 0;
    /** @type {string | null} */
    this.cursor = null;
    this.page = 1;
    this.turn = 0;
    this.size = 50;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.soon = undefined;
  }

  /** The first rows anew. @param {AbortSignal} [signal] */
  load(signal) {
    return this.take({}, signal, (answer) => {
      this.rows = answer.data;
      this.page = 1;
    });
  }

  get more() {
    return this.cursor !== null || this.rows.length < this.total;
  }

  /** @param {AbortSignal} [signal] */
  loadMore(signal) {
    const next = this.cursor !== null ? { cursor: this.cursor } : { page: this.page + 1 };
    return this.take(next, signal, (answer) => {
      const known = new Set(this.rows.map(this.id));
      this.rows = [...this.rows, ...answer.data.filter((/** @type {T} */ row) => !known.has(this.id(row)))].slice(
        0,
        MOST,
      );
      this.page += 1;
    });
  }

  /** @param {object} next @param {AbortSignal | undefined} signal @param {(answer: any) => void} apply */
  async take(next, signal, apply) {
    const turn = ++this.turn;
    this.loading = true;
    try {
      const answer = await get(this.path, { limit: this.size, ...this.query(), ...next }, signal);
      if (turn !== this.turn) return;
      apply(answer);
      this.total = answer.total ?? 0;
      this.cursor = answer.next_cursor ?? null;
      this.error = null;
      this.loaded = true;
    } catch (error) {
      if (turn !== this.turn || signal?.aborted) return;
      this.error = error;
    }
    this.loading = false;
    refresh();
  }

  /** Fetches the first rows again, once for a burst of events. @param {number} [wait] */
  refetch(wait = 120) {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.turnOver(), wait);
  }

  async turnOver() {
    const kept = this.rows.slice(this.size);
    await this.load();
    const known = new Set(this.rows.map(this.id));
    this.rows = [...this.rows, ...kept.filter((row) => !known.has(this.id(row)))];
    refresh();
  }

  /** @param {string} id @param {Partial<T>} change @returns {boolean} whether the row is known */
  change(id, change) {
    const at = this.rows.findIndex((row) => this.id(row) === id);
    const row = this.rows[at];
    if (row === undefined) return false;
    this.rows[at] = { ...row, ...change };
    refresh();
    return true;
  }

  /** @param {string} id */
  drop(id) {
    this.rows = this.rows.filter((row) => this.id(row) !== id);
    this.total = Math.max(0, this.total - 1);
    refresh();
  }
}
