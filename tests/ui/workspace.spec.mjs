/** What people of a workspace work with: contacts, keys, templates, webhooks, notes, files. */
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { expect, heading, HOSTILE, signIn, test, visit } from './world.mjs';

test('contacts are filtered, and all that were found are tagged at once', async ({ signed: page, world }) => {
  const contacts = [1, 2, 3].map((n) => ({ name: `Person ${n}`, phone: `+1555010${1000 + n}`, tags: ['vip'], custom_fields: { city: n < 3 ? 'Paris' : 'Rome' } }));
  await world.api('POST', '/v1/contacts/batch', { contacts: [...contacts, { name: 'Nobody', phone: '+15550101009' }] });
  await visit(page, '/contacts');
  await page.getByRole('button', { name: 'Filter' }).click();
  const dialog = page.getByRole('dialog', { name: 'Filter' });
  await dialog.getByLabel('Any of these tags').fill('vip');
  await dialog.getByLabel('Custom field').fill('city');
  await dialog.getByLabel('Field value').fill('Paris');
  await dialog.getByRole('button', { name: 'Show' }).click();
  expect(new URL(page.url()).searchParams.get('tags_any')).toBe('vip');
  const found = page.getByRole('status', { name: 'Contacts found' });
  await expect(found).toHaveText('2 contacts');
  await page.getByRole('button', { name: 'Remove city: Paris' }).click();
  await expect(found).toHaveText('3 contacts');
  await page.getByRole('checkbox', { name: 'Select Person 2' }).check();
  const bar = page.getByRole('toolbar', { name: 'Selected contacts' });
  await bar.getByRole('button', { name: 'Select all 3' }).click();
  await bar.getByRole('button', { name: 'Add tag' }).click();
  const tag = page.getByRole('dialog', { name: 'Add tag' });
  await tag.getByLabel('Tag').fill('gold');
  await tag.getByRole('button', { name: 'Add tag' }).click();
  await expect(bar).toHaveCount(0);
  const gold = async () => (await world.api('GET', '/v1/contacts?tags_all=gold')).data.map((it) => it.name).sort();
  await expect.poll(gold).toEqual(['Person 1', 'Person 2', 'Person 3']);
});

test('a contact\'s timeline grows as it is read', async ({ signed: page, world }) => {
  const made = await world.api('POST', '/v1/contacts', { name: 'Ada', phone: '+15550100332' });
  for (let i = 0; i < 60; i++) await world.api('POST', '/v1/sandbox/inbound', { from: '+15550100332', text: `text ${i}` });
  await visit(page, `/contacts/${made.id}`);
  const entries = page.getByRole('list', { name: 'Timeline' }).getByRole('listitem');
  await expect(entries.first()).toBeVisible();
  const few = await entries.count();
  expect(few).toBeLessThan(60);
  await page.getByRole('button', { name: 'Show more' }).click();
  await expect.poll(() => entries.count()).toBeGreaterThan(few);
});

test('whether a contact has opted out is known, however long its timeline is', async ({ signed: page, world }) => {
  const { id } = await world.api('POST', '/v1/contacts', { name: 'Quiet', phone: '+15550100350' });
  await world.api('POST', '/v1/suppressions', { phone: '+15550100350' });
  for (let i = 0; i < 60; i++) await world.api('PATCH', `/v1/contacts/${id}`, { name: `Quiet ${i}` });
  await visit(page, `/contacts/${id}`);
  const main = page.getByRole('main');
  await expect(main).toContainText('Opted out');
  await page.getByRole('button', { name: 'Remove opt-out' }).click();
  await expect(main).toContainText('Allowed');
  await page.getByRole('button', { name: 'Opt out' }).click();
  await expect(main).toContainText('Opted out');
  expect((await world.api('GET', '/v1/suppressions?phone=%2B15550100350')).total).toBe(1);
});

