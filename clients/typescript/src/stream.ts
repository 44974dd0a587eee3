// Answers without an end, which go on where they broke off.

import { Attempts } from "./attempts.js";
import type { Call } from "./call.js";
import { PostriderError } from "./errors.js";
import { Lines, Messages } from "./lines.js";
import { fromWire } from "./names.js";
import type { Transport } from "./transport.js";
import type { Event } from "./types.js";

/** Where a stream of events begins, and what ends it. */
export interface StreamFrom {
  /** The id or sequence of the last event that was seen; 0 is the beginning of the log. */
  after?: string | number;
  /** `nextCursor` of the list of events. */
  cursor?: string;
  /** Ends the stream with the signal's reason. */
  signal?: AbortSignal;
}

function parse(text: string): unknown {
  try {
    return fromWire(JSON.parse(text));
  } catch (cause) {
    throw new PostriderError(`the stream has what is no JSON: ${text}`, "UNEXPECTED_ANSWER", {
      cause,
    });
  }
}

const wasLost = (error: unknown): error is PostriderError =>
  error instanceof PostriderError && error.status === undefined && error.code !== "NO_KEY" &&
  error.code !== "UNEXPECTED_ANSWER";

/** Events as they come. It connects again by itself, also over restarts of the server, and goes on
 * after the last event; it ends when the loop is left or the server refuses it. */
export class EventStream implements AsyncIterable<Event> {
  readonly #transport: Transport;
  readonly #call: Call;
  #lastId: string | undefined;

  constructor(transport: Transport, call: Call, { after, cursor, signal }: StreamFrom) {
    this.#transport = transport;
    const options = signal === undefined ? {} : { signal };
    this.#call = { ...call, query: { cursor }, options };
    this.#lastId = after === undefined ? undefined : String(after);
  }

  /** The id of the last event: `after` of a later stream. */
  get lastId(): string | undefined {
    return this.#lastId;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void> {
    let attempts = new Attempts(this.#call, this.#transport.patience);
    for (;;) {
      // What the last connection left unfinished comes again.
      const messages = new Messages();
      try {
        for await (const piece of this.#transport.stream(this.#here(), attempts)) {
          // A server that was there once will be there again.
          attempts = new Attempts(this.#call, this.#transport.patience, true);
          for (const { id, data } of messages.feed(piece)) {
            // What has no id is not in the log: the clock's pings, and what else a server may tell.
            if (!id) continue;
            const event = data === "" ? undefined : (parse(data) as Event);
            // Before it is handed out: who stops at this event goes on after it.
            this.#lastId = id;
            if (event !== undefined) yield event;
          }
        }
      } catch (error) {
        if (!wasLost(error) || !attempts.isEndless) throw error;
      }
      await this.#transport.sleep(attempts.pause(), this.#call.options?.signal);
    }
  }

  #here(): Call {
    return this.#lastId === undefined
      ? this.#call
      : { ...this.#call, query: {}, headers: { "Last-Event-ID": this.#lastId } };
  }
}

/** The bytes of a file, in pieces. One that breaks off is continued where it did. */
export class Download implements AsyncIterable<Uint8Array> {
  readonly #transport: Transport;
  readonly #call: Call;

  constructor(transport: Transport, call: Call) {
    this.#transport = transport;
    this.#call = call;
  }

  /** All of them. */
  async bytes(): Promise<Uint8Array<ArrayBuffer>> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this) pieces.push(piece);
    const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.byteLength, 0));
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.byteLength;
    }
    return whole;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    const attempts = new Attempts(this.#call, this.#transport.patience);
    let received = 0;
    for (;;) {
      // What is compressed on its way has other positions.
      const rest = received > 0 ? { Range: `bytes=${received}-` } : {};
      const call = { ...this.#call, headers: { "Accept-Encoding": "identity", ...rest } };
      try {
        for await (const piece of this.#transport.stream(call, attempts)) {
          attempts.progress();
          received += piece.byteLength;
          yield piece;
        }
        return;
      } catch (error) {
        if (!wasLost(error)) throw error;
        await this.#transport.sleep(attempts.lost(error), this.#call.options?.signal);
      }
    }
  }
}

/** Every row, in one answer. One that breaks off is continued after the last row. */
export class Export<Row extends { id: string }> implements AsyncIterable<Row> {
  readonly #transport: Transport;
  readonly #call: Call;

  constructor(transport: Transport, call: Call) {
    this.#transport = transport;
    this.#call = call;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Row, void> {
    const attempts = new Attempts(this.#call, this.#transport.patience);
    let call = this.#call;
    for (;;) {
      const lines = new Lines(/\n/);
      try {
        for await (const piece of this.#transport.stream(call, attempts)) {
          attempts.progress();
          for (const line of lines.feed(piece)) {
            const row = parse(line) as Row;
            call = { ...call, query: { ...call.query, after: row.id } };
            yield row;
          }
        }
        return;
      } catch (error) {
        if (!wasLost(error)) throw error;
        await this.#transport.sleep(attempts.lost(error), call.options?.signal);
      }
    }
  }
}
