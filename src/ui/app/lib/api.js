/**
 * Calls of the interface. Every page's calls are kept for the dialog "API calls"; a call that needs a
 * confirmed sign-in asks for it and is repeated; a session that has ended leads to "Sign in".
 */
import { refresh } from './render.js';

/** @import { Call, Options } from './types.js' */

/** A refusal by the interface, with its own message. */
export class ApiError extends Error {
  /** @param {number} status @param {any} body @param {number} wait seconds */
  constructor(status, body, wait) {
    super(body?.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = String(body?.code ?? '');
    this.reason = String(body?.reason ?? '');
    this.requestId = String(body?.request_id ?? '');
    this.wait = wait;
  }
}

export const context = {
  workspace: '',
  /** @type {Call[]} what the page has called, the newest last */
  calls: [],
  /** @type {() => void} */
  onSignedOut: () => {},
  /** @type {() => Promise<boolean>} opens "Confirm it is you" */
  confirm: async () => false,
  /** @type {(status: number) => void} */
  onStatus: () => {},
};

/** @param {string} path @param {Record<string, unknown>} [query] @returns {string} */
export function withQuery(path, query) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== '') search.set(name, String(value));
  }
  return search.size ? `${path}?${search}` : path;
}

/** @param {string} method @param {string} path @param {Options} [options] @returns {Promise<any>} */
export async function call(method, path, options = {}) {
  const address = withQuery(path, options.query);
  /** @type {Record<string, string>} */
  const headers = { ...options.headers };
  if ((options.text ?? options.body) !== undefined) headers['Content-Type'] = 'application/json';
  if (options.file) headers['Content-Type'] = options.file.type || 'application/octet-stream';
  if (options.key) headers['Idempotency-Key'] = options.key;
  const all = { ...headers };
  if (context.workspace && !path.startsWith('/ui/')) all['Postrider-Workspace'] = context.workspace;
  const init = {
    method,
    headers: all,
    signal: options.signal ?? null,
    body: options.file ?? options.text ?? (options.body === undefined ? null : JSON.stringify(options.body)),
  };
  let answer;
  try {
    answer = await fetch(address, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, { message: 'The server cannot be reached.', code: 'OFFLINE' }, 0);
  }
  const text = await answer.text();
  const raw = options.raw && answer.ok;
  const body = raw && options.quiet ? null : answered(text);
  const sent = options.text ? answered(options.text) : options.body;
  if (!options.quiet)
    keep({ method, path: address, body: sent, headers, status: answer.status, answer: body, at: Date.now() });
  context.onStatus(answer.status);
  if (answer.ok) return raw ? text : body;
  const error = new ApiError(answer.status, body, Number(answer.headers.get('Retry-After') ?? 0));
  if (error.status === 401 && !path.startsWith('/ui/api/session')) context.onSignedOut();
  if (error.reason === 'step_up_required' && (await context.confirm())) return call(method, path, options);
  throw error;
}

/** A whole number too large for JavaScript: it is shown and sent as it was written. */
class Long extends Number {
  #written;
  /** @param {string} written */
  constructor(written) {
    super(written);
    this.#written = written;
  }

  toString() {
    return this.#written;
  }

  toJSON() {
    // A browser that provides a number's source text can also write it.
    return /** @type {any} */ (JSON).rawJSON(this.#written);
  }
}

/** @param {string} _ @param {unknown} value @param {{source?: string}} [context] */
const exact = (_, value, context) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '')
    ? new Long(context?.source ?? '')
    : value;

/** @param {string} text @returns {any} */
export const parse = (text) =>
  // The source text of numbers takes time, so it is used only if there may be a long one.
  /[:[,\s]-?\d{16}/.test(text) ? JSON.parse(text, /** @type {any} */ (exact)) : JSON.parse(text);

/** @param {string} text @returns {any} */
function answered(text) {
  if (!text) return null;
  try {
    return parse(text);
  } catch {
    return text;
  }
}

/** @param {Call} entry */
function keep(entry) {
  const same = context.calls.findIndex((c) => c.method === 'GET' && c.method === entry.method && c.path === entry.path);
  if (same >= 0) context.calls.splice(same, 1);
  context.calls.push(entry);
  if (context.calls.length > 30) context.calls.shift();
  refresh();
}

/** @param {string} path @param {Record<string, unknown>} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
export const get = (path, query, signal) => call('GET', path, { ...(query ? { query } : {}), signal });

/** The maximum number of parts of a list that one search reads by itself. */
const PARTS = 20;

/** Returns the next part of a list that has rows. Without an index, a part covers a bounded number of rows, so it
 * may be empty while there is a `next_cursor`. The result may be, too. @param {string} path
 * @param {Record<string, unknown>} query @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function found(path, query, signal) {
  let answer = await get(path, query, signal);
  for (let at = 1; at < PARTS && answer.data?.length === 0 && answer.next_cursor; at += 1)
    answer = await get(path, { ...query, cursor: answer.next_cursor }, signal);
  return answer;
}
/** @param {string} path @param {unknown} [body] @param {string} [key] the intent's Idempotency-Key @returns {Promise<any>} */
export const post = (path, body, key) => call('POST', path, { body, ...(key ? { key } : {}) });
/** @param {string} path @param {unknown} body @returns {Promise<any>} */
export const put = (path, body) => call('PUT', path, { body });
/** @param {string} path @param {unknown} body @returns {Promise<any>} */
export const patch = (path, body) => call('PATCH', path, { body });
/** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export const remove = (path, body) => call('DELETE', path, { body });

/** Returns a new `Idempotency-Key`: one for each intent of a person, kept over retries. */
export function intent() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return `ui-${[...random].map((b) => b.toString(16).padStart(2, '0')).join('')}`;
}

/** Repeats a call while the server is overloaded, with the same key, so that it has one effect.
 * @template T @param {() => Promise<T>} send @param {number} [tries] @returns {Promise<T>} */
export async function persist(send, tries = 4) {
  for (let i = 1; ; i++) {
    try {
      return await send();
    } catch (error) {
      const passing = error instanceof ApiError && (error.status === 503 || error.status === 0);
      if (!passing || i >= tries) throw error;
      await new Promise((done) => setTimeout(done, Math.max(300 * i, 1000 * /** @type {ApiError} */ (error).wait)));
    }
  }
}

/** One part of a path. @param {string} text */
export const part = encodeURIComponent;
