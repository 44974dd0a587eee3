// Sends requests, waits and sends them again.

import { Attempts, failure, type Patience, refusal } from "./attempts.js";
import { type Call, content, headers, target } from "./call.js";
import { PostriderError } from "./errors.js";
import { fromWire } from "./names.js";

// The server sends a sign of life every 15 seconds.
const STREAM_SILENCE_MS = 45_000;

/** Waits, or throws the signal's reason. */
export async function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}

export interface TransportSettings {
  baseUrl: string;
  apiKey: string | undefined;
  adminToken: string | undefined;
  patience: Patience;
  fetch: typeof fetch;
  sleep: typeof sleep;
}

/** A controller that follows a signal and a timer, which can be set anew. */
class Deadline {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(milliseconds: number, outer: AbortSignal | undefined) {
    this.#outer = outer;
    outer?.throwIfAborted();
    outer?.addEventListener("abort", this.#stop);
    this.set(milliseconds);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  set(milliseconds: number): void {
    clearTimeout(this.#timer);
    const late = new PostriderError(`no answer in ${milliseconds} ms`, "TIMEOUT");
    this.#timer = setTimeout(() => this.#controller.abort(late), milliseconds);
  }

  /** No time runs out until it is set again. */
  rest(): void {
    clearTimeout(this.#timer);
  }

  end(): void {
    this.rest();
    this.#outer?.removeEventListener("abort", this.#stop);
  }

  readonly #stop = (): void => this.#controller.abort(this.#outer?.reason);
}

export class Transport {
  readonly patience: Patience;
  /** Waits between tries. */
  readonly sleep: typeof sleep;
  readonly #settings: TransportSettings;
  readonly #base: string;

  constructor(settings: TransportSettings) {
    this.patience = settings.patience;
    this.sleep = settings.sleep;
    this.#settings = settings;
    this.#base = settings.baseUrl.trim().replace(/\/+$/, "").replace(/\/v1$/, "");
  }

  async answer<Answer>(call: Call): Promise<Answer> {
    const text = await this.#send(call, (answer) => answer.text());
    try {
      return fromWire(JSON.parse(text)) as Answer;
    } catch (cause) {
      const told = `the answer is no JSON: ${text.slice(0, 200)}`;
      throw new PostriderError(told, "UNEXPECTED_ANSWER", { cause });
    }
  }

  async nothing(call: Call): Promise<void> {
    await this.#send(call, async (answer) => answer.body?.cancel());
  }

  /** The pieces of a stream. What breaks off throws an error with the code ANSWER_LOST. */
  async *stream(call: Call, attempts: Attempts): AsyncGenerator<Uint8Array, void> {
    const signal = call.options?.signal;
    const deadline = new Deadline(this.patience.timeoutMs, signal);
    try {
      const open = async (answer: Response): Promise<Response> => {
        if (call.headers?.["Range"] === undefined || answer.status === 206) return answer;
        await answer.body?.cancel();
        const told = "the answer is the whole file, and not the rest of it";
        throw new PostriderError(told, "UNEXPECTED_ANSWER", { status: answer.status });
      };
      const answer = await this.#tries(call, attempts, deadline, open);
      const reader = answer.body?.getReader();
      try {
        while (reader !== undefined) {
          deadline.set(STREAM_SILENCE_MS);
          const { done, value } = await reader.read();
          if (done) return;
          yield value;
        }
      } catch (error) {
        signal?.throwIfAborted();
        throw failure(error);
      } finally {
        // Whoever stops listening ends the connection. It may have failed already.
        await reader?.cancel().catch(() => undefined);
      }
    } finally {
      deadline.end();
    }
  }

  async #send<Result>(call: Call, read: (answer: Response) => Promise<Result>): Promise<Result> {
    return this.#tries(call, new Attempts(call, this.patience), undefined, read);
  }

  async #tries<Result>(
    call: Call,
    attempts: Attempts,
    stream: Deadline | undefined,
    read: (answer: Response) => Promise<Result>,
  ): Promise<Result> {
    const { signal } = call.options ?? {};
    const patient = this.patience.timeoutMs + (call.upload?.milliseconds ?? 0);
    const milliseconds = (call.options?.timeoutMs ?? patient) + (call.wait ?? 0) * 1000;
    const given = { ...headers(call), Authorization: `Bearer ${this.#key(call)}` };
    for (;;) {
      const body = content(call) ?? null;
      // Without it a stream is not sent.
      const duplex = body instanceof ReadableStream ? { duplex: "half" } : {};
      const deadline = stream ?? new Deadline(milliseconds, signal);
      deadline.set(milliseconds);
      let wait: number;
      try {
        const answer = await this.#settings.fetch(this.#base + target(call), {
          method: call.method,
          headers: given,
          body: body as BodyInit | null,
          ...duplex,
          redirect: "manual",
          signal: deadline.signal,
        });
        if (answer.ok) return await read(answer);
        wait = attempts.refused(refusal(answer, await answer.text()));
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof PostriderError && error.status !== undefined) throw error;
        wait = attempts.lost(failure(error));
      } finally {
        if (stream === undefined) deadline.end();
      }
      stream?.rest();
      await this.sleep(wait, signal);
    }
  }

  #key(call: Call): string {
    const { adminToken, apiKey } = this.#settings;
    const key = call.isAdmin ? adminToken : apiKey;
    if (key !== undefined) return key.trim();
    const what = call.isAdmin ? "an admin token" : "an API key";
    throw new PostriderError(`${call.path} needs ${what}, and none was given`, "NO_KEY");
  }
}
