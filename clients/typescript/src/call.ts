// A request before it is sent.

import { snake, toWire } from "./names.js";
import type { Upload } from "./upload.js";

/** What every method takes beside its own. */
export interface Options {
  /** Longest that the answer may take. */
  timeoutMs?: number;
  /** Ends the call, and the waits between its tries. */
  signal?: AbortSignal;
}

/** For operations that are carried out once for each key. */
export interface KeyedOptions extends Options {
  /** Left out, the client makes one for each call. */
  idempotencyKey?: string;
}

/** For operations that may wait for the channel. */
export interface Waiting {
  /** Seconds to wait for the channel's answer, 1 to 30. */
  wait?: number;
}

export interface Call {
  method: string;
  path: string;
  query?: object;
  body?: object;
  upload?: Upload;
  wait?: number | undefined;
  infersType?: boolean;
  isKeyed?: boolean;
  isAdmin?: boolean;
  options?: KeyedOptions;
  headers?: Record<string, string>;
}

// Methods that may be carried out twice without harm.
const REPEATABLE = new Set(["GET", "PUT", "DELETE"]);

/** Whether nothing is done twice when a call is sent again after its answer was lost. */
export const isRepeatable = (call: Call): boolean =>
  call.isKeyed === true || REPEATABLE.has(call.method);

/** Whether there is still all of its body. */
export const canBeSent = (call: Call): boolean => call.upload?.canBeSent ?? true;

/** A value as one segment of a path. */
export function id(value: string): string {
  if (value === "" || value === "." || value === "..") {
    throw new TypeError(`${JSON.stringify(value)} cannot be the id of anything`);
  }
  return encodeURIComponent(value);
}

/** The path with the query, without what is not given. */
export function target(call: Call): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value !== undefined && value !== null) query.set(snake(name), String(value));
  }
  return query.size > 0 ? `${call.path}?${query}` : call.path;
}

/** The body of one try. */
export function content(call: Call): string | ReturnType<Upload["body"]> | undefined {
  if (call.upload !== undefined) return call.upload.body();
  if (call.body === undefined) return undefined;
  const body = { ...call.body } as Record<string, unknown>;
  if (call.infersType && body["type"] === undefined) {
    const kind = ["template", "text"].find((it) => body[it] !== undefined && body[it] !== null);
    if (kind !== undefined) body["type"] = kind;
  }
  return JSON.stringify(toWire(body));
}

/** The headers of all tries, so that every one has the same key. */
export function headers(call: Call): Record<string, string> {
  const found = { ...call.headers };
  if (call.isKeyed) {
    found["Idempotency-Key"] = call.options?.idempotencyKey ?? crypto.randomUUID();
  }
  if (call.wait !== undefined) found["Prefer"] = `wait=${call.wait}`;
  if (call.body !== undefined) found["Content-Type"] = "application/json";
  if (call.upload !== undefined) found["Content-Type"] = call.upload.contentType;
  return found;
}
