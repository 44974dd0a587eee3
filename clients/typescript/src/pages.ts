// Lists that ask for their next page when it is needed.

import type { Call } from "./call.js";
import type { Transport } from "./transport.js";

// As many rows as the server gives at a time: fewer requests, of which a key has a limit.
const ROWS_OF_A_PAGE = 200;

type Next<Answer> = (call: Call, answer: Answer) => Call | undefined;

const after = (call: Call, query: object): Call => ({ ...call, query: { ...call.query, ...query } });

/** The call for the page after this one; undefined after the last. */
export function nextPage(
  call: Call,
  answer: { data: unknown[]; page: number; total: number },
): Call | undefined {
  const { limit = ROWS_OF_A_PAGE } = (call.query ?? {}) as { limit?: number };
  const isLast = answer.data.length === 0 || answer.page * limit >= answer.total;
  return isLast ? undefined : after(call, { page: answer.page + 1 });
}

/** The same for a log, whose last part names no other cursor than the one asked for. */
export function nextCursor(
  call: Call,
  { nextCursor: cursor }: { data: unknown[]; nextCursor?: string | null },
): Call | undefined {
  const { cursor: before } = (call.query ?? {}) as { cursor?: string };
  return cursor === undefined || cursor === null || cursor === before
    ? undefined
    : after(call, { cursor });
}

/** The rows of a list, of all its pages. Every loop asks anew. */
export class Pages<Row, Answer extends { data: unknown[] }> implements AsyncIterable<Row> {
  readonly #transport: Transport;
  readonly #call: Call;
  readonly #next: Next<Answer>;

  constructor(transport: Transport, call: Call, next: Next<Answer>) {
    this.#transport = transport;
    this.#call = { ...call, query: { limit: ROWS_OF_A_PAGE, ...call.query } };
    this.#next = next;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Row, void> {
    for await (const answer of this.pages()) yield* answer.data as Row[];
  }

  /** The pages as the server answers them, with `total` and what else they have. */
  async *pages(): AsyncGenerator<Answer, void> {
    let call: Call | undefined = this.#call;
    while (call !== undefined) {
      const answer: Answer = await this.#transport.answer<Answer>(call);
      yield answer;
      call = this.#next(call, answer);
    }
  }

  /** One page alone: the first, or the one that was asked for. */
  page(): Promise<Answer> {
    return this.#transport.answer<Answer>(this.#call);
  }
}
