// Webhooks: those of the server are taken, forgeries are not.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import { PostriderError, verifyWebhook, verifyWebhookBatch } from "postrider";

import { Server } from "./server.js";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY = JSON.stringify({
  id: "evt_1", type: "otp.verified", timestamp: "2026-01-31T09:25:00.000Z", sequence: 1,
  data: { request_id: "otp_1", phone: "+15550123456" },
});
const server = new Server();

before(() => server.start());
after(() => server.end());

/** Headers as the standard says, without the library that reads them. */
function signed(body: string, at = Date.now() / 1000): Record<string, string> {
  const seconds = String(Math.floor(at));
  const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
  const mac = createHmac("sha256", key).update(`evt_1.${seconds}.${body}`).digest("base64");
  return { "Webhook-Id": "evt_1", "Webhook-Timestamp": seconds, "Webhook-Signature": `v1,${mac}` };
}

test("the server's webhooks are taken", async () => {
  const came: [IncomingHttpHeaders, Buffer][] = [];
  const endpoint = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      came.push([request.headers, Buffer.concat(parts)]);
      response.writeHead(204).end();
      endpoint.emit("came");
    });
  });
  await once(endpoint.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/hooks`;
  const api = server.client();
  const hook = await api.webhooks.create({ url, events: ["otp.sent"] });
  const batched = await api.webhooks.create({ url, events: ["otp.sent"], batch: true });
  await api.otp.send({ phone: "+15550123411" });
  while (came.length < 2) await once(endpoint, "came");
  for (const [headers, body] of came) {
    const isBatch = body.toString().startsWith("[");
    const [event] = isBatch
      ? verifyWebhookBatch(body, headers, batched.secret)
      : [verifyWebhook(body, headers, hook.secret)];
    assert.ok(event?.type === "otp.sent");
    assert.equal(event.data.phone, "+15550123411");
    assert.match(event.data.requestId, /^otp_/);
    if (isBatch) assert.throws(() => verifyWebhook(body, headers, batched.secret), /batch/);
    else assert.deepEqual(verifyWebhookBatch(body, headers, hook.secret), [event]);
  }
  endpoint.close();
});

test("headers may be as fetch or as Node.js has them", () => {
  const good = signed(BODY);
  const lower = Object.fromEntries(Object.entries(good).map(([k, v]) => [k.toLowerCase(), [v]]));
  for (const headers of [good, lower, new Headers(good)]) {
    const event = verifyWebhook(new TextEncoder().encode(BODY), headers, `${SECRET}\n`);
    assert.ok(event.type === "otp.verified");
    assert.deepEqual(event.data, { requestId: "otp_1", phone: "+15550123456" });
  }
});

test("forgeries are refused", () => {
  const good = signed(BODY);
  const signature = good["Webhook-Signature"] ?? "";
  const now = Date.now() / 1000;
  const other = (name: string, value: string): Record<string, string> => ({ ...good, [name]: value });
  const without = (name: string): Record<string, string> =>
    Object.fromEntries(Object.entries(good).filter(([it]) => it !== name));
  const forgeries: [string, string | Uint8Array, Record<string, string>, string][] = [
    ["another body", BODY.replace("3456", "3457"), good, SECRET],
    ["another secret", BODY, good, `whsec_${Buffer.from("x".repeat(24)).toString("base64")}`],
    ["another id", BODY, other("Webhook-Id", "evt_2"), SECRET],
    ["another time", BODY, other("Webhook-Timestamp", String(Math.floor(now) + 1)), SECRET],
    ["old", BODY, signed(BODY, now - 400), SECRET],
    ["of the future", BODY, signed(BODY, now + 400), SECRET],
    ["no time", BODY, other("Webhook-Timestamp", "soon"), SECRET],
    ["no text", new Uint8Array([0xff]), good, SECRET],
    ...Object.keys(good).map((it) => [`no ${it}`, BODY, without(it), SECRET] as const),
    ...["", "whsec_", "whsec_!"].map((it) => [`secret ${it}`, BODY, good, it] as const),
    ...["", "v1", "v1,", ",", "v1,!", `v2,${signature.slice(3)}`, signature.slice(0, -2)].map(
      (it) => [`signature ${it}`, BODY, other("Webhook-Signature", it), SECRET] as const,
    ),
    ...["", "not JSON"].map((it) => [`body ${it}`, it, signed(it), SECRET] as const),
  ].map((it) => [...it] as [string, string | Uint8Array, Record<string, string>, string]);
  for (const [what, body, headers, secret] of forgeries) {
    const refused = (error: unknown): boolean =>
      error instanceof PostriderError && error.code === "WEBHOOK_NOT_VERIFIED";
    assert.throws(() => verifyWebhook(body, headers, secret), refused, what);
  }
});
