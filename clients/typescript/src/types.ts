// Short names for the types that are made from the server's document.

import type { components, operations } from "./generated/schema.js";

export type { Event } from "./generated/events.js";
export type { ErrorCode } from "./generated/names.js";

/** What requests and answers hold, by the names of the server's document. */
export type S = components["schemas"];

/** What a list can be asked for. */
export type Query<Name extends keyof operations> = NonNullable<
  operations[Name]["parameters"]["query"]
>;