test('statistics of broadcasts add up over more rows than a page has', async ({ signed: page, world }) => {
  const days = 130;
  const day = (i) => new Date(Date.UTC(2026, 0, 1 + i)).toISOString().slice(0, 10);
  const counts = { sent: 2, delivered: 2, read: 1, failed: 0, replied: 0 };
  const all = [...Array(days).keys()].map((i) => ({ date: day(i), broadcast_id: null, name: null, ...counts })).reverse();
  const names = [...Array(120).keys()].map((i) => ({ date: null, broadcast_id: `brd_${i}`, name: `Sale ${i}`, ...counts }));
  // What the server answers, of more broadcasts than a test sends.
  await page.route(/\/v1\/analytics\/campaigns/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const rows = query.get('group_by') === 'day' ? all : names;
    const [number, limit] = [Number(query.get('page') ?? 1), Math.min(50, Number(query.get('limit')))];
    const totals = { sent: 260, delivered: 260, read: 130, failed: 0, replied: 0 };
    return route.fulfill({ json: { data: rows.slice((number - 1) * limit, number * limit), total: rows.length, page: number, totals } });
  });
  await visit(page, `/analytics/broadcasts?from=${day(0)}&to=${day(days - 1)}`);
  await expect(page.getByRole('img', { name: 'Broadcasts by day' })).toBeVisible();
  await page.getByRole('button', { name: 'As table' }).click();
  const table = page.getByRole('table', { name: 'Broadcasts', exact: true });
  await expect(table).toHaveAttribute('aria-rowcount', String(days + 1));
  // The oldest day is not drawn as one on which nothing was sent.
  await expect(table.getByRole('row').nth(1)).toContainText(day(0));
  await expect(table.getByRole('row').nth(1).getByRole('cell').nth(1)).toHaveText('2');
  await expect(page.getByRole('main')).toContainText('260');
  await expect(page.getByRole('main')).toContainText('Showing the first 100.');
});

test('an agent sees what happens in conversations by day, as a table and as CSV, and no other figures', async ({ page, world }) => {
  for (const text of ['Hello?', 'Anybody?']) await world.api('POST', '/v1/sandbox/inbound', { from: '+15550100361', name: 'Grace', text });
  const { id } = (await world.api('GET', '/v1/conversations?limit=1')).data[0];
  await world.api('POST', `/v1/conversations/${id}/messages`, { type: 'text', text: 'Yes' });
  await world.api('PATCH', `/v1/conversations/${id}`, { status: 'resolved' });
  await signIn(page, await world.person('agent'));
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Analytics' }).click();
  await expect(page.getByRole('tab')).toHaveText(['Inbox']);
  await expect(page.getByRole('img', { name: 'Inbox by day' })).toBeVisible();
  await page.getByRole('button', { name: 'As table' }).click();
  const last = page.getByRole('table', { name: 'Inbox' }).getByRole('row').last();
  const today = (await world.api('GET', '/v1/sandbox/clock')).now.slice(0, 10);
  await expect(last.getByRole('cell')).toHaveText([today, '2', '1', '1', '1']);
  await expect(page.getByRole('region', { name: 'Conversations' })).toContainText('Resolved1');
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download CSV' }).click()]);
  expect(readFileSync(await file.path(), 'utf8')).toBe(`day,received,sent,opened,resolved\r\n${today},2,1,1,1\r\n`);
});

test('a refusal for too many requests counts down in a form', async ({ signed: page }) => {
  await page.route('**/v1/contacts', (route) => (route.request().method() === 'POST'
    ? route.fulfill({ status: 429, headers: { 'Retry-After': '30' }, json: { code: 'RATE_LIMITED', message: 'too many contacts in a minute' } })
    : route.continue()));
  await visit(page, '/contacts');
  await page.getByRole('button', { name: 'New contact' }).first().click();
  const dialog = page.getByRole('dialog', { name: 'New contact' });
  await dialog.getByRole('textbox', { name: 'Name' }).fill('Ada');
  await dialog.getByRole('button', { name: 'Save' }).click();
  const alert = dialog.getByRole('alert');
  await expect(alert).toContainText('too many contacts in a minute');
  const left = async () => Number(/Try again in (\d+) s/.exec(await alert.textContent())?.[1] ?? 0);
  const first = await left();
  expect(first).toBeGreaterThan(0);
  await expect.poll(left).toBeLessThan(first);
});

