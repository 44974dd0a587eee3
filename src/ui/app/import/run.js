/**
 * An import: batches of a thousand, two in flight, each with a key of its own. Its position is kept
 * in the browser under the file's hash: after a reload the same file continues, and no contact is made twice.
 */
import { ApiError, call } from '../lib/api.js';
import { refresh } from '../lib/render.js';
import { t } from '../lib/i18n.js';
import { inWords } from './map.js';
import { countries, loadCountries } from './countries.js';
import { loadPlace, savePlace } from './place.js';

/** @import { How, Meaning, Refused, Rewritten, Row } from './rows.js' */

const SIZE = 1000;
const FLIGHT = 2;
/** The script of `csv.js` and all that it imports. */
const ADDRESS = new URL('../worker.js', import.meta.url).href;

/** @type {any} */
let policy = null;

/** The one policy of Trusted Types: it permits exactly this worker. */
function workerAddress() {
  const types = /** @type {any} */ (globalThis).trustedTypes;
  policy ??= types?.createPolicy('postrider-worker', {
    createScriptURL: (/** @type {string} */ address) => {
      if (address !== ADDRESS) throw new TypeError('only the importer’s worker');
      return address;
    },
  });
  return policy ? policy.createScriptURL(ADDRESS) : ADDRESS;
}

export class Import {
  /** @param {File} file */
  constructor(file) {
    this.file = file;
    this.worker = new Worker(workerAddress(), { type: 'module' });
    /** @type {string[]} */
    this.head = [];
    /** @type {Row[]} */
    this.sample = [];
    /** @type {Meaning[]} */
    this.meanings = [];
    this.conflict = 'refuse';
    /** The country of phones without a calling code. */
    this.country = '';
    this.hash = '';
    this.rows = 0;
    this.done = 0;
    this.imported = 0;
    this.skipped = 0;
    /** @type {Refused[]} */
    this.refused = [];
    /** The faults from a check of all rows, until another meaning is chosen. @type {Refused[] | null} */
    this.checked = null;
    /** The first phones that are sent in another form, and the number of all. @type {Rewritten[]} */
    this.rewritten = [];
    this.rewrites = 0;
    this.checking = false;
    /** @type {'read' | 'ready' | 'running' | 'paused' | 'done' | 'failed'} */
    this.state = 'read';
    /** @type {any} */
    this.error = null;
    this.waiting = 0;
    /** @type {Set<number>} the first rows of batches that are done ahead of others */
    this.ahead = new Set();
  }

  /** @param {unknown} message @param {(data: any) => boolean} until @returns {Promise<any>} */
  ask(message, until) {
    return new Promise((done, fail) => {
      const heard = (/** @type {MessageEvent} */ { data }) => {
        if (data.error) fail(new Error(data.error));
        else if (!until(data)) return;
        else done(data);
        this.worker.removeEventListener('message', heard);
      };
      this.worker.addEventListener('message', heard);
      this.worker.postMessage(message);
    });
  }

  async readHead() {
    const [{ head, sample }] = await Promise.all([this.ask({ file: this.file }, (d) => 'head' in d), loadCountries()]);
    Object.assign(this, { head, sample });
  }

  /** Counts the rows and finds an earlier start of this file. */
  async count() {
    const { hash, rows } = await this.ask({ count: this.file }, (d) => 'hash' in d);
    Object.assign(this, { hash, rows, state: 'ready' });
    const place = await loadPlace(hash);
    if (place) {
      const { done, imported, skipped, refused, meanings, conflict, country = '' } = place;
      Object.assign(this, {
        done,
        imported,
        skipped,
        refused,
        meanings,
        conflict,
        country,
        state: done >= rows ? 'done' : 'paused',
      });
    }
    refresh();
  }

  /** The meanings of the cells, and the choices for the rows. @returns {How} */
  get how() {
    const { meanings, head, conflict, country } = this;
    return { meanings, head, conflict, country, countries };
  }

  /** Checks all rows of the file, and sends nothing. */
  async check() {
    if (this.checking) return;
    [this.checking, this.checked] = [true, null];
    const marked = () => JSON.stringify([this.meanings, this.conflict, this.country]);
    const mark = marked();
    try {
      const { checked, rewritten, rewrites } = await this.ask({ check: this.file, how: this.how }, (d) => 'checked' in d);
      const found = checked.map((/** @type {Refused} */ r) => ({ ...r, reason: inWords(r.reason) }));
      if (mark === marked()) Object.assign(this, { checked: found, rewritten, rewrites });
    } catch (error) {
      this.error = error;
    }
    this.checking = false;
    refresh();
  }

