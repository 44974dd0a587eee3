/**
 * A worker that reads a CSV file piece by piece, never holding it whole: quotes, line breaks in
 * quotes, a byte order mark, `,` `;` or tab, UTF-8, UTF-16 or Latin-1.
 *
 * Its messages are {file} for the head, {count} for all rows and the file's hash, {check, how} for the rows
 * that are surely wrong, and {rows, from, size, how} for batches: one body of a call for each {next}, and {answer, at} for its result.
 */
import { checker } from './check.js';
import { bodyOf, outcomeOf, toContact } from './rows.js';

/** @import { How, Refused, Rewritten, Row } from './rows.js' */

/** @param {Uint8Array} head @returns {string} */
function encodingOf(head) {
  if (head[0] === 0xff && head[1] === 0xfe) return 'utf-16le';
  if (head[0] === 0xfe && head[1] === 0xff) return 'utf-16be';
  try {
    // The last character may be cut: leave it to the stream.
    new TextDecoder('utf-8', { fatal: true }).decode(head, { stream: true });
    return 'utf-8';
  } catch {
    return 'windows-1252';
  }
}

/** Returns the most frequent separator of the first line. @param {string} text */
function separatorOf(text) {
  const line = (text.split(/\r?\n/, 1)[0] ?? '').replace(/"[^"]*"/g, '');
  const found = [',', ';', '\t'].map((s) => /** @type {[string, number]} */ ([s, line.split(s).length]));
  return (found.sort((a, b) => b[1] - a[1])[0] ?? [','])[0];
}

/** Parses the cells of a text that comes in pieces. */
class Parser {
  /** @param {string} separator */
  constructor(separator) {
    this.separator = separator;
    this.line = 1;
    this.started = 1;
    this.cell = '';
    /** @type {string[]} */
    this.cells = [];
    this.quoted = false;
    this.quote = false;
    this.last = '';
  }

  /** @param {string} text @param {(row: Row) => void} out */
  push(text, out) {
    for (let i = 0; i < text.length; i++) {
      const c = text[i] ?? '';
      if (c === '\n' && this.last !== '\r') this.line++;
      else if (c === '\r') this.line++;
      if (this.quoted) {
        if (this.quote) {
          this.quote = false;
          if (c === '"') {
            this.cell += '"';
            this.last = c;
            continue;
          }
          this.quoted = false;
        } else {
          if (c === '"') this.quote = true;
          else this.cell += c;
          this.last = c;
          continue;
        }
      }
      if (c === '"' && this.cell === '') this.quoted = true;
      else if (c === this.separator) (this.cells.push(this.cell), (this.cell = ''));
      else if (c === '\n' || c === '\r') {
        if (!(c === '\n' && this.last === '\r')) this.end(out);
      } else this.cell += c;
      this.last = c;
    }
  }

  /** @param {(row: Row) => void} out */
  end(out) {
    this.cells.push(this.cell);
    const row = { line: this.started, cells: this.cells };
    this.cell = '';
    this.cells = [];
    this.started = this.line;
    if (row.cells.length > 1 || row.cells[0] !== '') out(row);
  }
}

/** @param {File} file @param {(rows: Row[]) => Promise<boolean> | boolean} take says whether to go on @param {(bytes: Uint8Array) => void} [seen] */
async function read(file, take, seen) {
  const head = new Uint8Array(await file.slice(0, 65_536).arrayBuffer());
  const encoding = encodingOf(head);
  const parser = new Parser(separatorOf(new TextDecoder(encoding).decode(head)));
  const decoder = new TextDecoder(encoding);
  const reader = file.stream().getReader();
  /** @type {Row[]} */
  let rows = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (value) seen?.(value);
    parser.push(value ? decoder.decode(value, { stream: true }) : decoder.decode(), (row) => rows.push(row));
    if (done && (parser.cell !== '' || parser.cells.length)) parser.end((row) => rows.push(row));
    if (!(await take(rows)) || done) break;
    rows = [];
  }
  reader.cancel().catch(() => {});
}

/** Two sums of 32 bits over all bytes; it distinguishes files, but is not secure. */
class Hash {
  a = 0x811c9dc5;
  b = 0x1b873593;
  size = 0;
  /** @param {Uint8Array} bytes */
  add(bytes) {
    for (const byte of bytes) {
      this.a = Math.imul(this.a ^ byte, 0x01000193);
      this.b = Math.imul(this.b ^ (byte + 1), 0x85ebca6b) ^ (this.b >>> 13);
    }
    this.size += bytes.length;
  }