test('a key has an end and a limit of its own, and is changed', async ({ signed: page, world }) => {
  await visit(page, '/keys');
  await page.getByRole('button', { name: 'New key' }).first().click();
  const dialog = page.getByRole('dialog', { name: 'New key' });
  await dialog.getByRole('textbox', { name: 'Name' }).fill('shop');
  await dialog.getByLabel('Expires').fill('2099-01-31T09:30');
  await dialog.getByRole('textbox', { name: 'Requests per hour' }).fill('500');
  await dialog.getByRole('textbox', { name: 'Allowed IPs' }).fill('10.1.0.0/16');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await expect(dialog.getByRole('textbox', { name: 'API key' })).toHaveValue(/^pr_/);
  await dialog.getByRole('button', { name: 'Done' }).click();
  const made = (await world.api('GET', '/admin/v1/workspaces/demo/keys')).data.find((it) => it.name === 'shop');
  expect(made).toMatchObject({ limits: { key_requests_per_hour: 500 }, allowed_subnets: ['10.1.0.0/16'] });
  expect(made.expires_at).toMatch(/^2099-01-3/);
  const row = page.getByRole('row', { name: /shop/ });
  await expect(row).toContainText('expires');
  await row.getByRole('button', { name: 'Edit' }).click();
  const edit = page.getByRole('dialog', { name: 'Edit key' });
  await expect(edit.getByLabel('Expires')).toHaveValue('2099-01-31T09:30');
  await edit.getByRole('textbox', { name: 'Name' }).fill('the shop');
  await edit.getByLabel('Expires').fill('');
  await edit.getByRole('button', { name: 'Save' }).click();
  await expect(edit).toHaveCount(0);
  const changed = page.getByRole('row', { name: /the shop/ });
  await expect(changed).not.toContainText('expires');
  await expect(changed).toContainText('owner@localhost');
  const now = (await world.api('GET', '/admin/v1/workspaces/demo/keys')).data.find((it) => it.id === made.id);
  expect(now).toMatchObject({ name: 'the shop', expires_at: null, limits: { key_requests_per_hour: 500 } });
});

test('where codes may go, and what is done where few are verified, is set', async ({ signed: page, world }) => {
  const path = '/admin/v1/workspaces/demo/destinations';
  const before = await world.api('GET', path);
  await world.api('PUT', path, { allow: [], deny: [], safe: ['4915'], adaptive: 'report' });
  await visit(page, '/settings/channels');
  const mode = page.getByRole('combobox', { name: 'Destinations with few verified codes' });
  const safe = page.getByRole('textbox', { name: 'Never limited' });
  await expect(mode).toHaveValue('report');
  await expect(safe).toHaveValue('4915');
  const save = async () => {
    const saved = page.waitForResponse((it) => it.url().endsWith(path) && it.request().method() === 'PUT');
    await page.getByRole('button', { name: 'Save' }).click();
    return (await saved).status();
  };
  await mode.selectOption({ label: 'Send only to a sample' });
  await safe.fill('+4915, 1555');
  await page.getByRole('textbox', { name: 'Refused' }).fill('+1900');
  expect(await save()).toBe(200);
  expect(await world.api('GET', path)).toEqual({ allow: [], deny: ['1900'], safe: ['4915', '1555'], adaptive: 'refuse' });
  await safe.fill('all');
  expect(await save()).toBe(400);
  await expect(page.getByRole('alert')).toHaveText(/^Entry 1: must/);
  await safe.fill('');
  await mode.selectOption({ label: 'Use server setting' });
  expect(await save()).toBe(200);
  expect(await world.api('GET', path)).toEqual({ allow: [], deny: ['1900'], safe: [], adaptive: null });
  await world.api('PUT', path, before);
});

