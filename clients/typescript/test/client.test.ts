// The client against a server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { PostriderError, type Schemas } from "postrider";

import { client, Fake, refused, Server, take, type Waiting, withFake } from "./server.js";

const server = new Server();
let api: Waiting;
let phones = 15_550_200_000;
const phone = (): string => `+${phones++}`;

before(async () => {
  await server.start();
  api = server.client();
});
after(() => server.end());

const failure = async (promise: Promise<unknown>): Promise<PostriderError> => {
  const error = await promise.then(() => undefined, (thrown: unknown) => thrown);
  assert.ok(error instanceof PostriderError, `${String(error)} is no PostriderError`);
  return error;
};

test("a code is sent and verified", async () => {
  const to = phone();
  const sent = await api.otp.send({ phone: to, length: 8 });
  assert.match(sent.requestId, /^otp_/);
  assert.ok(Date.parse(sent.expiresAt) > Date.now());
  const [shown] = (await api.sandbox.messages({ to })).data;
  assert.equal(shown?.code?.length, 8);
  const { requestId } = sent;
  const wrong = await api.otp.verify({ requestId, otp: "0" });
  assert.deepEqual([wrong.verified, wrong.code, wrong.attemptsRemaining], [false, "OTP_INVALID", 4]);
  assert.equal((await api.otp.verify({ requestId, otp: shown?.code ?? "" })).verified, true);
  assert.equal((await api.otp.get(requestId)).status, "verified");
});

test("a refusal is an error with its code", async () => {
  const bad = await failure(api.otp.send({ phone: "nobody" }));
  assert.deepEqual([bad.status, bad.code, bad.reason], [400, "VALIDATION_ERROR", undefined]);
  assert.match(bad.message, /`phone`/);
  assert.match(bad.requestId ?? "", /^req_/);
  const closed = await failure(api.messages.send({ to: phone(), text: "Hello" }));
  assert.equal(closed.reason, "conversation_window_closed");
  const stranger = server.client({ apiKey: "no key" });
  assert.equal((await failure(stranger.otp.get("otp_1"))).code, "UNAUTHORIZED");
  assert.equal((await failure(client(server.url, { apiKey: "x" }).admin.clock.get())).code, "NO_KEY");
});

test("a message waits for the channel, and its template keeps its names", async () => {
  const to = phone();
  const parameters = ["Ada", "7"].map((text) => ({ type: "text", text }));
  const template = { name: "order_update", components: [{ type: "body", parameters }] };
  const sent = await api.messages.send({ to, template, wait: 20 });
  assert.equal(sent.status, "sent");
  const message: Schemas["Message"] = await api.messages.get(sent.messageId);
  assert.deepEqual([message.to, message.template?.name], [to, "order_update"]);
});

test("lists page by themselves", async () => {
  const mark = phone();
  const names = [0, 1, 2, 3, 4].map((at) => `${mark} ${at}`);
  for (const name of names) {
    await api.contacts.create({ name, customFields: { some_key: { a_b: 1 }, otherKey: [name] } });
  }
  for (const limit of [1, 2, 5, 200]) {
    const found = await take(api.contacts.list({ search: mark, limit }));
    assert.deepEqual(found.map((it) => it.name).sort(), names);
  }
  const [first] = await take(api.contacts.list({ search: names[0] ?? "" }));
  assert.deepEqual(first?.customFields, { some_key: { a_b: 1 }, otherKey: [names[0]] });
  const pages = await take(api.contacts.list({ search: mark, limit: 2 }).pages());
  const shape = pages.map((it) => [it.page, it.total, it.data.length]);
  assert.deepEqual(shape, [[1, 5, 2], [2, 5, 2], [3, 5, 1]]);
  const listed = await take(api.contacts.list());
  const exported = await take(api.contacts.export());
  const ids = (rows: { id: string }[]): string[] => rows.map((it) => it.id);
  assert.deepEqual(ids(listed).sort(), ids(exported).sort());
  const rest = await take(api.contacts.export({ after: exported[1]?.id ?? "" }));
  assert.deepEqual(ids(rest), ids(exported).slice(2));
});

