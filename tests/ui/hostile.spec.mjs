/** What strangers wrote, in every field that one of them fills in, is text and nothing else. */
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { expect, fill, heading, HOSTILE, signIn, test, visit } from './world.mjs';

/** Posts a mail as a mail service does. */
async function mail(world, { secret, callback_path: where }, body) {
  const text = JSON.stringify(body);
  const [id, at] = [`mail-${Math.random()}`, String(Math.floor(Date.now() / 1000))];
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${at}.${text}`).digest('base64');
  const headers = { 'Content-Type': 'application/json', 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': `v1,${signature}` };
  const answer = await fetch(world.origin + where, { method: 'POST', headers, body: text });
  expect(answer.status, await answer.text()).toBeLessThan(300);
}

/** A page shows the text literally, has made nothing of it, and keeps its own title. */
async function isText(page, place, text = HOSTILE) {
  await expect(place).toContainText(text);
  expect(await page.locator('[src="x"], [onerror], iframe, main script').count()).toBe(0);
  expect(await page.title()).toMatch(/ · Postrider$/);
}

test('mails, names, agents and files of strangers are text on every page that shows them', async ({ signed: page, world, browser }) => {
  const main = page.getByRole('main');
  const made = await fill(world);
  const channel = await world.api('POST', '/admin/v1/workspaces/demo/email');
  await mail(world, channel, {
    from: '"<img src=x onerror=1> Ana" <ana@example.com>', to: 'help@example.com', subject: `Subject ${HOSTILE}`,
    text: `Text ${HOSTILE} https://phish.example.com/`, message_id: '<1@mail.example.com>',
  });
  const mailed = (await world.api('GET', '/v1/conversations?limit=10')).data.find((it) => it.channel === 'email');
  await visit(page, `/inbox/${mailed.id}`);
  const thread = page.getByRole('log', { name: 'Thread' });
  await isText(page, thread, `Text ${HOSTILE}`);
  await isText(page, page.getByRole('list', { name: 'Conversations' }), '<img src=x onerror=1> Ana');
  // A link in a message is text: nothing leads out of the page.
  expect(await main.locator('a[href^="http"]').count()).toBe(0);

  // Who joins chooses a name, and a browser its own.
  const context = await browser.newContext({ userAgent: `Agent ${HOSTILE}` });
  const stranger = await context.newPage();
  await signIn(stranger, await world.person('agent'));
  await visit(stranger, '/me');
  await isText(stranger, stranger.getByRole('table', { name: 'Sessions' }), 'Agent <img src=x onerror=');
  const { url } = await world.api('POST', '/admin/v1/workspaces/demo/invites', { email: 'eve@example.com', role: 'agent' });
  await world.api('POST', '/admin/v1/workspaces/demo/keys', { name: HOSTILE, scopes: ['contacts:read'] });
  const joined = await fetch(`${world.origin}/ui/api/join`, {
    method: 'POST', headers: { 'Content-Type': 'application/json', 'Sec-Fetch-Site': 'same-origin' },
    body: JSON.stringify({ invite: url.split('#invite=')[1], name: `Eve ${HOSTILE}`, password: 'correct horse battery staple' }),
  });
  expect(joined.status).toBe(200);
  await visit(page, '/settings/people');
  await isText(page, page.getByRole('table', { name: 'Members' }), `Eve ${HOSTILE}`);
  await visit(page, '/keys');
  await isText(page, page.getByRole('table', { name: 'API keys' }));
  await visit(page, '/operator/audit');
  await isText(page, page.getByRole('table', { name: 'Audit log' }), 'eve@example.com');

  // What a file has, before and after it was refused.
  const bad = `"${HOSTILE.replaceAll('"', '""')} row"`;
  const csv = `name,phone,${bad}\r\n${bad},${bad},=1+1\r\n`;
  await visit(page, '/import');
  await page.getByLabel('CSV file').setInputFiles({ name: `${HOSTILE}.csv`, mimeType: 'text/csv', buffer: Buffer.from(csv) });
  await isText(page, page.getByRole('table', { name: 'Preview' }), `${HOSTILE} row`);
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  await expect(page.getByRole('status', { name: 'Refused' })).toHaveText('1');
  await isText(page, page.getByRole('table', { name: 'Refused rows' }), `${HOSTILE} row`);
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download refused rows' }).click()]);
  // A spreadsheet reads no cell as a formula.
  expect(readFileSync(await file.path(), 'utf8')).toContain(",'=1+1");

  // What the interface answers, as it is.
  await visit(page, '/explorer/listContacts');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await isText(page, page.getByRole('region', { name: 'Answer' }), '<img src=x onerror=');
  await visit(page, `/events?about=${encodeURIComponent('+15550100002')}`);
  await page.getByRole('table', { name: 'Events' }).getByRole('row').filter({ hasText: 'message.received' }).locator('a, button').first().click();
  await isText(page, page.getByRole('complementary', { name: 'Event' }), '<img src=x onerror=');

  // In the search, and as the workspace's own name, which every page shows.
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('dialog', { name: 'Search' })).toBeVisible();
  await page.keyboard.type('two');
  await isText(page, page.getByRole('listbox', { name: 'Search results' }), `${HOSTILE} two`);
  await page.keyboard.press('Escape');
  await world.api('PATCH', '/v1/contacts/' + made.contact.id, { name: `${HOSTILE} three` });
  await visit(page, `/contacts/${made.contact.id}`);
  await isText(page, heading(page, `${HOSTILE} three`), `${HOSTILE} three`);
  await context.close();
});

