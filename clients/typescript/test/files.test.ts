// Files are sent and fetched piece by piece, and a broken download goes on.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createReadStream, openAsBlob, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { type FileContent, PostriderError } from "postrider";

import { client, LOST, PASSED, refused, Server, take, type Waiting, withFake } from "./server.js";

const server = new Server();
let api: Waiting;
before(async () => {
  await server.start();
  api = server.client();
});
after(() => server.end());

// More than one piece of every kind.
const FILE = new TextEncoder().encode("0123456789abcdef".repeat(50_000));
const PARAMS = { contentType: "text/plain", filename: "a.txt" };
const busy = refused(429, "RATE_LIMITED", 1);

async function* pieces(): AsyncGenerator<Uint8Array> {
  yield FILE.slice(0, 9);
  yield FILE.slice(9);
}

test("a file goes there and back", async () => {
  const path = join(server.directory, "a.txt");
  writeFileSync(path, FILE);
  const contents: FileContent[] = [
    FILE, new Blob([FILE]), new Blob([FILE]).stream(), pieces(), await openAsBlob(path),
    createReadStream(path),
  ];
  for (const content of contents) {
    const media = await api.media.upload(content, PARAMS);
    const sha256 = createHash("sha256").update(FILE).digest("hex");
    assert.deepEqual(
      [media.state, media.mimeType, media.filename, media.size, media.sha256],
      ["ready", "text/plain", "a.txt", FILE.length, sha256],
    );
    assert.deepEqual(await api.media.get(media.mediaId), media);
    const download = api.media.content(media.mediaId);
    assert.deepEqual(await download.bytes(), FILE);
    assert.deepEqual(Buffer.concat(await take(download)), Buffer.from(FILE));
    await api.media.delete(media.mediaId);
    await assert.rejects(download.bytes(), { code: "NOT_FOUND" });
  }
});

test("what is refused is said", async () => {
  const wrong = { contentType: "application/x-msdownload" };
  await assert.rejects(api.media.upload(FILE, wrong), { code: "UNSUPPORTED_MEDIA_TYPE" });
  await assert.rejects(api.media.upload(new Blob([]), PARAMS), { code: "VALIDATION_ERROR" });
  const text = "text" as unknown as FileContent;
  assert.throws(() => api.media.upload(text, PARAMS), { name: "TypeError", message: /Blob/ });
});

test("an upload is sent again when surely nothing was kept", async () => {
  await withFake(PASSED, async (proxy) => {
    const through = client(proxy.url, { apiKey: server.key });
    for (const content of [FILE, new Blob([FILE])]) {
      proxy.seen.length = 0;
      proxy.plan = [busy, PASSED];
      assert.equal((await through.media.upload(content, PARAMS)).size, FILE.length);
      const sent = proxy.seen.map((it) => it.body.length);
      assert.deepEqual(sent, [FILE.length, FILE.length]);
      proxy.plan = [LOST];
      await assert.rejects(through.media.upload(content, PARAMS), { code: "ANSWER_LOST" });
      assert.equal(proxy.seen.length, 3);
    }
  }, server.url);
});

test("pieces that are used up are not sent again", async () => {
  await withFake(busy, async (fake) => {
    const through = client(fake.url);
    await assert.rejects(through.media.upload(pieces(), PARAMS), { code: "RATE_LIMITED" });
    assert.deepEqual([fake.seen.length, through.waits], [1, []]);
  });
});

test("a download that breaks off goes on", async () => {
  const { mediaId } = await api.media.upload(FILE, PARAMS);
  const headers = { "content-length": String(FILE.length), connection: "close" };
  const cut = { status: 200, headers, body: "0123456789" };
  await withFake(PASSED, async (proxy) => {
    const through = client(proxy.url, { apiKey: server.key });
    proxy.plan = [cut, PASSED];
    assert.deepEqual(await through.media.content(mediaId).bytes(), FILE);
    assert.deepEqual(proxy.seen.map((it) => it.headers["range"]), [undefined, "bytes=10-"]);
    // Who answers with all of it again would have a part of it come twice.
    proxy.plan = [cut, { status: 200, body: "0123456789" }];
    await assert.rejects(through.media.content(mediaId).bytes(), (error) =>
      error instanceof PostriderError && /the whole file/.test(error.message));
  }, server.url);
});
