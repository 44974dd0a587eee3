// Rewrites names: `requestId` here is `request_id` to the server.

import { FREE, IRREGULAR } from "./generated/names.js";

export const camel = (name: string): string =>
  name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

export const snake = (name: string): string =>
  // A name that has an underscore already, such as that of a language, is nobody's of ours.
  IRREGULAR[name] ?? (name.includes("_") ? name : name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));

function renamed(value: unknown, rename: (name: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => renamed(item, rename));
  if (typeof value !== "object" || value === null || "toJSON" in value) return value;
  const entries = Object.entries(value).map(([name, inner]) => [
    rename(name),
    FREE.has(name) ? inner : renamed(inner, rename),
  ]);
  return Object.fromEntries(entries);
}

/** A body as the server reads it. */
export const toWire = (value: unknown): unknown => renamed(value, snake);

/** An answer as it is read here. What users name themselves keeps its names. */
export const fromWire = (value: unknown): unknown => renamed(value, camel);