test('what a provider answers is text', async ({ signed: page, world }) => {
  const provider = createServer((request, response) => {
    const error = { message: `No ${HOSTILE}`, type: 'OAuthException', code: 190 };
    request.resume().on('end', () => response.writeHead(401, { 'Content-Type': 'application/json' }).end(JSON.stringify({ error })));
  });
  await new Promise((done) => provider.listen(0, '127.0.0.1', done));
  // A server that sends through it, as its settings say.
  await world.kill();
  process.env.POSTRIDER__CLOUD_API__BASE_URL = `http://127.0.0.1:${provider.address().port}`;
  const link = await world.restart();
  delete process.env.POSTRIDER__CLOUD_API__BASE_URL;
  await signIn(page, link);
  const numbers = '/admin/v1/workspaces/demo/numbers';
  for (const old of (await world.api('GET', numbers)).data) await world.api('DELETE', `${numbers}/${old.id}`);
  const number = await world.api('POST', numbers, {
    kind: 'cloud_api', phone: '+15550001111', phone_number_id: '1065403522', account_id: '1022901293', token: 'a-token',
    app_secret: 'secret-of-the-app', verify_token: 'verify-me',
  });
  await world.api('POST', '/v1/messaging/send', { to: '+15550100801', type: 'template', template: { name: 'welcome', language: 'en' } });
  await visit(page, `/operator/numbers/demo/${number.id}`);
  await isText(page, page.getByRole('status', { name: 'Number state' }), '<img src=x onerror=');
  provider.close();
});

test('an address in a message is text until somebody asks for it', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/sandbox/inbound', { from: '+15550100911', name: 'Mallory', text: 'See https://раураl.example.com/x?y=1 now' });
  const { id } = (await world.api('GET', '/v1/conversations?limit=1')).data[0];
  await visit(page, `/inbox/${id}`);
  const thread = page.getByRole('log', { name: 'Thread' });
  await expect(thread).toContainText('https://раураl.example.com/x?y=1');
  expect(await thread.locator('a').count()).toBe(0);
  await thread.getByText('https://раураl.example.com/x?y=1', { exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Leave Postrider?' });
  // The name as it is looked up: no letter of another alphabet passes for a known one.
  await expect(dialog).toContainText('https://xn--');
  await expect(dialog).not.toContainText('раураl');
});
