// What is sent again, when, and what never is.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { after, before, test } from "node:test";

import { PostriderError } from "postrider";

import { client, LOST, PASSED, type Planned, refused, Server, type Waiting } from "./server.js";
import { take, withFake } from "./server.js";

const server = new Server();
let api: Waiting;
let phones = 15_550_300_000;
const phone = (): string => `+${phones++}`;
const shown = async (to: string): Promise<number> => (await api.sandbox.messages({ to })).data.length;
const key = (): { apiKey: string } => ({ apiKey: server.key });

before(async () => {
  await server.start();
  api = server.client();
});
after(() => server.end());

const codeOf = async (promise: Promise<unknown>): Promise<string> => {
  const error = await promise.then(() => undefined, (thrown: unknown) => thrown);
  assert.ok(error instanceof PostriderError, `${String(error)} is no PostriderError`);
  return error.code;
};

test("a lost answer sends no second code", async () => {
  const to = phone();
  await withFake(PASSED, async (proxy) => {
    proxy.plan = [LOST, LOST];
    const through = client(proxy.url, key());
    const { requestId } = await through.otp.send({ phone: to });
    assert.equal((await api.otp.get(requestId)).status, "active");
    assert.equal(new Set(proxy.seen.map((it) => it.headers["idempotency-key"])).size, 1);
    assert.equal(proxy.seen.length, 3);
    const [first = 0, second = 0] = through.waits;
    assert.ok(first >= 250 && first <= 500 && second >= 500 && second <= 1000);
  }, server.url);
  assert.equal(await shown(to), 1);
});

test("what takes a key is done once", async () => {
  const to = phone();
  await api.sandbox.receive({ from: to, text: "Hello" });
  const [conversation] = await take(api.conversations.list({ limit: 1 }));
  await withFake(PASSED, async (proxy) => {
    const through = client(proxy.url, key());
    const once = async (call: () => Promise<unknown>): Promise<void> => {
      proxy.plan = [LOST];
      proxy.seen.length = 0;
      await call();
      assert.equal(proxy.seen.length, 2);
    };
    await once(() => through.messages.send({ to, text: "Hello", wait: 1 }));
    await once(() => through.conversations.reply(conversation?.id ?? "", { text: "Hello" }));
    await once(() => through.contacts.create({ name: `Once ${to}` }));
    await once(() => through.broadcasts.create({
      name: `Once ${to}`, templateName: "spring_sale", recipients: ["+15550123456"],
    }));
  }, server.url);
  assert.equal(await shown(to), 2);
  assert.equal((await take(api.contacts.list({ search: `Once ${to}` }))).length, 1);
  const broadcasts = await take(api.broadcasts.list());
  assert.equal(broadcasts.filter((it) => it.name === `Once ${to}`).length, 1);
});

test("what takes no key is not repeated", async () => {
  const to = phone();
  const { requestId } = await api.otp.send({ phone: to });
  const plans: [Planned, string][] = [
    [LOST, "ANSWER_LOST"],
    [refused(503, "SERVICE_UNAVAILABLE", 1), "SERVICE_UNAVAILABLE"],
    [refused(500, "SERVER_ERROR", 1), "SERVER_ERROR"],
    [{ status: 502, body: "<html>" }, "UNEXPECTED_ANSWER"],
  ];
  for (const [planned, code] of plans) {
    await withFake(PASSED, async (proxy) => {
      proxy.plan = [planned];
      assert.equal(await codeOf(client(proxy.url, key()).otp.resend({ requestId })), code);
      assert.equal(proxy.seen.length, 1);
    }, server.url);
  }
  assert.equal(await shown(to), 2, "the code, and the one whose answer was lost");
});

test("a refusal for a time is waited for", async () => {
  await withFake(PASSED, async (proxy) => {
    const through = client(proxy.url, key());
    proxy.plan = [
      refused(429, "RATE_LIMITED", 7),
      refused(503, "SERVICE_UNAVAILABLE", 2),
      refused(409, "CONFLICT", undefined, "idempotency_under_way"),
    ];
    const idempotencyKey = "mine-of-typescript";
    await through.otp.send({ phone: phone() }, { idempotencyKey });
    for (const seen of proxy.seen) assert.equal(seen.headers["idempotency-key"], idempotencyKey);
    assert.deepEqual(through.waits.slice(0, 2).map((it) => Math.floor(it / 1000)), [7, 2]);
    // Nothing was done yet, so also what takes no key is sent again.
    through.waits.length = 0;
    proxy.plan = [refused(429, "RATE_LIMITED", 3)];
    assert.equal(await codeOf(through.otp.verify({ requestId: "otp_1", otp: "1" })), "NOT_FOUND");
    assert.deepEqual(through.waits.map((it) => Math.floor(it / 1000)), [3]);
  }, server.url);
});

test("the patience of a client ends", async () => {
  const cases: [Planned, string, number, number][] = [
    [refused(429, "OTP_RATE_LIMITED", 599), "OTP_RATE_LIMITED", 3, 1],
    [refused(503, "SERVICE_UNAVAILABLE", 1), "SERVICE_UNAVAILABLE", 2, 3],
    [refused(409, "CONFLICT"), "CONFLICT", 3, 1],
    [{ status: 302, headers: { location: "/" } }, "UNEXPECTED_ANSWER", 3, 1],
  ];
  for (const [planned, code, maxRetries, tries] of cases) {
    await withFake(planned, async (busy) => {
      const contact = client(busy.url, { maxRetries }).contacts.create({ name: "Ada" });
      assert.equal(await codeOf(contact), code);
      assert.equal(busy.seen.length, tries, code);
    });
  }
});

test("a server that is not there is tried again", async () => {
  const listener = createServer();
  await once(listener.listen(0, "127.0.0.1"), "listening");
  const { port } = listener.address() as AddressInfo;
  listener.close();
  const nobody = client(`http://127.0.0.1:${port}`, { maxRetries: 2 });
  const verified = nobody.otp.verify({ requestId: "otp_1", otp: "1" });
  assert.equal(await codeOf(verified), "CONNECTION_FAILED");
  assert.equal(nobody.waits.length, 2);
});

test("an answer may take no longer than told", async () => {
  const silent = createServer();
  await once(silent.listen(0, "127.0.0.1"), "listening");
  const { port } = silent.address() as AddressInfo;
  const asking = client(`http://127.0.0.1:${port}`, { maxRetries: 1 });
  assert.equal(await codeOf(asking.otp.get("otp_1", { timeoutMs: 50 })), "TIMEOUT");
  assert.equal(asking.waits.length, 1);
  silent.close();
});
