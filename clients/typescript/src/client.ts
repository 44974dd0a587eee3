// The client.

import { Resources } from "./generated/resources.js";
import { sleep, Transport } from "./transport.js";

export interface PostriderOptions {
  /** Such as `http://127.0.0.1:8080`. */
  baseUrl: string;
  /** For everything but `client.admin`. */
  apiKey?: string;
  /** For `client.admin`. */
  adminToken?: string;
  /** Longest that an answer may take; 30 seconds by default. */
  timeoutMs?: number;
  /** How often a request is sent again that was refused for a time or not answered; 3 by default.
   * One that could have an effect twice never is. */
  maxRetries?: number;
  /** A refusal that asks for a longer wait is thrown at once; 60 seconds by default. */
  maxWaitMs?: number;
  /** Sends the requests; the global one by default. */
  fetch?: typeof fetch;
  /** Waits between tries; a timer by default. */
  sleep?: (milliseconds: number, signal?: AbortSignal) => Promise<void>;
}

/** A client of one server. */
export class Postrider extends Resources {
  constructor(options: PostriderOptions) {
    const { timeoutMs = 30_000, maxRetries = 3, maxWaitMs = 60_000 } = options;
    super(
      new Transport({
        baseUrl: options.baseUrl,
        apiKey: options.apiKey,
        adminToken: options.adminToken,
        patience: { timeoutMs, maxRetries, maxWaitMs },
        // A browser's `fetch` must be called as a function of its window.
        fetch: options.fetch ?? ((...request) => globalThis.fetch(...request)),
        sleep: options.sleep ?? sleep,
      }),
    );
  }
}