test('where codes may go is saved only as it was read, and what others changed meanwhile stays', async ({ signed: page, world }) => {
  const path = '/admin/v1/workspaces/demo/destinations';
  const before = await world.api('GET', path);
  const set = { allow: ['49'], deny: ['1900'], safe: ['4915'], adaptive: 'report' };
  await world.api('PUT', path, set);
  let times = 0;
  // The first answer fails, and what is beside it never comes.
  await page.route(`**${path}`, (route) => (times++ === 0 ? route.fulfill({ status: 503, json: {} }) : route.continue()));
  await page.route('**/workspaces/demo/email', () => {});
  await visit(page, '/settings/channels');
  await page.getByRole('button', { name: 'Try again' }).first().click();
  await expect(page.getByRole('textbox', { name: 'Allowed' })).toHaveValue('49');
  await expect(page.getByRole('textbox', { name: 'Never limited' })).toHaveValue('4915');
  await world.api('PUT', path, { allow: ['49', '43'], deny: set.deny, safe: ['4915', '1555'], adaptive: 'refuse' });
  await page.getByRole('textbox', { name: 'Refused' }).fill('+1900, +1901');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect.poll(async () => (await world.api('GET', path)).deny).toEqual(['1900', '1901']);
  const now = await world.api('GET', path);
  expect([now.allow, now.safe, now.adaptive]).toEqual([['49', '43'], ['4915', '1555'], 'refuse']);
  await world.api('PUT', path, before);
});

test('only who types the workspace\'s id deletes it', async ({ signed: page, world }) => {
  await world.api('POST', '/admin/v1/workspaces', { id: 'spare', name: 'Spare' });
  await visit(page, '/settings');
  await page.getByRole('button', { name: 'Delete workspace' }).click();
  const dialog = page.getByRole('dialog', { name: 'Delete workspace?' });
  const last = dialog.getByRole('button', { name: 'Delete workspace' });
  await expect(last).toBeDisabled();
  await dialog.getByRole('textbox', { name: 'Type demo to confirm' }).fill('Demo');
  await expect(last).toBeDisabled();
  await dialog.getByRole('button', { name: 'Keep' }).click();
  expect((await world.api('GET', '/admin/v1/workspaces/demo')).id).toBe('demo');
  await page.getByRole('button', { name: 'Delete workspace' }).click();
  await dialog.getByRole('textbox', { name: 'Type demo to confirm' }).fill('demo');
  await last.click();
  await expect(heading(page, 'Home')).toBeVisible();
  await expect(page.getByRole('combobox', { name: 'Workspace' })).toHaveValue('spare');
  await expect(world.api('GET', '/admin/v1/workspaces/demo')).rejects.toThrow('404');
});