test("the log is read to its end, and its events have types", async () => {
  const to = phone();
  for (let at = 0; at < 3; at++) await api.otp.send({ phone: to });
  const found = await take(api.events.list({ type: "otp.sent", limit: 2 }));
  const codes = found.filter((it) => it.type === "otp.sent" && it.data.phone === to);
  assert.equal(codes.length, 3);
  const all = await take(api.events.list({ limit: 3 }));
  assert.deepEqual(all.map((it) => it.sequence), all.map((_, at) => at + 1));
});

test("null clears and what is left out stays", async () => {
  const made = await api.contacts.create({ name: "Ada", phone: phone(), email: "a@example.com" });
  const changed = await api.contacts.update(made.id, { name: "Ada L.", email: null });
  assert.deepEqual([changed.name, changed.phone, changed.email ?? null], ["Ada L.", made.phone, null]);
  assert.equal(await api.contacts.delete(made.id), undefined);
  assert.equal((await failure(api.contacts.get(made.id))).code, "NOT_FOUND");
});

test("names without a rule find their way to the server and back", async () => {
  await api.admin.workspaces.create({ id: "limits", name: "Limits" });
  const limits = await api.admin.limits.set("limits", { otpPerPhone10m: 7, bytesMax: 1e9 });
  assert.deepEqual([limits.otpPerPhone10m, limits.bytesMax], [7, 1e9]);
  assert.deepEqual((await api.admin.credits.set("limits", { credits: 7 })).credits, 7);
});

test("an id is one segment of a path", async () => {
  for (const id of ["", ".", ".."]) {
    assert.throws(() => api.contacts.delete(id), TypeError);
  }
  await withFake(refused(404, "NOT_FOUND"), async (fake) => {
    await failure(client(fake.url).contacts.get("a/b?c#d%"));
    assert.equal(fake.seen[0]?.path, "/v1/contacts/a%2Fb%3Fc%23d%25");
  });
  await api.suppressions.create({ phone: "+15550197532" });
  await api.suppressions.delete("+15550197532");
});

test("what is not Postrider is said to be", async () => {
  for (const body of ["<html>", ""]) {
    await withFake({ status: 200, body }, async (fake) => {
      const error = await failure(client(fake.url).otp.send({ phone: phone() }));
      assert.equal(error.code, "UNEXPECTED_ANSWER");
    });
  }
  for (const body of ["<html>", "null", "[]", '{"code": 7}']) {
    await withFake({ status: 404, body }, async (fake: Fake) => {
      const error = await failure(client(fake.url).otp.get("otp_1"));
      assert.deepEqual([error.code, error.status], ["UNEXPECTED_ANSWER", 404]);
    });
  }
});

test("who ends a call gets the signal's reason", async () => {
  const controller = new AbortController();
  await withFake(refused(503, "SERVICE_UNAVAILABLE", 50), async (fake) => {
    const options = { maxRetries: 9 };
    const waiting = client(fake.url, options, () => controller.abort(new Error("enough")));
    const call = waiting.otp.get("otp_1", { signal: controller.signal });
    await assert.rejects(call, /enough/);
    await assert.rejects(waiting.otp.get("otp_1", { signal: controller.signal }), /enough/);
    assert.equal(fake.seen.length, 1);
  });
});

test("a body that may be left out is left out", async () => {
  await withFake(refused(418, "TEAPOT"), async (fake) => {
    const api = client(fake.url);
    await assert.rejects(api.conversations.markRead("cnv_1"));
    await assert.rejects(api.conversations.markRead("cnv_1", { typing: false }));
    assert.deepEqual(fake.seen.map((it) => it.body), ["", '{"typing":false}']);
  });
});
