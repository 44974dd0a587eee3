// The stream of events: over restarts, lost connections and refusals.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { type Event, PostriderError } from "postrider";

import { type Answer, client, refused, Server, take, withFake } from "./server.js";

const server = new Server();
const CODES = 3;

before(() => server.start());
after(() => server.end());

async function someCodes(): Promise<void> {
  for (let at = 0; at < CODES; at++) await server.client().otp.send({ phone: "+15550123456" });
}

async function newest(): Promise<number> {
  return Math.max(0, ...(await take(server.client().events.list())).map((it) => it.sequence));
}

/** Reads on in one loop, as a program does. */
async function next(events: AsyncIterator<Event>, count: number): Promise<number[]> {
  const found: number[] = [];
  while (found.length < count) {
    const { value } = (await events.next()) as IteratorYieldResult<Event>;
    found.push(value.sequence);
  }
  return found;
}

for (const signal of ["SIGTERM", "SIGKILL"] as const) {
  test(`a stream has no gap over restarts by ${signal}`, async () => {
    const first = await newest();
    await someCodes();
    let lost = 0;
    const follower = client(server.url, { apiKey: server.key }, async () => {
      lost += 1;
      // It tries while nobody is there, and the server comes back meanwhile.
      if (lost % 2 === 0) {
        await server.start();
        await someCodes();
      }
    });
    const stream = follower.events.stream({ after: first });
    const events = stream[Symbol.asyncIterator]();
    const seen = await next(events, CODES);
    for (let at = 0; at < 2; at++) {
      await server.stop(signal);
      seen.push(...(await next(events, CODES)));
    }
    await events.return?.();
    assert.deepEqual(seen, Array.from({ length: 3 * CODES }, (_, at) => first + 1 + at));
    const last = stream.lastId ?? "";
    await someCodes();
    const [following] = await take(server.client().events.stream({ after: last }), 1);
    assert.equal(following?.sequence, first + 1 + 3 * CODES);
  });
}

test("a stream that saw nothing yet keeps its place", async () => {
  const first = await newest();
  const follower = client(server.url, { apiKey: server.key });
  const stream = follower.events.stream();
  const events = stream[Symbol.asyncIterator]();
  const begun = next(events, 2);
  const end = Date.now() + 20_000;
  while (stream.lastId === undefined && Date.now() < end) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(stream.lastId, String(first));
  await server.stop("SIGKILL");
  await server.start();
  await someCodes();
  assert.deepEqual(await begun, [first + 1, first + 2]);
  await events.return?.();
});

const event = (sequence: number, text = ""): string => {
  const at = "2026-01-31T09:25:00.000Z";
  const data = { message_id: "m", conversation_id: "c", contact_id: "k", from: "+1", text, at };
  const row = { id: `evt_${sequence}`, type: "message.received", timestamp: at, sequence, data };
  return `id: evt_${sequence}\nevent: message.received\ndata: ${JSON.stringify(row)}\n\n`;
};

const PING = 'event: ping\ndata: {"now":"2026-01-31T09:25:00.000Z","offset_seconds":0}\n\n';
// What a later server may tell besides.
const NOTICE = "event: broadcast.progress\ndata: soon\n\n";

const streamOf = (body: string): Answer => ({
  status: 200, headers: { "content-type": "text/event-stream" }, body,
});

test("what is cut off comes again", async () => {
  await withFake(refused(401, "UNAUTHORIZED"), async (fake) => {
    fake.plan = [
      streamOf(`: here\nid: 0\n\n${PING}${event(1)}${NOTICE}${event(2).slice(0, -1)}`),
      refused(503, "SERVICE_UNAVAILABLE", 9),
      streamOf(`: here\n\n${PING}${event(2, "a\u2028b\u0085c")}${PING}${event(3)}`),
    ];
    const follower = client(fake.url, { maxRetries: 0 });
    const seen: Event[] = [];
    const stream = follower.events.stream({ cursor: "AQ" });
    const loop = (async () => {
      for await (const it of stream) seen.push(it);
    })();
    await assert.rejects(loop, (error) => error instanceof PostriderError && error.status === 401);
    assert.deepEqual(seen.map((it) => it.sequence), [1, 2, 3]);
    const [, second] = seen;
    assert.ok(second?.type === "message.received");
    assert.deepEqual([second.data.text, second.data.messageId], ["a\u2028b\u0085c", "m"]);
    assert.deepEqual(fake.seen.map((it) => [it.path, it.headers["last-event-id"]]), [
      ["/v1/events/stream?cursor=AQ", undefined],
      ["/v1/events/stream", "evt_1"],
      ["/v1/events/stream", "evt_1"],
      ["/v1/events/stream", "evt_3"],
    ]);
    assert.ok(follower.waits.some((wait) => wait >= 9000 && wait <= 9100));
  });
});

test("a stream that never began gives up", async () => {
  await withFake(refused(503, "SERVICE_UNAVAILABLE", 1), async (fake) => {
    const stream = client(fake.url, { maxRetries: 1 }).events.stream();
    await assert.rejects(take(stream, 1), PostriderError);
    assert.equal(fake.seen.length, 2);
  });
});

test("a signal ends a stream that waits", async () => {
  const controller = new AbortController();
  await withFake(streamOf(": here\n\n"), async (fake) => {
    const follower = client(fake.url, {}, () => controller.abort(new Error("enough")));
    await assert.rejects(take(follower.events.stream({ signal: controller.signal })), /enough/);
  });
  const stopped = new AbortController();
  const waiting = take(server.client().events.stream({ signal: stopped.signal }));
  stopped.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
});

test("an export goes on where it broke off", async () => {
  const contact = (id: string): string => `${JSON.stringify({ id, name: "A\u2028" })}\n`;
  await withFake({ status: 200, body: contact("con_3") }, async (fake) => {
    const cut = contact("con_1") + contact("con_2") + contact("con_3").slice(0, -2);
    // It says that more will come, and closes.
    const length = String(Buffer.byteLength(cut) + 100);
    const headers = { "content-length": length, connection: "close" };
    fake.plan = [{ status: 200, headers, body: cut }];
    const found = await take(client(fake.url).contacts.export());
    assert.deepEqual(found.map((it) => it.id), ["con_1", "con_2", "con_3"]);
    const paths = fake.seen.map((it) => it.path);
    assert.deepEqual(paths, ["/v1/contacts/export", "/v1/contacts/export?after=con_2"]);
  });
});