test('a template is made, filled in, and told when it stops being approved', async ({ signed: page, world }) => {
  await visit(page, '/templates');
  await page.getByRole('button', { name: 'New template' }).click();
  const dialog = page.getByRole('dialog', { name: 'New template' });
  await dialog.getByRole('textbox', { name: 'Name' }).fill('hello_you');
  await dialog.getByRole('textbox', { name: 'Header' }).fill(HOSTILE);
  await dialog.getByRole('textbox', { name: 'Text' }).fill('Hello {{1}}');
  const buttons = dialog.getByRole('textbox', { name: 'Buttons' });
  await buttons.fill('Yes, please');
  await buttons.press('Enter');
  await buttons.fill('No');
  await dialog.getByRole('button', { name: 'Create template' }).click();
  const card = page.getByRole('list', { name: 'Templates' }).getByRole('listitem').filter({ hasText: 'hello_you' });
  await expect(card).toContainText('Approved');
  await expect(card.locator('.template-button')).toHaveText(['Yes, please', 'No']);
  await card.getByRole('button', { name: 'Fill in variables' }).click();
  const fill = page.getByRole('dialog', { name: 'Fill in hello_you' });
  await fill.getByRole('textbox', { name: '{{1}}' }).fill('Ada');
  const rendered = page.waitForResponse(/\/render$/);
  await fill.getByRole('textbox', { name: '{{1}}' }).fill('{{1}} Ada');
  expect(await (await rendered).json()).toEqual({ text: `${HOSTILE}\nHello {{1}} Ada` });
  await expect(fill.getByRole('status')).toContainText('Hello {{1}} Ada');
  await page.keyboard.press('Escape');

  await world.api('POST', '/v1/contacts', { name: 'Ada', phone: '+15550100333', tags: ['gold'] });
  const segment = await world.api('POST', '/v1/segments', { name: 'Gold', filter: { tags_any: ['gold'] } });
  await visit(page, `/broadcasts/new?segment=${segment.id}`);
  await page.getByRole('combobox', { name: 'Template' }).selectOption({ label: 'hello_you (en)' });
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('To gold');
  await page.getByRole('combobox', { name: '{{1}}' }).selectOption('name');
  await expect(page.getByRole('region', { name: 'Preview' })).toContainText('Hello Ada');
  await world.api('PATCH', '/admin/v1/workspaces/demo/templates/hello_you/en', { status: 'paused' });
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('To all gold');
  await expect(page.getByRole('main')).toContainText(/paused|not approved/i);
});

