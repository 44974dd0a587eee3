// A sandbox of its own, and servers between that lose answers or refuse.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { Postrider, type PostriderOptions } from "postrider";

const START_MS_MAX = 120_000;
// What is on disk after a power cut is not tested here, so a busy disk need not be waited for.
const MEMORY = "/dev/shm";

/** The binary under test, which can be stopped, killed and started again on its port. */
export class Server {
  readonly directory = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "postrider-"));
  url = "";
  key = "";
  token = "";
  #address = "127.0.0.1:0";
  #process: ChildProcess | undefined;

  async start(): Promise<this> {
    const data = join(this.directory, "data");
    const banner = join(this.directory, "banner");
    const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("POSTRIDER_"));
    const limits = ["KEY_REQUESTS_PER_HOUR", "OTP_PER_PHONE_10M", "OTP_PER_WORKSPACE_HOUR"];
    const none = limits.map((name) => [`POSTRIDER__LIMITS__${name}`, "0"] as const);
    const binary = process.env["POSTRIDER_BINARY"] ?? "";
    const log = openSync(join(this.directory, "log"), "a");
    this.#process = spawn(binary, ["--listen", this.#address, "--data-dir", data], {
      env: Object.fromEntries([...kept, ...none]),
      stdio: ["ignore", openSync(banner, "w"), log],
    });
    const end = Date.now() + START_MS_MAX;
    let text = "";
    while (!/listens on \S+\s/.test(text)) {
      if (this.#process.exitCode !== null || Date.now() > end) {
        throw new Error(readFileSync(join(this.directory, "log"), "utf8"));
      }
      await delay(20);
      text = readFileSync(banner, "utf8");
    }
    this.url = /listens on (\S+)/.exec(text)?.[1] ?? "";
    this.#address = this.url.replace("http://", "");
    this.key = readFileSync(join(data, "demo.key"), "utf8");
    this.token = readFileSync(join(data, "admin.token"), "utf8");
    return this;
  }

  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    if (this.#process === undefined || this.#process.exitCode !== null) return;
    const ended = once(this.#process, "exit");
    this.#process.kill(signal);
    await ended;
  }

  async end(): Promise<void> {
    await this.stop("SIGKILL");
    rmSync(this.directory, { recursive: true, force: true });
  }

  client(options: Partial<PostriderOptions> = {}): Waiting {
    return client(this.url, { apiKey: this.key, adminToken: this.token, ...options });
  }
}

/** A client, and the milliseconds that it would have waited. */
export type Waiting = Postrider & { waits: number[] };

/** A client that does not wait. `meanwhile` is what happens in a wait. */
export function client(
  baseUrl: string,
  options: Partial<PostriderOptions> = {},
  meanwhile: (waits: number[]) => Promise<void> | void = () => undefined,
): Waiting {
  const waits: number[] = [];
  const sleep = async (wait: number): Promise<void> => {
    waits.push(wait);
    await meanwhile(waits);
  };
  const made = new Postrider({ baseUrl, apiKey: "key", sleep, ...options });
  return Object.assign(made, { waits });
}

export interface Seen {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string;
}

export interface Answer {
  status: number;
  headers?: Record<string, string>;
  body?: string;
}

/** The real server answers; the answer may be lost on its way. */
export const PASSED = "passed";
export const LOST = "lost";
export type Planned = Answer | typeof PASSED | typeof LOST;

/** A refusal as the server writes it. */
export function refused(status: number, code: string, wait?: number, reason?: string): Answer {
  const headers = wait === undefined ? {} : { "retry-after": String(wait) };
  const body = { error: "…", message: "no", code, request_id: "req_1", reason };
  return { status, headers, body: JSON.stringify(body) };
}

async function read(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

/** Answers what is planned, and then what comes otherwise. */
export class Fake {
  readonly seen: Seen[] = [];
  plan: Planned[] = [];
  readonly #server: HttpServer;

  constructor(
    readonly otherwise: Planned,
    readonly behind = "",
  ) {
    this.#server = createServer((request, response) => {
      void (async () => {
        const headers = request.headers as Record<string, string>;
        const { method = "", url: path = "" } = request;
        const seen = { method, path, headers, body: await read(request) };
        this.seen.push(seen);
        const planned = this.plan.shift() ?? this.otherwise;
        const answer = typeof planned === "string" ? await this.#forward(seen) : planned;
        if (planned === LOST) {
          request.socket.destroy();
          return;
        }
        response.writeHead(answer.status, answer.headers).end(answer.body ?? "");
      })();
    });
  }

  async start(): Promise<this> {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #forward({ method, path, headers, body }: Seen): Promise<Answer> {
    const { host: _, connection: __, "content-length": ___, ...kept } = headers;
    const given = body === "" ? {} : { body };
    const answer = await fetch(this.behind + path, { method, headers: kept, ...given });
    const wait = answer.headers.get("retry-after");
    const text = await answer.text();
    return { status: answer.status, headers: wait ? { "retry-after": wait } : {}, body: text };
  }
}

/** Does something with a fake, and ends it. */
export async function withFake(
  otherwise: Planned,
  use: (fake: Fake) => Promise<void>,
  behind = "",
): Promise<void> {
  const fake = await new Fake(otherwise, behind).start();
  try {
    await use(fake);
  } finally {
    await fake[Symbol.asyncDispose]();
  }
}

/** The first rows, or all of them. */
export async function take<Row>(rows: AsyncIterable<Row>, count = Infinity): Promise<Row[]> {
  const found: Row[] = [];
  if (count === 0) return found;
  for await (const row of rows) {
    found.push(row);
    if (found.length === count) break;
  }
  return found;
}