  pause() {
    this.state = 'paused';
  }

  /** Runs from the position on, until the end, a pause or a refusal. */
  async run() {
    if (this.state === 'running') return;
    this.state = 'running';
    this.error = this.checked = null;
    this.worker.terminate();
    this.worker = new Worker(workerAddress(), { type: 'module' });
    const worker = this.worker;
    const from = this.done;
    this.ahead.clear();
    let flying = 0;
    let ended = false;
    /** @type {Map<number, (outcome: any) => void>} */
    const settled = new Map();
    await new Promise((finish) => {
      const more = () => {
        if (worker !== this.worker) return;
        if (this.state !== 'running' || (ended && flying === 0)) {
          if (flying === 0) finish(undefined);
        } else if (flying < FLIGHT && !ended) worker.postMessage({ next: true });
      };
      worker.onmessage = async ({ data }) => {
        if (data.error) {
          [this.state, this.error] = ['failed', new Error(data.error)];
          finish(undefined);
          return;
        }
        if (data.settled !== undefined) {
          settled.get(data.settled)?.(data);
          return;
        }
        if (data.end) {
          ended = true;
          more();
          return;
        }
        flying++;
        if (flying < FLIGHT) more();
        try {
          if (this.state === 'running') {
            const answer = await this.send(data.body, data.line);
            worker.postMessage({ answer, at: data.at });
            this.take(await new Promise((done) => settled.set(data.at, done)));
            await this.mark(data.at);
          }
        } catch (error) {
          [this.state, this.error] = [/** @type {any} */ (error).paused ? 'paused' : 'failed', error];
        }
        flying--;
        refresh();
        more();
      };
      worker.postMessage({ rows: this.file, from, size: SIZE, how: this.how });
    });
    if (this.state === 'running') this.state = 'done';
    refresh();
  }

  /** @param {string} body @param {number} line the first of the batch @returns {Promise<string>} the answer's text */
  async send(body, line) {
    if (!body) return '';
    const map = [...this.meanings, this.country]
      .join('|')
      .split('')
      .reduce((sum, c) => (Math.imul(sum, 31) + c.charCodeAt(0)) >>> 0, 7)
      .toString(16);
    const key = `import-${this.hash}-${map}-${this.conflict}-${line}`;
    return this.insist(() => call('POST', '/v1/contacts/batch', { text: body, raw: true, key, quiet: true }));
  }

  /** @param {{imported: number, skipped: number, refused: Refused[]}} outcome */
  take({ imported, skipped, refused }) {
    this.imported += imported;
    this.skipped += skipped;
    if (!refused.length) return;
    this.refused.push(...refused.map((r) => ({ ...r, reason: inWords(r.reason) })));
    this.refused.sort((a, b) => a.row - b.row);
  }

  /** @param {number} at the rows before a batch that is done */
  async mark(at) {
    this.ahead.add(at);
    while (this.ahead.delete(this.done)) this.done = Math.min(this.rows, this.done + SIZE);
    // Saved only if all rows before it are done: a batch in flight is resent with the same key.
    if (this.ahead.size === 0) await this.save();
  }

  /** Repeats a call, with the pauses that the server asks for. @param {() => Promise<any>} send */
  async insist(send) {
    for (let i = 0; ; i++) {
      try {
        return await send();
      } catch (error) {
        const passing = error instanceof ApiError && [0, 429, 503].includes(error.status);
        if (!passing || (i > 60 && error.status !== 429)) throw error;
        const seconds = Math.max(error.wait, Math.min(5, 0.5 * (i + 1)));
        this.waiting = Date.now() + seconds * 1000;
        refresh();
        await new Promise((go) => setTimeout(go, seconds * 1000));
        this.waiting = 0;
        if (this.state === 'paused') throw Object.assign(new Error(t('Paused')), { paused: true });
      }
    }
  }

  save() {
    const { hash, done, imported, skipped, refused, meanings, conflict, country } = this;
    return savePlace(hash, { done, imported, skipped, refused, meanings, conflict, country });
  }

  close() {
    this.worker.terminate();
  }
}
