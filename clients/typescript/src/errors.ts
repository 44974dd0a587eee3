// The one error that this package throws, and where it comes from.

import type { ErrorCode } from "./types.js";

/** Codes of what did not come from the server. */
export type LocalCode =
  | "CONNECTION_FAILED"
  | "ANSWER_LOST"
  | "TIMEOUT"
  | "UNEXPECTED_ANSWER"
  | "WEBHOOK_NOT_VERIFIED"
  | "NO_KEY";

interface Details {
  status?: number | undefined;
  reason?: string | undefined;
  requestId?: string | undefined;
  retryAfter?: number | undefined;
  cause?: unknown;
}

/** A request that failed, or a webhook that is not genuine. `code` says which. */
export class PostriderError extends Error {
  /** For a program. A later server may have more of them. */
  readonly code: ErrorCode | LocalCode | (string & {});
  /** The HTTP status; undefined where no answer came. */
  readonly status: number | undefined;
  /** What is behind a code that has several causes. */
  readonly reason: string | undefined;
  /** The request's id, which the server's log has too. */
  readonly requestId: string | undefined;
  /** Seconds to wait before another try. */
  readonly retryAfter: number | undefined;

  constructor(message: string, code: PostriderError["code"], details: Details = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "PostriderError";
    this.code = code;
    this.status = details.status;
    this.reason = details.reason;
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
  }
}
