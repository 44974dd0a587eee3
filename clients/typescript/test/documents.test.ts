// What the documents show in TypeScript runs; that it has the types that it should, tsc has seen.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { promisify } from "node:util";

import { Server } from "./server.js";

const folder = new URL(".", import.meta.url);
const modules = readdirSync(folder).filter((it) => /^document-.*\.js$/.test(it));

test("documents are there", () => assert.equal(modules.length, 2));

for (const name of modules) {
  test(`${name} does what it shows`, async () => {
    const server = await new Server().start();
    try {
      const program = fileURLToPath(new URL(name, folder));
      const env = { ...process.env, POSTRIDER_SERVER: server.url };
      const options = { cwd: server.directory, env, timeout: 60_000 };
      await promisify(execFile)(process.execPath, [program], options);
    } finally {
      await server.end();
    }
  });
}
