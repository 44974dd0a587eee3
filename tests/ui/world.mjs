/**
 * A server for a test: the built binary on a free port, with a data directory of its own. Where
 * POSTRIDER_UI names a link of a server that runs already, that one is taken.
 */
import { test as base, expect } from '@playwright/test';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const BINARY = process.env.POSTRIDER ?? path.resolve('../debug/postrider');
export const APP = process.env.POSTRIDER_APP ?? path.resolve('../../src/ui/app');

async function startServer() {
  const running = process.env.POSTRIDER_UI;
  if (running) return { link: running, origin: new URL(running).origin, key: process.env.POSTRIDER_KEY ?? '', stop: async () => {} };
  const directory = mkdtempSync(path.join(tmpdir(), 'postrider-ui-'));
  const server = spawn(BINARY, ['--data-dir', directory, '--listen', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, NO_COLOR: '1' } });
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
  const stop = () => new Promise((done) => {
    server.removeAllListeners('exit');
    server.on('exit', () => {
      rmSync(directory, { recursive: true, force: true });
      done();
    });
    server.kill('SIGKILL');
  });
  return { link, origin: new URL(link).origin, key: readFileSync(path.join(directory, 'demo.key'), 'utf8').trim(), stop, said: () => said };
}

export const test = base.extend({
  world: [async ({}, use) => {
    const server = await startServer();
    const api = async (method, where, body) => {
      const answer = await fetch(server.origin + where, {
        method, headers: { Authorization: `Bearer ${server.key}`, ...(body ? { 'Content-Type': 'application/json' } : {}) }, body: body ? JSON.stringify(body) : null,
      });
      const text = await answer.text();
      return text ? JSON.parse(text) : null;
    };
    await use({ ...server, api });
    await server.stop();
  }, { scope: 'worker' }],

  /** A page that is signed in, and that fails a test on an error, a broken policy or another origin. */
  signed: async ({ page, world }, use) => {
    const wrong = [];
    page.on('pageerror', (error) => wrong.push(String(error)));
    page.on('console', (message) => /Content Security Policy|TrustedScript|Trusted Type/.test(message.text()) && wrong.push(message.text()));
    page.on('request', (request) => new URL(request.url()).origin !== world.origin && !/^(blob|data):/.test(request.url()) && wrong.push(`left the origin: ${request.url()}`));
    const first = !signedIn.get(world);
    if (first) {
      await page.goto(world.link);
      await page.getByRole('heading', { level: 1 }).waitFor();
      signedIn.set(world, await page.context().storageState());
    } else await page.context().addCookies(signedIn.get(world).cookies);
    if (first) expect(page.url()).not.toContain('#in=');
    await use(page);
    expect(wrong).toEqual([]);
  },
});

/** A link works once, so the cookie that it gave is kept for the tests after. */
const signedIn = new WeakMap();

export { expect };

/** Things to show, with names and texts that are hostile, long or right to left. */
export async function fill(api) {
  const hostile = '<img src=x onerror="document.title=1">';
  await api('POST', '/v1/otp/send', { phone: '+15550100001' });
  await api('POST', '/v1/sandbox/inbound', { from: '+15550100002', name: hostile, text: `${hostile} <script>document.title=1</script>` });
  await api('POST', '/v1/sandbox/inbound', { from: '+966555000044', name: 'ليلى العلي', text: 'مرحبا، أين طلبي؟' });
  await api('POST', '/v1/sandbox/inbound', { from: '+4915550003', name: 'Maximilian-Alexander von Hohenstaufen-Württemberg', text: 'Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen' });
  await api('POST', '/v1/messaging/send', { to: '+15550100001', type: 'template', template: { name: 'welcome', language: 'en' } });
  await api('POST', '/v1/contacts', { name: `${hostile} two`, phone: '+15550100009', tags: ['vip', hostile.slice(0, 20)], custom_fields: { city: hostile } });
  await api('POST', '/v1/segments', { name: `Gold ${hostile}`, filter: { tags_any: ['vip'] } });
  const hook = await api('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/hooks', events: ['otp.verified'] });
  await api('POST', `/v1/webhooks/${hook.id}/test`);
  await api('POST', '/v1/messaging/broadcasts', { name: `Spring ${hostile}`, template_name: 'spring_sale', recipients: ['+15550100001', '+15550100009'] });
  return { hook: hook.id };
}
