/** The operator: numbers, the whole server, and a number whose token has expired. */
import { createServer } from 'node:http';
import { damage } from './damage.mjs';
import { expect, heading, limit, signIn, test, visit } from './world.mjs';

test('the operator sees workspaces, numbers and the system at a glance', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/otp/send', { phone: '+15550100401' });
  await world.api('POST', '/v1/messaging/send', { to: '+15550100401', type: 'template', template: { name: 'welcome', language: 'en' } });
  await expect.poll(async () => (await world.api('GET', '/admin/v1/overview')).data[0].messages_last_hour).toBe(1);
  await visit(page, '/operator');
  const row = page.getByRole('table', { name: 'Workspaces' }).getByRole('row', { name: /demo/ });
  await expect(row).toContainText('Live');
  // Codes, messages, numbers stopped, webhooks failing.
  for (const [place, text] of [[3, '1'], [4, '1'], [5, '0'], [6, '0']]) {
    await expect(row.getByRole('cell').nth(place)).toHaveText(text);
  }
  await expect(row.getByRole('button', { name: 'Restart' })).toHaveCount(0);
  await visit(page, '/operator/numbers');
  await expect(page.getByRole('table', { name: 'Numbers' }).getByRole('row', { name: /Sandbox/ })).toContainText('Open');
  await visit(page, '/operator/system');
  await expect(page.getByRole('main')).toContainText(/commit p99 [\d.,]+ ms/);
  await expect(page.getByRole('main')).toContainText('OK');
  const settings = page.getByRole('table', { name: 'Effective settings' });
  // A long table has the rows in sight only.
  await expect(settings.getByRole('row', { name: /admin\.token/ })).toBeVisible();
  const limit = settings.getByRole('row', { name: 'limits.otp_per_phone_10m' });
  await settings.focus();
  // Rows are drawn as they come into view: a page that was passed over at once is never there.
  await expect(async () => {
    if ((await limit.count()) === 0) await page.keyboard.press('PageDown');
    await expect(limit).toHaveCount(1, { timeout: 500 });
  }).toPass();
  await expect(limit).toContainText('5');
});

test('a workspace that is parked is said why, and tried again by its operator', async ({ page, world }) => {
  await world.api('POST', '/admin/v1/workspaces', { id: 'late', name: 'Late' });
  await world.api('POST', '/admin/v1/workspaces/late/numbers', { kind: 'sandbox' });
  await world.api('PUT', '/admin/v1/workspaces/late/credits', { credits: 10 });
  const { key } = await world.api('POST', '/admin/v1/workspaces/late/keys', { name: 'late', scopes: ['messaging:send'] });
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const body = JSON.stringify({ phone: '+15550100900' });
  expect((await fetch(`${world.origin}/v1/otp/send`, { method: 'POST', headers, body })).status).toBe(200);
  await world.kill();
  damage(world.directory, 'late');
  await signIn(page, await world.restart());
  await visit(page, '/operator');
  const late = page.getByRole('table', { name: 'Workspaces' }).getByRole('row', { name: /late/ });
  await expect(late).toContainText('Parked');
  await expect(late).toContainText('not an event');
  await late.getByRole('button', { name: 'Restart' }).click();
  const tried = () => world.api('GET', '/admin/v1/audit?action=workspace.unpark').then((it) => it.data.map((row) => row.target));
  await expect.poll(tried).toEqual(['late']);
  // Its cause is still there. The other workspace works.
  await expect(late).toContainText('not an event');
  await expect(late.getByRole('button', { name: 'Restart' })).toBeVisible();
  const demo = page.getByRole('table', { name: 'Workspaces' }).getByRole('row', { name: /demo/ });
  await expect(demo.getByRole('button', { name: 'Restart' })).toHaveCount(0);
});

test('of two fast navigations the last counts', async ({ signed: page, world }) => {
  let go;
  const held = new Promise((done) => (go = done));
  await page.route(/pages\.js/, async (route) => {
    await held;
    await route.continue();
  });
  await page.goto(`${world.origin}/ui/`);
  await expect(heading(page, 'Home')).toBeVisible();
  await visit(page, '/requests');
  await visit(page, '/phone');
  await expect(page.getByRole('textbox', { name: 'Phone number' })).toBeVisible();
  const loaded = page.waitForResponse(/pages\.js/);
  go();
  const url = (await loaded).url();
  // The modules are there, and the page has had the frames to show one.
  await page.evaluate(async (it) => {
    await import(it);
    for (let i = 0; i < 5; i++) await new Promise(requestAnimationFrame);
  }, url);
  await expect(heading(page, 'Phone')).toBeVisible();
  await expect(page.getByRole('textbox', { name: 'Phone number' })).toBeVisible();
});

