/** Journeys of people, by role and name only. */
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { expect, guard, heading, HOSTILE, limit, received, signIn, test, visit } from './world.mjs';

test('1: a developer sends a code, sees it and verifies it, with three clicks', async ({ page, world }) => {
  const wrong = guard(page, world);
  const left = [];
  page.on('framenavigated', (frame) => left.push(new URL(frame.url()).pathname));
  // The first click is on the printed link.
  await page.goto(world.link);
  await expect(page.getByRole('textbox', { name: 'Phone number' })).not.toHaveValue('');
  await page.getByRole('button', { name: 'Send code' }).click();
  const code = page.getByRole('status', { name: 'Code', exact: true });
  await expect(code).toHaveText(/^\d{6}$/);
  await expect(page.getByRole('textbox', { name: 'Enter code' })).toHaveValue(await code.textContent());
  await page.getByRole('button', { name: 'Verify' }).click();
  await expect(page.getByRole('status', { name: 'Verification' })).toHaveText('Verified');
  await expect(page.getByRole('region', { name: 'API call' })).toContainText('/v1/otp/verify');
  await expect(page.getByRole('log', { name: 'Messages on this phone' })).toContainText(await code.textContent());
  expect(new Set(left)).toEqual(new Set(['/ui/phone']));
  expect(wrong).toEqual([]);
});

test('a code is shown soon after it is sent, and a wrong one is told', async ({ signed: page }) => {
  const times = [];
  for (let i = 0; i < 4; i++) {
    // Measured in the page: a test's own looks are up to a second apart.
    const shown = page.evaluate(() => new Promise((done) => {
      const started = performance.now();
      const node = document.querySelector('[role=status][aria-label=Code]');
      const before = node.textContent;
      const look = () => {
        if (node.textContent && node.textContent !== before) done(Math.round(performance.now() - started));
      };
      new MutationObserver(look).observe(node, { childList: true, characterData: true, subtree: true });
    }));
    await page.getByRole('button', { name: 'Send code' }).click();
    times.push(await shown);
  }
  console.log(`from the click to the code on the screen: ${times.join(', ')} ms`);
  expect(Math.max(...times)).toBeLessThan(limit(3000));
  const code = await page.getByRole('status', { name: 'Code', exact: true }).textContent();
  const entered = page.getByRole('textbox', { name: 'Enter code' });
  await entered.fill(code === '000000' ? '111111' : '000000');
  await page.getByRole('button', { name: 'Verify' }).click();
  await expect(page.getByRole('status', { name: 'Verification' })).toHaveText('Wrong code, 4 attempts left');
  await entered.fill(code);
  await page.getByRole('button', { name: 'Verify' }).click();
  await expect(page.getByRole('status', { name: 'Verification' })).toHaveText('Verified');
});

/** A port that nothing listens on. */
async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

