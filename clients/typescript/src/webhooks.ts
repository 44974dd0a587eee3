// Checks that a webhook comes from the server, and reads it.

import { Webhook } from "standardwebhooks";

import { PostriderError } from "./errors.js";
import { fromWire } from "./names.js";
import type { Event } from "./types.js";

/** Headers as `fetch` or as Node.js has them. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

const refused = (message: string, cause?: unknown): PostriderError =>
  new PostriderError(`the webhook is refused: ${message}`, "WEBHOOK_NOT_VERIFIED", { cause });

function verified(body: string | Uint8Array, headers: WebhookHeaders, secret: string): unknown {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const plain = entries.flatMap(([name, value]) =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(",") : value] as const],
  );
  try {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    const text = typeof body === "string" ? body : decoder.decode(body);
    new Webhook(secret.trim()).verify(text, Object.fromEntries(plain), { jsonParse: false });
    return fromWire(JSON.parse(text));
  } catch (error) {
    throw refused(error instanceof Error ? error.message : String(error), error);
  }
}

/** The event of a delivery, whose body must be as it arrived, byte for byte. Throws an error with
 * the code WEBHOOK_NOT_VERIFIED if it was not signed with the endpoint's secret, or longer ago than
 * five minutes. A delivery may come twice: an event's id tells. */
export function verifyWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string,
): Event {
  const event = verified(body, headers, secret);
  if (Array.isArray(event)) {
    throw refused("it is a batch: an endpoint with `batch` needs verifyWebhookBatch");
  }
  return event as Event;
}

/** The events of a delivery to an endpoint with `batch`: one or several. */
export function verifyWebhookBatch(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string,
): Event[] {
  return [verified(body, headers, secret)].flat() as Event[];
}
