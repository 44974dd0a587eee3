/** What a test has: a server of its own, people to be, and a page that fails a test on what it must not do. */
import { test as base, expect } from '@playwright/test';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const BINARY = process.env.POSTRIDER ?? path.resolve('../debug/postrider');
export const APP = path.resolve('../../src/ui/app');

/** Whether tests have the size that is promised, or one that ends in time: `POSTRIDER_UI_FULL=1`. */
export const FULL = process.env.POSTRIDER_UI_FULL === '1';
/** @template T @param {T} small @param {T} full @returns {T} */
export const size = (small, full) => (FULL ? full : small);

/** A limit of time that holds on a machine that does nothing else, as it is on this one: what else runs has the cores
 * too, so it is as many times longer as a thread takes longer for a computation than it has a core.
 * @param {number} ms */
export function limit(ms) {
  const started = performance.now();
  const before = process.cpuUsage();
  let own = 0;
  while (own < 200) {
    const { user, system } = process.cpuUsage(before);
    own = (user + system) / 1000;
  }
  return ms * Math.max(1, (performance.now() - started) / own);
}

/** The built binary on a free port, or, started again, on the port that it had.
 * @param {string} directory of its data @param {Record<string, string>} more of its environment */
async function start(directory, more, listen = '127.0.0.1:0') {
  const arguments_ = ['--data-dir', directory, '--listen', listen];
  const server = spawn(BINARY, arguments_, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...more, NO_COLOR: '1' } });
  let said = '';
  const link = await new Promise((found, fail) => {
    const heard = (piece) => {
      said += piece;
      const line = /dashboard\s+(http:\/\/\S+#in=\S+)/.exec(said);
      if (line) found(line[1]);
    };
    server.stdout.on('data', heard);
    server.stderr.on('data', heard);
    server.on('exit', (code) => fail(new Error(`the server ended with ${code}: ${said}`)));
  });
  const kill = () => new Promise((done) => {
    server.removeAllListeners('exit');
    server.on('exit', done);
    server.kill('SIGKILL');
  });
  return { link, kill, said: () => said };
}

/** A server of its own, and what a test does with it. */
export async function makeWorld(env = {}) {
  const directory = mkdtempSync(path.join(tmpdir(), 'postrider-ui-'));
  let server = await start(directory, env);
  const { link } = server;
  const { origin, host } = new URL(link);
  const secret = (name) => readFileSync(path.join(directory, name), 'utf8').trim();
  const key = secret('demo.key');
  const admin = secret('admin.token');

  /** A call with the workspace's key, below /admin with the admin token. A refusal is thrown. */
  const api = async (method, where, body) => {
    const token = where.startsWith('/admin/') ? admin : key;
    const headers = { Authorization: `Bearer ${token}`, ...(body ? { 'Content-Type': 'application/json' } : {}) };
    const answer = await fetch(origin + where, { method, headers, body: body ? JSON.stringify(body) : null });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${where}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
  return {
    origin, link, key, admin, api, directory,
    said: () => server.said(),
    /** The link of somebody with a role in the workspace. */
    person: async (role, email = `${role}@example.com`) =>
      (await api('POST', '/admin/v1/users/link', { email, workspace: 'demo', role })).url,
    kill: () => server.kill(),
    /** On the port that it had. */
    restart: async () => {
      server = await start(directory, env, host);
      return server.link;
    },
    end: async () => {
      await server.kill();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** What a page must never do: an error, what its policy forbids, a request that leaves the origin. */
export function guard(page, world) {
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(String(error)));
  page.on('console', (message) => {
    if (/Content Security Policy|TrustedScript|Trusted Type/.test(message.text())) wrong.push(message.text());
  });
  page.on('request', (request) => {
    const address = request.url();
    if (new URL(address).origin !== world.origin && !/^(blob|data):/.test(address)) wrong.push(`left the origin: ${address}`);
  });
  return wrong;
}

/** Signs in by a link. */
export async function signIn(page, link) {
  await page.goto(link);
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  expect(page.url()).not.toContain('#in=');
}

export const test = base.extend({
  /** Settings of its server. */
  env: async ({}, use) => use({}),

  world: async ({ env }, use) => {
    const world = await makeWorld(env);
    await use(world);
    await world.end();
  },

  /** A page of the owner, signed in. */
  signed: async ({ page, world }, use) => {
    const wrong = guard(page, world);
    await signIn(page, world.link);
    await use(page);
    expect(wrong).toEqual([]);
  },
});

export { expect };

export const heading = (page, name) => page.getByRole('heading', { level: 1, name, exact: true });

/** Another page by its address, as a click on a link goes there: the modules stay loaded. */
export async function visit(page, where) {
  await page.evaluate((to) => {
    history.pushState({}, '', `/ui${to}`);
    dispatchEvent(new PopStateEvent('popstate'));
  }, where);
}

/** The newest message that a phone of the sandbox has; it comes after the answer to what sent it. */
export async function received({ api }, phone) {
  for (;;) {
    const [message] = (await api('GET', `/v1/sandbox/messages?to=${encodeURIComponent(phone)}&limit=1`)).data;
    if (message) return message;
    await new Promise((done) => setTimeout(done, 20));
  }
}

export const HOSTILE = '<img src=x onerror="document.title=1">';

/** Things to show, with names and texts that are hostile, long or right to left. */
export async function fill({ api }) {
  await api('POST', '/v1/otp/send', { phone: '+15550100001' });
  const write = (from, name, text) => api('POST', '/v1/sandbox/inbound', { from, name, text });
  await write('+15550100002', HOSTILE, `${HOSTILE} <script>document.title=1</script>`);
  await write('+966555000044', 'ليلى العلي', 'مرحبا، أين طلبي؟');
  await write(
    '+4915550003',
    'Maximilian-Alexander von Hohenstaufen-Württemberg',
    'Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen',
  );
  await api('POST', '/v1/messaging/send', { to: '+15550100001', type: 'template', template: { name: 'welcome', language: 'en' } });
  const tags = ['vip', HOSTILE.slice(0, 20)];
  const contact = await api('POST', '/v1/contacts', {
    name: `${HOSTILE} two`, phone: '+15550100009', tags, custom_fields: { city: HOSTILE },
  });
  const segment = await api('POST', '/v1/segments', { name: `Gold ${HOSTILE}`, filter: { tags_any: ['vip'] } });
  const hook = await api('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/hooks', events: ['otp.verified'] });
  await api('POST', `/v1/webhooks/${hook.id}/test`);
  const name = `Spring ${HOSTILE}`;
  const broadcast = await api('POST', '/v1/messaging/broadcasts', {
    name, template_name: 'spring_sale', recipients: ['+15550100001', '+15550100009'],
  });
  const conversation = (await api('GET', '/v1/conversations?limit=1')).data[0];
  return { contact, segment, hook, broadcast: { ...broadcast, name }, conversation };
}