test('2: a webhook fails, is mended with the program that the page shows, and replayed', async ({ signed: page }) => {
  const port = await freePort();
  await visit(page, '/webhooks');
  let clicks = 0;
  const click = (target) => (clicks++, target.click());
  await click(page.getByRole('button', { name: 'New endpoint' }).first());
  const made = page.getByRole('dialog', { name: 'New endpoint' });
  await made.getByRole('textbox', { name: 'Address' }).fill(`http://127.0.0.1:${port}/hooks`);
  await click(made.getByRole('button', { name: 'Create endpoint' }));
  const secret = await made.getByRole('textbox', { name: 'Signing secret' }).inputValue();
  expect(secret).toMatch(/^whsec_/);
  await click(made.getByRole('button', { name: 'Done' }));
  await click(page.getByRole('button', { name: 'Send test event' }));
  const tries = page.getByRole('table', { name: 'Deliveries' });
  await expect(tries).toContainText('Connection failed');
  // Its second try fails too, and the third comes in five minutes: what arrives is the replay.
  await expect(tries.getByRole('row')).toHaveCount(3);
  await click(tries.getByRole('row').nth(1).getByRole('button').first());
  await expect(page.getByRole('complementary', { name: 'Delivery' })).toContainText('Connection failed');
  // The secret is shown once.
  expect(await page.content()).not.toContain(secret);

  const program = await page.getByRole('region', { name: 'Verify signatures' }).locator('pre').textContent();
  expect(program).toContain('listen(9000)');
  const mended = spawn(process.execPath, ['--input-type=module', '-e', program.replace('9000', port)], {
    env: { ...process.env, WEBHOOK_SECRET: secret }, stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  mended.stdout.on('data', (piece) => (said += piece));
  try {
    await expect.poll(() => fetch(`http://127.0.0.1:${port}/`, { method: 'POST' }).then((it) => it.status, () => 0)).toBe(401);
    await click(page.getByRole('button', { name: 'Replay failed' }));
    await expect(tries).toContainText('204');
    expect(said).toMatch(/^verified .*webhook\.test/m);
  } finally {
    mended.kill();
  }
  expect(clicks).toBeLessThanOrEqual(8);
});

test('3: a CSV file is imported and its refused rows are mended', async ({ signed: page, world }) => {
  await page.goto(`${world.origin}/ui/import`);
  const tag = `t${Date.now() % 1e6}`;
  const start = 15_000_000_000 + (Date.now() % 1e8) * 10;
  const rows = [...Array(60).keys()].map((i) => `"Person ""${i}""",${i % 20 === 7 ? '12' : `+${start + i}`},p${i}@example.com,${tag},"Par\nis ${i}"`);
  const csv = `\ufeffname;phone;email;tags;custom.city\r\n${rows.join('\r\n').replaceAll(',', ';')}`;
  await page.getByLabel('CSV file').setInputFiles({ name: 'people.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
  await expect(page.getByRole('table', { name: 'Preview' })).toContainText('Person "0"');
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  await expect(page.getByRole('status', { name: 'Imported' })).toHaveText('57');
  await expect(page.getByRole('status', { name: 'Refused' })).toHaveText('3');
  await expect(page.getByRole('table', { name: 'Refused rows' })).toContainText('phone');
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download refused rows' }).click()]);
  const refused = readFileSync(await file.path(), 'utf8');
  expect(refused.split('\r\n')[0]).toBe('\ufeffrow,column,value,reason,name,phone,email,tags,custom.city');
  let next = start + 1000;
  const mended = refused.replaceAll(/,12,p/g, () => `,+${next++},p`);
  await page.getByLabel('CSV file').setInputFiles({ name: 'refused.csv', mimeType: 'text/csv', buffer: Buffer.from(mended) });
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  await expect(page.getByRole('status', { name: 'Imported' })).toHaveText('3');
});

test('3: a broadcast is composed, seen before it is sent, and watched', async ({ signed: page, world }) => {
  const tag = 'spring';
  const names = ['ليلى العلي', 'Zoë 🎉', HOSTILE, 'Maximilian-Alexander von Hohenstaufen', "O'Hara & Sons"];
  const contacts = [...Array(60).keys()].map((i) => ({ name: names[i] ?? `Person ${i}`, phone: `+1555030${1000 + i}`, tags: [tag] }));
  await world.api('POST', '/v1/contacts/batch', { contacts });
  const segment = await world.api('POST', '/v1/segments', { name: tag, filter: { tags_any: [tag] } });
  const before = (await world.api('GET', '/admin/v1/workspaces/demo')).credits;
  await visit(page, `/segments/${segment.id}`);
  await page.getByRole('link', { name: 'Send a broadcast' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('To all');
  await page.getByRole('combobox', { name: 'Template' }).selectOption({ label: 'order_update (en)' });
  await page.getByRole('combobox', { name: '{{1}}' }).selectOption('name');
  await page.getByRole('textbox', { name: 'Text for {{2}}' }).fill('77');
  const preview = page.getByRole('region', { name: 'Preview' });
  await expect(preview).toContainText('your order 77 is on its way');
  const samples = await preview.locator('.samples .bubble-text, .samples .template-part').allTextContents();
  const cost = Number(/[\d,]+/.exec(await page.getByRole('status', { name: 'Cost' }).textContent())[0].replace(',', ''));
  await page.getByRole('button', { name: 'Send broadcast' }).click();
  await page.getByRole('dialog', { name: 'Send broadcast?' }).getByRole('button', { name: 'Send now' }).click();
  await expect(heading(page, 'To all')).toBeVisible();
  await expect(page.getByRole('progressbar', { name: 'Progress' })).toHaveAttribute('aria-valuemax', '60');
  await expect(page.getByRole('status', { name: 'Broadcast status' })).toHaveText('Completed');
  await expect(page.getByRole('progressbar', { name: 'Progress' })).toHaveAttribute('aria-valuenow', '60');
  const counts = await page.getByRole('table', { name: 'Counts' }).getByRole('row').locator('td:nth-child(2)').allTextContents();
  expect(counts).toHaveLength(9);
  expect(counts.reduce((sum, n) => sum + Number(n.replace(/\D/g, '')), 0)).toBe(60);
  const after = (await world.api('GET', '/admin/v1/workspaces/demo')).credits;
  expect(before - after).toBe(cost);
  const received = (await world.api('GET', '/v1/sandbox/messages?limit=100')).data.map((it) => it.text);
  expect(samples).toHaveLength(5);
  for (const sample of samples) expect(received).toContain(sample);
});

test('3: a broadcast that is to start later waits and starts by itself', async ({ signed: page, world }) => {
  await visit(page, '/broadcasts/new');
  await page.getByRole('textbox', { name: 'Name' }).fill('Tomorrow');
  await page.getByRole('combobox', { name: 'Template' }).selectOption({ label: 'spring_sale (en)' });
  await page.getByRole('radio', { name: 'Phone numbers' }).check();
  await page.getByRole('textbox', { name: 'Phone numbers' }).fill('+15550300001\n+15550300002');
  const at = new Date(Date.now() + 3_600_000);
  const two = (n) => String(n).padStart(2, '0');
  const start = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
  await page.getByRole('radio', { name: 'Later' }).check();
  await page.getByLabel('Date and time').fill(start);
  await page.getByRole('button', { name: 'Send broadcast' }).click();
  await page.getByRole('dialog', { name: 'Send broadcast?' }).getByRole('button', { name: 'Schedule' }).click();
  await expect(heading(page, 'Tomorrow')).toBeVisible();
  const status = page.getByRole('status', { name: 'Broadcast status' });
  await expect(status).toHaveText('Scheduled');
  expect((await world.api('GET', '/v1/sandbox/messages')).data).toEqual([]);
  await world.api('POST', '/v1/sandbox/clock', { advance_seconds: 3700 });
  await expect(status).toHaveText('Completed');
  await expect(page.getByRole('progressbar', { name: 'Progress' })).toHaveAttribute('aria-valuenow', '2');
});

test('a segment is counted while its filter is made', async ({ signed: page, world }) => {
  const contacts = [...Array(60).keys()].map((i) => ({ name: `Person ${i}`, phone: `+1555030${2000 + i}`, tags: ['spring'] }));
  await world.api('POST', '/v1/contacts/batch', { contacts });
  await visit(page, '/segments');
  await page.getByRole('button', { name: 'New segment' }).first().click();
  const dialog = page.getByRole('dialog', { name: 'New segment' });
  await dialog.getByRole('textbox', { name: 'Name' }).fill('Spring');
  await dialog.getByRole('textbox', { name: 'Any of these tags' }).fill('spring');
  await expect(dialog.getByRole('status', { name: 'Contacts in segment' })).toHaveText('60 contacts');
  await dialog.getByRole('button', { name: 'Save segment' }).click();
  await expect(heading(page, 'Spring')).toBeVisible();
});

test('4: an agent answers by keyboard, and the window closes', async ({ signed: page, world }) => {
  const phone = `+1666${String(Date.now()).slice(-7)}`;
  await page.goto(`${world.origin}/ui/inbox`);
  const started = Date.now();
  await world.api('POST', '/v1/sandbox/inbound', { from: phone, name: `Customer ${phone}`, text: 'Where is my order?' });
  const entry = page.getByRole('list', { name: 'Conversations' }).getByRole('link', { name: `Customer ${phone}` });
  await expect(entry).toBeVisible();
  const took = Date.now() - started;
  console.log(`a customer's message is shown after ${took} ms`);
  expect(took).toBeLessThan(limit(5000));
  await entry.focus();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('log', { name: 'Thread' })).toContainText('Where is my order?');
  await expect(page.getByRole('timer', { name: 'Reply window' })).toHaveText(/^23 h 59 min$|^24 h$|^1 day$/);
  await page.keyboard.press('r');
  const reply = page.getByRole('textbox', { name: 'Reply' });
  await expect(reply).toBeFocused();
  await page.keyboard.type('It is on its way');
  await page.reload();
  await expect(reply).toHaveValue('It is on its way');
  await reply.press('Enter');
  await expect(page.getByRole('log', { name: 'Thread' })).toContainText('It is on its way');
  await expect(reply).toHaveValue('');
  // What becomes of it is told as it is reported.
  const conversation = page.url().split('/').at(-1);
  const [sent] = (await world.api('GET', `/v1/conversations/${conversation}/messages`)).data.filter((it) => it.direction === 'out');
  for (const [status, word] of [['delivered', 'Delivered'], ['read', 'Read']]) {
    await world.api('POST', '/v1/sandbox/reports', { message_id: sent.id ?? sent.message_id, status });
    await expect(page.getByRole('log', { name: 'Thread' }).locator('.bubble.out').last()).toContainText(word);
  }
  await world.api('POST', '/v1/sandbox/clock', { advance_seconds: 86_401 });
  await expect(page.getByRole('timer', { name: 'Reply window' })).toHaveText('Closed');
  await expect(page.getByRole('button', { name: 'Send template' })).toBeVisible();
  await world.api('POST', '/v1/sandbox/inbound', { from: phone, text: 'Hello again' });
  await expect(reply).toBeVisible();
  await expect(page.getByRole('log', { name: 'Thread' })).toContainText('Hello again');
  expect(await page.getByRole('log', { name: 'Thread' }).getByText('It is on its way').count()).toBe(1);
  await page.getByRole('heading', { level: 1 }).focus();
  await page.keyboard.press('e');
  await expect(page.getByRole('button', { name: 'Reopen' })).toBeVisible();
});

test('the reply window closes and opens by itself while somebody types', async ({ signed: page, world }) => {
  const write = (text) => world.api('POST', '/v1/sandbox/inbound', { from: '+15550100091', name: 'Ada', text });
  const move = (seconds) => world.api('POST', '/v1/sandbox/clock', { advance_seconds: seconds });
  await write('Hello');
  const { id } = (await world.api('GET', '/v1/conversations?limit=1')).data[0];
  await visit(page, `/inbox/${id}`);
  const reply = page.getByRole('textbox', { name: 'Reply' });
  await reply.fill('I am still typing');
  const timer = page.getByRole('timer', { name: 'Reply window' });
  await expect(timer).toHaveText(/^23 h 59 min$|^1 day$/);
  await move(86_400 - 600);
  await expect(timer).toHaveText(/^(9|10) min$/);
  await expect(timer.locator('xpath=..')).toHaveClass(/warning/);
  await move(720);
  await expect(timer).toHaveText('Closed');
  await expect(page.getByRole('button', { name: 'Send template' })).toBeVisible();
  await expect(reply).toHaveCount(0);
  await write('Are you there?');
  await expect(reply).toHaveValue('I am still typing');
});

test('two agents at once: each message once, and both see both', async ({ page, world, browser }) => {
  await world.api('POST', '/v1/sandbox/inbound', { from: '+15550100092', name: 'Grace', text: 'Who answers?' });
  const { id } = (await world.api('GET', '/v1/conversations?limit=1')).data[0];
  const other = await (await browser.newContext()).newPage();
  const people = [[page, 'agent', 'From the first'], [other, 'admin', 'From the second']];
  for (const [tab, role] of people) {
    await signIn(tab, await world.person(role));
    await visit(tab, `/inbox/${id}`);
  }
  await Promise.all(people.map(async ([tab, , text]) => {
    await tab.getByRole('textbox', { name: 'Reply' }).fill(text);
    await tab.getByRole('button', { name: 'Send reply' }).dblclick();
  }));
  for (const [tab] of people) {
    const thread = tab.getByRole('log', { name: 'Thread' });
    for (const [, , text] of people) await expect(thread.getByText(text, { exact: true })).toHaveCount(1);
  }
  const sent = (await world.api('GET', `/v1/conversations/${id}/messages?limit=50`)).data.filter((it) => it.direction === 'out');
  expect(sent.map((it) => it.text).sort()).toEqual(['From the first', 'From the second']);
});

test('the funnel of codes equals the event log', async ({ signed: page, world }) => {
  const numbers = [...[...Array(7).keys()].map((i) => `+1555010060${i}`), ...[...Array(3).keys()].map((i) => `+491555001${i}`)];
  for (const [i, phone] of numbers.entries()) {
    const { request_id } = await world.api('POST', '/v1/otp/send', { phone });
    const { code, message_id } = await received(world, phone);
    if (i % 5 !== 2) await world.api('POST', '/v1/sandbox/reports', { message_id, status: i === 6 ? 'failed' : 'delivered' });
    if (i < 4 || i === 8) await world.api('POST', '/v1/otp/verify', { request_id, otp: code });
  }
  await world.api('POST', '/v1/sandbox/clock', { advance_seconds: 1200 });
  const read = async () => (await world.api('GET', '/v1/events?limit=200')).data.filter((it) => it.type.startsWith('otp.'));
  const n = (events, type) => events.filter((it) => it.type === type).length;
  await expect.poll(async () => n(await read(), 'otp.expired')).toBeGreaterThanOrEqual(4);
  const events = await read();
  await visit(page, '/codes');
  const step = (name) => page.getByRole('region', { name: 'Funnel' }).locator('div', { has: page.locator(`dt:text-is("${name}")`) }).locator('b');
  for (const [name, type] of [['Sent', 'sent'], ['Delivered', 'delivered'], ['Verified', 'verified'], ['Expired', 'expired'], ['Failed', 'failed']]) {
    expect(n(events, `otp.${type}`), type).toBeGreaterThan(0);
    await expect(step(name).last()).toHaveText(String(n(events, `otp.${type}`)));
  }
  const by = page.getByRole('table', { name: 'By country' });
  for (const country of ['+1', '+49']) {
    const own = events.filter((it) => it.data.phone?.startsWith(country));
    const row = by.getByRole('row').filter({ has: page.getByText(country, { exact: true }) });
    await expect(row.getByRole('cell').nth(1)).toHaveText(String(n(own, 'otp.sent')));
    await expect(row.getByRole('cell').nth(2)).toHaveText(String(n(own, 'otp.verified')));
  }
  await expect(page.getByRole('table', { name: 'Codes' }).getByRole('row')).toHaveCount(numbers.length + 1);
});

test('a key is made, shown once and revoked', async ({ signed: page, world }) => {
  await page.goto(`${world.origin}/ui/keys`);
  await page.getByRole('button', { name: 'New key' }).first().click();
  const dialog = page.getByRole('dialog', { name: 'New key' });
  const name = `shop ${Date.now()}`;
  await dialog.getByRole('textbox', { name: 'Name' }).fill(name);
  await dialog.getByRole('checkbox', { name: /^contacts:read/ }).check();
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await expect(dialog.getByRole('textbox', { name: 'API key' })).toHaveValue(/^pr_/);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('row', { name }).getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('dialog', { name: 'Revoke key?' }).getByRole('button', { name: 'Revoke key' }).click();
  await expect(page.getByRole('row', { name })).toHaveCount(0);
});

test('a code that is active is sent again from its page', async ({ signed: page, world }) => {
  const { request_id: id } = await world.api('POST', '/v1/otp/send', { phone: '+15550100701' });
  await visit(page, `/codes/${id}`);
  const again = page.getByRole('button', { name: 'Resend' });
  await expect(again).toBeEnabled();
  await world.api('POST', '/v1/sandbox/clock', { advance_seconds: 61 });
  await again.click();
  await expect.poll(async () => (await world.api('GET', '/v1/sandbox/messages?to=%2B15550100701')).data.length).toBe(2);
});