test('a page whose script did not arrive opens when it is tried again', async ({ signed: page, world }) => {
  let asked = 0;
  await page.route(/pages\.js/, (route) => (asked++ < 2 ? route.abort() : route.continue()));
  await page.goto(`${world.origin}/ui/`);
  await expect(heading(page, 'Home')).toBeVisible();
  await expect.poll(() => asked).toBeGreaterThan(0);
  await expect(async () => {
    await visit(page, '/phone');
    await visit(page, '/requests');
    await expect(heading(page, 'Requests')).toBeVisible({ timeout: 1000 });
  }).toPass();
  expect(asked).toBe(3);
});

/** The provider's interface, with one token that it takes. */
async function startProvider() {
  const state = { token: 'first-token', sent: [] };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    const expired = request.headers.authorization !== `Bearer ${state.token}`;
    const error = { message: 'Error validating access token: Session has expired', type: 'OAuthException', code: 190 };
    // Templates and the number's state are asked for too, now and then.
    if (!expired && request.method === 'POST') state.sent.push(body);
    const answer = expired ? { error } : { messages: [{ id: `wamid.${state.sent.length}` }] };
    response.writeHead(expired ? 401 : 200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { state, address: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

const journey5 = test.extend({
  provider: async ({}, use) => {
    const provider = await startProvider();
    await use(provider);
    provider.close();
  },
  env: async ({ provider }, use) => use({ POSTRIDER__CLOUD_API__BASE_URL: provider.address }),
});

/** A number of a workspace at this provider. */
const connect = (world, workspace, phone_number_id) => world.api('POST', `/admin/v1/workspaces/${workspace}/numbers`, {
  kind: 'cloud_api', phone: `+1555000${phone_number_id.slice(-4)}`, phone_number_id, account_id: '1022901293', token: 'first-token',
  app_secret: 'secret-of-the-app', verify_token: 'verify-me',
});

journey5('a number that has stopped is on the strip of every role, after a reload too, and an operator sees those of others', async ({ page, world, provider, browser }) => {
  const numbers = '/admin/v1/workspaces/demo/numbers';
  for (const old of (await world.api('GET', numbers)).data) await world.api('DELETE', `${numbers}/${old.id}`);
  const number = await connect(world, 'demo', '1065403522');
  provider.state.token = 'second-token';
  await world.api('POST', '/v1/messaging/send', { to: '+15550100810', type: 'template', template: { name: 'welcome', language: 'en' } });
  await expect.poll(async () => (await world.api('GET', '/v1/workspace')).problems).toHaveLength(1);
  const strip = (it) => it.getByRole('alert', { name: 'Problems' });
  for (const role of ['agent', 'marketer']) {
    const tab = await (await browser.newContext()).newPage();
    await signIn(tab, await world.person(role));
    await expect(strip(tab)).toContainText('190');
    await expect(strip(tab).getByRole('link')).toHaveCount(0);
    await tab.reload();
    await expect(strip(tab)).toContainText('190');
    await tab.context().close();
  }
  // An owner who is no operator looks at it below Settings.
  const owner = await (await browser.newContext()).newPage();
  await signIn(owner, await world.person('owner'));
  await strip(owner).getByRole('link', { name: 'View details' }).click();
  await expect(heading(owner, '+15550003522')).toBeVisible();
  expect(new URL(owner.url()).pathname).toBe(`/ui/settings/numbers/${number.id}`);
  await owner.context().close();
  await world.api('POST', '/admin/v1/workspaces', { id: 'other', name: 'Other' });
  await signIn(page, world.link);
  await page.evaluate(() => localStorage.setItem('workspace', 'other'));
  await page.reload();
  await expect(strip(page)).toContainText('demo: a number has stopped sending');
  await strip(page).getByRole('link', { name: 'View details' }).click();
  await expect(page.getByRole('table', { name: 'Numbers' }).getByRole('row', { name: /3522/ })).toContainText('Stopped');
});

journey5('an owner connects a number, and sees where it stands', async ({ page, world }) => {
  await signIn(page, await world.person('owner'));
  await visit(page, '/');
  await page.getByRole('list', { name: 'Setup' }).getByRole('link', { name: /Connect a number/ }).click();
  await page.getByRole('button', { name: 'Connect number' }).click();
  const dialog = page.getByRole('dialog', { name: 'Connect number' });
  const fill = async (fields) => {
    for (const [name, value] of fields) await dialog.getByLabel(name, { exact: true }).fill(value);
    await dialog.getByRole('button', { name: 'Connect number' }).click();
  };
  await fill([
    ['Phone number', '0555'], ['Phone number ID', '1065403529'], ['Account ID', '1022901293'], ['Access token', 'first-token'],
    ['App secret', 'secret-of-the-app'], ['Verify token', 'verify-me'],
  ]);
  await expect(dialog.getByRole('alert')).toHaveText(/^Must be in E\.164/);
  await fill([['Phone number', '+15550003529']]);
  await expect(heading(page, '+15550003529')).toBeVisible();
  await expect(page.getByRole('main')).toContainText('/channels/cloud-api/num_');
  await expect(page.getByRole('main')).toContainText('1022901293');
  await visit(page, '/settings/numbers');
  await expect(page.getByRole('table', { name: 'Numbers' }).getByRole('row', { name: /3529/ })).toContainText('Portfolio 1022901293');
});

journey5('5: the provider\'s token expires, is replaced, and what waited is sent', async ({ signed: page, world, provider }) => {
  const numbers = '/admin/v1/workspaces/demo/numbers';
  for (const old of (await world.api('GET', numbers)).data) await world.api('DELETE', `${numbers}/${old.id}`);
  await world.api('POST', numbers, {
    kind: 'cloud_api', phone: '+15550001111', phone_number_id: '1065403522', account_id: '1022901293', token: 'first-token',
    app_secret: 'secret-of-the-app', verify_token: 'verify-me',
  });
  provider.state.token = 'second-token';
  const phones = [...Array(5).keys()].map((i) => `+1555010080${i}`);
  const started = Date.now();
  // Once the number has stopped, what is new is refused with 503; what was taken before waits.
  const taken = [];
  for (const to of phones) {
    const body = { to, type: 'template', template: { name: 'welcome', language: 'en' } };
    const refused = await world.api('POST', '/v1/messaging/send', body).then(() => null, (error) => String(error));
    if (refused) expect(refused).toContain('503');
    else taken.push(to);
  }
  expect(taken.length).toBeGreaterThan(0);
  const strip = page.getByRole('alert', { name: 'Problems' });
  await expect(strip).toBeVisible();
  const took = Date.now() - started;
  console.log(`the strip is there ${took} ms after the first message`);
  expect(took).toBeLessThan(limit(20_000));
  for (const [where, title] of [['/contacts', 'Contacts'], ['/me', 'My account']]) {
    await visit(page, where);
    await expect(heading(page, title)).toBeVisible();
    await expect(strip).toBeVisible();
  }
  await strip.getByRole('link', { name: 'View details' }).click();
  await expect(heading(page, '+15550001111')).toBeVisible();
  const state = page.getByRole('status', { name: 'Number state' });
  await expect(state).toContainText('Stopped');
  await expect(state).toContainText(/expired/i);
  await expect(state).toContainText('since');
  await expect(page.getByRole('table', { name: 'Lanes' }).getByRole('row', { name: /Single/ })).toContainText(String(taken.length));
  await page.getByRole('button', { name: 'Replace token' }).click();
  const dialog = page.getByRole('dialog', { name: 'Replace token' });
  await dialog.getByLabel('New token').fill('second-token');
  await dialog.getByRole('button', { name: 'Replace token' }).click();
  await expect(state).toContainText('Open');
  await expect(strip).toHaveCount(0);
  // Nothing is lost, and each is sent once.
  await expect.poll(() => provider.state.sent.length).toBe(taken.length);
  for (const to of taken) expect(provider.state.sent.filter((it) => it.includes(to.slice(1)))).toHaveLength(1);
});
