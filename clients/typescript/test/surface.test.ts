// Every operation of the server's document has a method.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { client, refused, take, withFake } from "./server.js";

interface Operation {
  operationId: string;
  parameters?: { name: string }[];
  requestBody?: { content?: Record<string, unknown> };
  responses: Record<string, { content?: Record<string, unknown> }>;
}

const FILE = "application/octet-stream";

const read = (name: string): unknown => JSON.parse(readFileSync(process.env[name] ?? "", "utf8"));
const names = read("POSTRIDER_OPERATIONS") as Record<string, string>;
const document = read("POSTRIDER_OPENAPI") as { paths: Record<string, Record<string, Operation>> };

const operations = Object.entries(document.paths)
  .filter(([path]) => /^\/(admin\/)?v1\//.test(path))
  .flatMap(([path, item]) => Object.entries(item).map(([method, it]) => ({ path, method, ...it })))
  // Commands move whole workspaces; the clients do not.
  .filter((it) => {
    const isFile = [it.responses["200"], it.requestBody].some((of) => FILE in (of?.content ?? {}));
    return !it.path.startsWith("/admin/") || !isFile;
  });

const camel = (name: string): string =>
  name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

test("every operation is reached", async () => {
  assert.ok(operations.length > 80);
  const ids = operations.map((it) => it.operationId);
  assert.deepEqual(Object.keys(names).sort(), ids.sort());
  await withFake(refused(418, "TEAPOT"), async (fake) => {
    const api = client(fake.url, { apiKey: "the key", adminToken: "the token" });
    for (const { operationId, path, method, parameters = [], requestBody } of operations) {
      const name = names[operationId] ?? "";
      if (name.startsWith("same as ")) continue;
      const steps = name.split(".").map(camel);
      const last = steps.pop() ?? "";
      const holder = steps.reduce<object>((it, step) => Reflect.get(it, step) as object, api);
      const call = Reflect.get(holder, last) as (...values: unknown[]) => object;
      const ids = [...path.matchAll(/{(\w+)}/g)].map(([, it]) => `${it}-1`);
      const file = FILE in (requestBody?.content ?? {}) ? [Uint8Array.of(1)] : [];
      const places = [...ids, ...file];
      fake.seen.length = 0;
      const answer = call.call(holder, ...places, {});
      const done = Symbol.asyncIterator in answer ? take(answer as AsyncIterable<unknown>) : answer;
      await assert.rejects(done as Promise<unknown>, { code: "TEAPOT" });
      const [seen] = fake.seen;
      assert.equal(fake.seen.length, 1);
      assert.equal(seen?.method, method.toUpperCase(), operationId);
      assert.equal(seen?.path, path.replace(/{(\w+)}/g, "$1-1") + query(seen?.path ?? ""));
      const token = path.startsWith("/admin/") ? "the token" : "the key";
      assert.equal(seen?.headers["authorization"], `Bearer ${token}`, operationId);
      // The server does not look at the key of others, so they are not repeated either.
      const isKeyed = parameters.some((it) => it.name === "Idempotency-Key");
      assert.equal("idempotency-key" in (seen?.headers ?? {}), isKeyed, operationId);
    }
  });
});

const query = (path: string): string => (path.includes("?") ? path.slice(path.indexOf("?")) : "");

test("a second path is the same operation", () => {
  for (const { operationId, path } of operations) {
    const other = /^same as (\w+)$/.exec(names[operationId] ?? "")?.[1];
    if (other === undefined) continue;
    const same = operations.find((it) => it.operationId === other);
    const plain = (it?: string) => it?.replace("/v1/messaging/", "/v1/");
    assert.equal(plain(path), plain(same?.path));
  }
});
