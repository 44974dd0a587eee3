// A client of Postrider, which sends one-time passwords and business messages.

export type { KeyedOptions, Options } from "./call.js";
export { Postrider, type PostriderOptions } from "./client.js";
export { type LocalCode, PostriderError } from "./errors.js";
export type { Pages } from "./pages.js";
export type { Download, EventStream, Export, StreamFrom } from "./stream.js";
export type { ErrorCode, Event, S as Schemas } from "./types.js";
export type { FileContent } from "./upload.js";
export { verifyWebhook, verifyWebhookBatch, type WebhookHeaders } from "./webhooks.js";
