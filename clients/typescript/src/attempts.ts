// Decides whether a request is sent again, and when: pure.

import { type Call, canBeSent, isRepeatable } from "./call.js";
import { PostriderError } from "./errors.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;
// Answers after which the same request may succeed. Only after 429 it is certain that nothing was
// done; a 503 may come from a server that gave up waiting for its own disk.
const TRY_LATER = new Set([408, 429, 500, 502, 503, 504]);
const UNDER_WAY = "idempotency_under_way";
// What fails before anything is sent. Browsers do not say, so there it is taken as sent.
const NOT_SENT = new Set([
  "ECONNREFUSED",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** How often and how long a client tries. */
export interface Patience {
  maxRetries: number;
  maxWaitMs: number;
  timeoutMs: number;
}

function codeOf(error: unknown): string | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : "";
  return typeof code === "string" ? code : undefined;
}

/** The error of a request that was not answered. */
export function failure(error: unknown): PostriderError {
  if (error instanceof PostriderError) return error;
  const cause = codeOf(error);
  const text = [error instanceof Error ? error.message : String(error), cause].filter(Boolean);
  return cause !== undefined && NOT_SENT.has(cause)
    ? new PostriderError(`no connection: ${text.join(", ")}`, "CONNECTION_FAILED", { cause: error })
    : new PostriderError(`the answer was lost: ${text.join(", ")}`, "ANSWER_LOST", { cause: error });
}

/** The error of an answer with this body. */
export function refusal(answer: Response, text: string): PostriderError {
  const requestId = answer.headers.get("x-request-id") ?? undefined;
  const seconds = answer.headers.get("retry-after");
  let body: Record<string, unknown> = {};
  try {
    body = Object(JSON.parse(text)) as Record<string, unknown>;
  } catch {
    // A proxy between answers something else.
  }
  const { code, message, reason } = body;
  const wait = Number(seconds ?? body["retry_after"] ?? Number.NaN);
  const retryAfter = Number.isFinite(wait) && wait >= 0 ? wait : undefined;
  if (typeof code !== "string") {
    const told = `the answer is none of Postrider's: ${text.slice(0, 200)}`;
    const details = { status: answer.status, requestId, retryAfter };
    return new PostriderError(told, "UNEXPECTED_ANSWER", details);
  }
  return new PostriderError(String(message ?? ""), code, {
    status: answer.status,
    reason: typeof reason === "string" ? reason : undefined,
    requestId: typeof body["request_id"] === "string" ? body["request_id"] : requestId,
    retryAfter,
  });
}

/** The tries of one request. Each method gives the milliseconds until the next one, or throws. */
export class Attempts {
  #made = 0;

  constructor(
    readonly call: Call,
    readonly patience: Patience,
    readonly isEndless = false,
  ) {}

  /** The request was not answered. */
  lost(error: PostriderError): number {
    const again = error.code === "CONNECTION_FAILED" || isRepeatable(this.call);
    if (!again || !canBeSent(this.call) || !this.#oneMore()) throw error;
    return this.#backoff();
  }

  /** The server answered with an error. */
  refused(error: PostriderError): number {
    const status = error.status ?? 0;
    const isUnderWay = status === 409 && error.reason === UNDER_WAY;
    const isLater = TRY_LATER.has(status) && isRepeatable(this.call);
    const again = (status === 429 || isUnderWay || isLater) && canBeSent(this.call);
    const wait = error.retryAfter === undefined ? undefined : error.retryAfter * 1000;
    const isTooLong = wait !== undefined && wait > this.patience.maxWaitMs && !this.isEndless;
    if (!again || isTooLong || !this.#oneMore()) throw error;
    return wait === undefined ? this.#backoff() : wait + Math.random() * 100;
  }

  /** Something has arrived: what fails next is a new failure. */
  progress(): void {
    this.#made = 0;
  }

  /** A stream has ended that began well. */
  pause(): number {
    this.#made += 1;
    return this.#backoff();
  }

  #oneMore(): boolean {
    this.#made += 1;
    return this.isEndless || this.#made <= this.patience.maxRetries;
  }

  #backoff(): number {
    const wait = FIRST_WAIT_MS * 2 ** (this.#made - 1);
    return Math.min(wait, LONGEST_WAIT_MS) * (0.5 + Math.random() / 2);
  }
}
