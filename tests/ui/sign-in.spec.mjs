/** Who comes in, what they see, and what strangers cannot do. */
import { createServer } from 'node:http';
import { expect, guard, heading, limit, signIn, test, visit } from './world.mjs';

test('signed out, a page leads to "Sign in" and back', async ({ page, world }) => {
  await page.goto(`${world.origin}/ui/operator/audit?workspace=demo`);
  await expect(heading(page, 'Sign in')).toBeVisible();
  expect(page.url()).toContain('next=%2Foperator%2Faudit%3Fworkspace%3Ddemo');
  await page.getByText('Use an admin token').click();
  await page.getByLabel('Admin token').fill(world.admin);
  await page.getByRole('button', { name: 'Sign in with token' }).click();
  await expect(heading(page, 'Operator')).toBeVisible();
  expect(page.url()).toContain('/ui/operator/audit?workspace=demo');
});

test('a link works once, leaves no trace in the address or the log', async ({ page, world, browser }) => {
  const wrong = guard(page, world);
  await signIn(page, world.link);
  await expect(heading(page, 'Phone')).toBeVisible();
  const stranger = await browser.newContext();
  const second = await stranger.newPage();
  await second.goto(world.link);
  await expect(second.getByRole('alert')).toHaveText('This link has been used or is too old');
  await expect(heading(second, 'Sign in')).toBeVisible();
  await stranger.close();
  const token = new URL(world.link).hash.slice('#in='.length);
  // The banner is the only place that has it.
  expect(world.said().split(token)).toHaveLength(2);
  expect(wrong).toEqual([]);
});

test('a link that is opened where the page is open already signs in as whom it is for', async ({ signed: page, world }) => {
  const link = await world.person('agent');
  await page.goto(link.split('#')[0]);
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  await page.goto(link);
  await expect(page.getByRole('button', { name: 'Account' })).toContainText('agent@example.com');
  expect(page.url()).not.toContain('#in=');
});

const SEES = {
  agent: { menu: ['Inbox', 'Contacts', 'Templates', 'Analytics'], not: ['API keys', 'Webhooks', 'Codes', 'Import', 'Operator'] },
  marketer: { menu: ['Broadcasts', 'Segments', 'Templates', 'Analytics'], not: ['API keys', 'Codes', 'Messages', 'Operator'] },
  analyst: { menu: ['Analytics', 'Broadcasts'], not: ['Inbox', 'Contacts', 'API keys', 'Phone', 'Operator'] },
  developer: { menu: ['API keys', 'Webhooks', 'Events', 'Codes'], not: ['Operator'] },
};

test('each role has its menu, and its pages call nothing that it may not', async ({ world, browser }) => {
  for (const [role, { menu, not }] of Object.entries(SEES)) {
    const context = await browser.newContext();
    const page = await context.newPage();
    const wrong = guard(page, world);
    page.on('response', (answer) => {
      if ([401, 403].includes(answer.status())) wrong.push(`${role}: ${answer.status()} ${answer.url()}`);
    });
    await signIn(page, await world.person(role));
    const main = page.getByRole('navigation', { name: 'Main' });
    for (const name of menu) await expect(main.getByRole('link', { name, exact: true }), role).toBeVisible();
    for (const name of not) await expect(main.getByRole('link', { name, exact: true }), role).toHaveCount(0);
    for (const name of menu) {
      await main.getByRole('link', { name, exact: true }).click();
      await expect(heading(page, name), role).toBeVisible();
      await expect(page.locator('.skeleton')).toHaveCount(0);
    }
    expect(wrong).toEqual([]);
    await context.close();
  }
});

test('a page that a role may not see makes no call, and the server refuses what it would call', async ({ page, world }) => {
  await world.api('POST', '/admin/v1/workspaces', { id: 'other', name: 'Other' });
  await signIn(page, await world.person('agent'));
  const calls = [];
  page.on('request', (request) => /\/(v1|admin)\//.test(request.url()) && calls.push(request.url()));
  await visit(page, '/keys');
  await expect(heading(page, 'Not allowed')).toBeVisible();
  expect(calls).toEqual([]);
  const status = (path, workspace = 'demo') => page.evaluate(async ([where, name]) => {
    const answer = await fetch(where, { headers: { 'Postrider-Workspace': name } });
    return answer.status;
  }, [path, workspace]);
  expect(await status('/admin/v1/workspaces/demo/keys')).toBe(403);
  expect(await status('/v1/conversations', 'other')).toBe(404);
  expect(await status('/admin/v1/workspaces/other/keys')).toBe(404);
  expect(await status('/v1/conversations')).toBe(200);
});

test('another origin changes nothing and reads nothing', async ({ signed: page, world, context }) => {
  const form = `<!doctype html><meta charset=utf-8><title>elsewhere</title>
    <form method=post enctype=text/plain action="${world.origin}/v1/otp/send"><input name='{"phone":"+15550100066","x":"' value='"}'></form>`;
  const server = createServer((request, response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end(form));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const port = server.address().port;
  const sent = async () => JSON.stringify(await world.api('GET', '/v1/sandbox/messages?limit=50'));
  for (const host of ['127.0.0.1', 'localhost']) {
    const elsewhere = await context.newPage();
    await elsewhere.goto(`http://${host}:${port}/`);
    const read = await elsewhere.evaluate(async (origin) => {
      const out = [];
      for (const init of [{}, { credentials: 'include' }, { method: 'POST', credentials: 'include', mode: 'no-cors', body: '{"phone":"+15550100066"}' }]) {
        try {
          const answer = await fetch(`${origin}/v1/${init.method ? 'otp/send' : 'me'}`, init);
          if (answer.type !== 'opaque') out.push(await answer.text());
        } catch {
          // What is wanted: the browser gives nothing.
        }
      }
      out.push(...(await new Promise((done) => {
        const source = new EventSource(`${origin}/v1/events/stream?workspace=demo`, { withCredentials: true });
        source.onerror = () => (source.close(), done([]));
        source.onopen = () => (source.close(), done(['a stream']));
      })));
      return out;
    }, world.origin);
    expect(read).toEqual([]);
    await elsewhere.evaluate(() => document.forms[0].submit());
    await elsewhere.waitForLoadState();
    await elsewhere.close();
  }
  expect(await sent()).not.toContain('+15550100066');
  server.close();
  await page.reload();
  await expect(heading(page, 'Phone')).toBeVisible();
});

test('a stream ends soon after its session', async ({ signed: page, world, context }) => {
  const cookie = (await context.cookies()).map((it) => `${it.name}=${it.value}`).join('; ');
  const headers = { Cookie: cookie, 'Sec-Fetch-Site': 'same-origin' };
  const stream = await fetch(`${world.origin}/v1/events/stream?workspace=demo`, { headers });
  expect(stream.status).toBe(200);
  const ended = (async () => {
    for await (const piece of stream.body) void piece;
  })().catch(() => {});
  await page.getByRole('button', { name: 'Account' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await expect(heading(page, 'Sign in')).toBeVisible();
  const started = Date.now();
  await ended;
  const took = Date.now() - started;
  expect(took).toBeLessThan(limit(20_000));
  const again = await fetch(`${world.origin}/v1/me`, { headers });
  expect(again.status).toBe(401);
});