test('a delivery shows what was sent and what came back; a rotated secret shows its end', async ({ signed: page, world }) => {
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(500, { 'X-Shop': 'closed' }).end(`<h1>${HOSTILE}</h1>`));
  });
  await new Promise((done) => receiver.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${receiver.address().port}/hooks`;
  const hook = await world.api('POST', '/v1/webhooks', { url, events: ['otp.sent'] });
  await world.api('POST', `/v1/webhooks/${hook.id}/rotate-secret`);
  await world.api('POST', '/v1/otp/send', { phone: '+15550100334' });
  await expect.poll(async () => (await world.api('GET', `/v1/webhooks/${hook.id}/deliveries`)).total).toBeGreaterThan(0);
  await visit(page, `/webhooks/${hook.id}`);
  await expect(page.getByRole('main')).toContainText('0%');
  await expect(page.getByRole('main')).toContainText('Deliveries are also signed with the old secret until');
  await page.getByRole('table', { name: 'Deliveries' }).getByRole('row').nth(1).getByRole('button').first().click();
  const detail = page.getByRole('complementary', { name: 'Delivery' });
  await expect(detail).toContainText('"phone": "+15550100334"');
  await detail.getByText('Headers').first().click();
  await expect(detail).toContainText('webhook-signature');
  await expect(detail).toContainText('500');
  // What services of this machine answer is not shown; a page that is given it shows it as text.
  await expect(detail).not.toContainText(HOSTILE);
  const shown = async (route) => {
    const answer = await (await route.fetch()).json();
    await route.fulfill({ json: { ...answer, response: { headers: { 'x-shop': 'closed' }, body: `<h1>${HOSTILE}</h1>` } } });
  };
  await page.route(/\/deliveries\/dlv_/, shown);
  await page.getByRole('table', { name: 'Deliveries' }).getByRole('row').nth(1).getByRole('button').first().click();
  await expect(detail).toContainText(HOSTILE);
  await detail.getByText('Headers').last().click();
  await expect(detail).toContainText('x-shop');
  await expect(detail).not.toContainText('No response');
  receiver.close();
});

test('agents leave notes, answer with quick replies, and see who is typing', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/sandbox/inbound', { from: '+15550100335', name: 'Grace', text: 'Hello?' });
  const { id } = (await world.api('GET', '/v1/conversations?limit=1')).data[0];
  await page.setViewportSize({ width: 1400, height: 860 });
  await visit(page, `/inbox/${id}`);
  const region = page.getByRole('region', { name: 'Notes' });
  await region.getByLabel('Note').fill(`${HOSTILE} is polite`);
  await region.getByRole('button', { name: 'Add note' }).click();
  await expect(region.getByRole('listitem')).toContainText(`${HOSTILE} is polite`);
  await page.getByRole('button', { name: 'Quick replies' }).click();
  const dialog = page.getByRole('dialog', { name: 'Quick replies' });
  for (const [name, text] of [['Thanks', 'Thank you for writing.'], [HOSTILE, 'Goodbye']]) {
    await dialog.getByRole('textbox', { name: 'Name' }).fill(name);
    await dialog.getByRole('textbox', { name: 'Text' }).fill(text);
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await expect(dialog.getByRole('listitem').filter({ hasText: name })).toBeVisible();
  }
  await dialog.getByRole('listitem').filter({ hasText: HOSTILE }).getByRole('button', { name: 'Delete' }).click();
  await expect(dialog.getByRole('listitem')).toHaveCount(1);
  await page.keyboard.press('Escape');
  const told = page.waitForResponse(/\/typing$/);
  await page.getByRole('combobox', { name: 'Quick reply' }).selectOption({ label: 'Thanks' });
  const reply = page.getByRole('textbox', { name: 'Reply' });
  await expect(reply).toHaveValue('Thank you for writing.');
  await expect(reply).toBeFocused();
  expect((await told).status()).toBe(204);
  // On a narrow screen the contact lies over the thread, and goes again.
  await page.setViewportSize({ width: 900, height: 860 });
  await expect(region).toBeHidden();
  await page.getByRole('button', { name: 'Contact', exact: true }).click();
  await expect(region).toBeVisible();
  await page.getByRole('complementary', { name: 'Contact' }).getByRole('button', { name: 'Close' }).click();
  await expect(region).toBeHidden();
});

test('an import skips or updates what is there, as it is told', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/contacts', { name: 'Before', phone: '+15550100341' });
  const csv = `name,phone\r\n${[1, 2, 3].map((n) => `Person ${n},+1555010034${n}`).join('\r\n')}`;
  const names = async () => (await world.api('GET', '/v1/contacts')).data.map((it) => it.name).sort();
  await visit(page, '/import');
  for (const [choice, imported, all] of [
    ['skip', '2', ['Before', 'Person 2', 'Person 3']],
    ['update', '3', ['Person 1', 'Person 2', 'Person 3']],
  ]) {
    // Another file, as one that was imported goes on where it ended.
    await page.getByLabel('CSV file').setInputFiles({ name: 'people.csv', mimeType: 'text/csv', buffer: Buffer.from(csv + (choice === 'skip' ? '' : '\r\n')) });
    await page.getByRole('combobox', { name: 'Duplicate phone numbers' }).selectOption(choice);
    await page.getByRole('button', { name: 'Import', exact: true }).click();
    await expect(page.getByRole('status', { name: 'Imported' })).toHaveText(imported);
    expect(await names()).toEqual(all);
  }
});

test('journey 1 by keyboard alone', async ({ signed: page }) => {
  await expect(heading(page, 'Phone')).toBeVisible();
  const reach = async (locator) => {
    for (let i = 0; i < 60; i++) {
      if (await locator.evaluate((node) => node === document.activeElement)) return;
      await page.keyboard.press('Tab');
    }
    throw new Error(`${locator} is not reached by Tab`);
  };
  await reach(page.getByRole('textbox', { name: 'Phone number' }));
  await page.keyboard.press('Enter');
  const code = page.getByRole('status', { name: 'Code', exact: true });
  await expect(code).toHaveText(/^\d{6}$/);
  await reach(page.getByRole('textbox', { name: 'Enter code' }));
  await page.keyboard.press('Enter');
  await expect(page.getByRole('status', { name: 'Verification' })).toHaveText('Verified');
});
