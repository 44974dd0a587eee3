/** The fetched data of a page: one resource, or rows that grow by a cursor or a page. */
import { found } from './api.js';
import { paced } from './dom.js';
import { refresh } from './render.js';

const MOST = 5000;
/** The maximum number of rows that are fetched again after a change. */
const ANEW = 200;

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

  /** Loads it. The last call wins, in any order of the answers. @param {AbortSignal} [signal] */
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
    /** Returns whether new rows wait, such as in a scrolled list; then `fresh` is their number. */
    this.held = () => false;
    this.fresh = 0;
    /** Set while the rows are fetched again; then set if something has changed since. */
    this.turning = false;
    this.missed = false;
    /** Fetches the rows again, once for a burst of events. */
    this.refetch = paced(() => this.turnOver());
  }

  /** Loads the first rows again. @param {AbortSignal} [signal] */
  load(signal) {
    return this.take({}, signal, (answer) => {
      this.rows = answer.data;
      [this.page, this.fresh] = [1, 0];
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
      const answer = await found(this.path, { limit: this.size, ...this.query(), ...next }, signal);
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

  /** Refreshes the rows: only the first ones, in their places, while new ones wait. */
  async turnOver() {
    this.missed = this.turning;
    if (this.turning) return;
    this.turning = true;
    await (this.held() ? this.loadBeside() : this.loadAgain());
    this.turning = false;
    if (this.missed) this.refetch();
  }

  async loadBeside() {
    const { rows: kept, cursor, page } = this;
    await this.load();
    if (this.error || !kept.length) return;
    const first = new Map(this.rows.map((row) => [this.id(row), row]));
    const known = new Set(kept.map(this.id));
    this.fresh = this.rows.filter((row) => !known.has(this.id(row))).length;
    this.rows = kept.map((row) => first.get(this.id(row)) ?? row);
    // The rows after the last one are requested as before.
    if (kept.length > this.size) Object.assign(this, { cursor, page });
    refresh();
  }

  /** Loads as many rows as before: a row that left the first page is on a later one. In a long
   * list the last rows stay, and rows that moved among them come with "more". */
  async loadAgain() {
    const count = Math.min(this.rows.length, ANEW);
    /** @type {Map<string, T>} */
    const rows = new Map();
    let [next, page, isLast] = [{}, 0, false];
    while (!isLast) {
      isLast = true;
      await this.take(next, undefined, (answer) => {
        for (const row of answer.data) rows.set(this.id(row), row);
        page += 1;
        next = answer.next_cursor ? { cursor: answer.next_cursor } : { page: page + 1 };
        isLast = rows.size >= count || !answer.data.length || !(answer.next_cursor || rows.size < (answer.total ?? 0));
        if (!isLast) return;
        const rest = this.rows.slice(ANEW).filter((row) => !rows.has(this.id(row)));
        [this.rows, this.page, this.fresh] = [[...rows.values(), ...rest], page, 0];
      });
    }
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