  text() {
    return [this.a, this.b, this.size].map((n) => (n >>> 0).toString(16)).join('-');
  }
}

/** @type {(() => void) | null} */
let next = null;
/** @param {unknown} message */
const post = (message) => /** @type {any} */ (self).postMessage(message);

/** @param {File} file */
async function head(file) {
  /** @type {Row[]} */
  const first = [];
  await read(file, (rows) => {
    first.push(...rows.slice(0, 8));
    return first.length < 8;
  });
  post({ head: first[0]?.cells ?? [], sample: first.slice(1, 6) });
}

/** @param {File} file */
async function count(file) {
  const hash = new Hash();
  let rows = -1;
  await read(
    file,
    (some) => {
      rows += some.length;
      return true;
    },
    (bytes) => hash.add(bytes),
  );
  post({ hash: hash.text(), rows: Math.max(0, rows) });
}

/** The maximum number of rewritten phones that are shown: enough to judge a file. */
const REWRITTEN_SHOWN = 100;

/** Finds the rows that would be refused and the phones that would be rewritten, and sends nothing.
 * @param {File} file @param {How} how */
async function check(file, how) {
  const { meanings, head: names } = how;
  const look = checker(how.conflict);
  const phone = meanings.indexOf('phone');
  /** @type {Rewritten[]} */
  const rewritten = [];
  let rewrites = 0;
  /** @type {Refused[]} */
  const refused = [];
  let rows = -1;
  await read(file, (some) => {
    for (const { line, cells } of some) {
      rows++;
      if (rows === 0) continue;
      const { contact, wrong: unread } = toContact(cells, how);
      const wrong = unread ?? look(contact);
      const [written = '', sent = ''] = [cells[phone], contact.phone];
      if (!wrong && sent && sent !== written && ++rewrites <= REWRITTEN_SHOWN) rewritten.push({ row: line, written, sent });
      if (!wrong) continue;
      const at = meanings.findIndex((it) => it === wrong.column);
      const value = unread?.value ?? cells[at] ?? '';
      refused.push({ row: line, column: names[at] ?? wrong.column, value, reason: wrong.reason, cells });
    }
    return true;
  });
  post({ checked: refused, rewritten, rewrites });
}

/** The batches that wait for their answer, by the number of rows before them.
 * @type {Map<number, {sent: Row[], refused: Refused[], how: How}>} */
const flying = new Map();

/** @param {File} file @param {number} from the number of rows that are done @param {number} size @param {How} how */
async function batches(file, from, size, how) {
  let at = -1;
  /** @type {Row[]} */
  let rows = [];
  const send = async () => {
    const before = at - rows.length;
    const { sent, refused, body } = bodyOf(rows, how);
    flying.set(before, { sent, refused, how });
    const line = rows[0]?.line ?? 0;
    rows = [];
    await new Promise((go) => {
      next = () => go(undefined);
      post({ body, line, at: before });
    });
  };
  await read(file, async (some) => {
    for (const row of some) {
      if (at >= from) rows.push(row);
      at++;
      if (rows.length === size) await send();
    }
    return true;
  });
  if (rows.length) await send();
  post({ end: true });
}

/** @param {string} answer empty where nothing was sent @param {number} at */
function settle(answer, at) {
  const batch = flying.get(at);
  if (!batch) return;
  flying.delete(at);
  const { imported, skipped, refused } = outcomeOf(answer || '{"data": []}', batch.sent, batch.how);
  post({ settled: at, imported, skipped, refused: [...batch.refused, ...refused] });
}

addEventListener('message', ({ data }) => {
  if (data.next) next?.();
  else if (data.answer !== undefined) settle(data.answer, data.at);
  else if (data.count) count(data.count).catch((error) => post({ error: String(error) }));
  else if (data.check) check(data.check, data.how).catch((error) => post({ error: String(error) }));
  else if (data.rows)
    batches(data.rows, data.from, data.size, data.how).catch((error) => post({ error: String(error) }));
  else if (data.file) head(data.file).catch((error) => post({ error: String(error) }));
});
