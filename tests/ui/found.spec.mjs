/** Lists begin with the person, say in words what became of each row, and are searched by what people know. */
import { expect, heading, received, test, visit } from './world.mjs';

const ANA = '+15550140001';
const BO = '+15550140002';
const update = (first, second) => ({
  name: 'order_update', language: 'en',
  components: [{ type: 'body', parameters: [first, second].map((text) => ({ type: 'text', text })) }],
});
const send = (world, to, more) => world.api('POST', '/v1/messaging/send', { to, type: 'template', ...more });
const columns = (table, names) => expect(table.getByRole('columnheader')).toHaveText(names);

test('a message is found by phone, by reference and by date, and shown as its recipient reads it', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/contacts', { name: 'Ana Souza', phone: ANA });
  await send(world, ANA, { template: update('1017', 'Friday'), reference: '20260117' });
  await world.api('POST', '/v1/sandbox/outcomes', { to: BO, outcome: 'failed', times: 1 });
  await send(world, BO, { template: { name: 'welcome', language: 'en' } });
  await visit(page, '/messages');
  const table = page.getByRole('table', { name: 'Messages' });
  await columns(table, ['To', 'Message', 'Status', 'Time']);
  const ana = table.getByRole('row').filter({ hasText: 'Ana Souza' });
  await expect(ana).toContainText(ANA);
  await expect(ana).toContainText(/1017.*Friday/);
  await expect(ana.getByRole('cell').last().locator('time')).toHaveAttribute('title', /\d{4}, .* · \d{4}-\d\d-\d\d .* UTC/);
  await expect(table.getByRole('row').filter({ hasText: BO })).toContainText('This phone cannot receive the message');

  const field = page.getByRole('searchbox', { name: 'Phone or reference' });
  // A phone that is being typed is not searched, and stays in the field.
  const all = [];
  page.on('request', (it) => it.url().includes('/v1/messaging/messages?') && all.push(it.url()));
  await field.fill('+1 55');
  await world.api('POST', '/v1/contacts', { name: 'Cy', phone: '+15550140003' });
  await send(world, '+15550140003', { template: { name: 'welcome', language: 'en' } });
  await expect(table.getByRole('row').filter({ hasText: 'Cy' })).toBeVisible();
  await expect(field).toHaveValue('+1 55');
  expect(all.filter((it) => it.includes('to='))).toEqual([]);
  await field.fill('+1 555 014 0002');
  await expect(ana).toHaveCount(0);
  await expect.poll(() => new URL(page.url()).searchParams.get('to')).toBe(BO);
  await field.fill('20260117');
  await expect(ana).toBeVisible();
  await expect(table.getByRole('row')).toHaveCount(2);
  expect([...new URL(page.url()).searchParams]).toEqual([['reference', '20260117']]);
  await field.fill('015155500002');
  await expect(page.getByText('To find a phone number, start with + and the country code.')).toBeVisible();
  await page.evaluate(() => localStorage.setItem('phone-country', 'DE'));
  await page.reload();
  // Without its country code a phone is searched by the chosen country, and may be a reference after all.
  await field.fill('0151 55500002');
  await page.getByRole('button', { name: 'Search references for 0151 55500002' }).click();
  await expect.poll(() => new URL(page.url()).search).toBe('?reference=0151+55500002');
  await field.fill('Ana');
  await expect(page.getByRole('link', { name: 'Search contacts for Ana' })).toHaveAttribute('href', '/ui/contacts?search=Ana');
  await field.fill('');
  await expect(table.getByRole('row').filter({ hasText: BO })).toBeVisible();

  const period = page.getByRole('combobox', { name: 'Period' });
  const asked = page.waitForRequest((it) => it.url().includes('/v1/messaging/messages?') && it.url().includes('since='));
  await period.selectOption('Today');
  const since = new URL((await asked).url()).searchParams.get('since');
  expect(await page.evaluate((at) => [new Date(at).getHours(), Date.now() - new Date(at) < 86_400_000], since)).toEqual([0, true]);
  await expect(ana).toBeVisible();
  await period.selectOption('Choose dates');
  await page.getByLabel('From', { exact: true }).fill('2020-01-01');
  await page.getByLabel('To', { exact: true }).fill('2020-01-31');
  await expect(page.getByText('No matching messages')).toBeVisible();
  await page.reload();
  await expect(page.getByLabel('To', { exact: true })).toHaveValue('2020-01-31');
  await page.getByRole('button', { name: 'Clear filters' }).click();
  await expect(ana).toBeVisible();
  expect(new URL(page.url()).search).toBe('');

  await ana.click();
  await expect(heading(page, 'Message to Ana Souza')).toBeVisible();
  await expect(page.getByRole('region', { name: 'Message' })).toContainText(/1017.*Friday/);
  const details = page.getByRole('region', { name: 'Details' });
  await expect(details).toContainText('20260117');
  await details.getByRole('link', { name: 'Ana Souza' }).click();
  await expect(heading(page, 'Ana Souza')).toBeVisible();
});

for (const zone of ['America/Chicago', 'Asia/Tokyo', 'Pacific/Kiritimati']) {
  test.describe(`in ${zone}`, () => {
    test.use({ timezoneId: zone });
    test('the dates of a list are those of the place', async ({ signed: page, world }) => {
      await send(world, ANA, { template: { name: 'welcome', language: 'en' } });
      await visit(page, '/messages');
      const row = page.getByRole('table', { name: 'Messages' }).getByRole('row').filter({ hasText: ANA });
      const here = await page.evaluate(() => [new Date().getFullYear(), new Date().getMonth() + 1, new Date().getDate()]
        .map((it) => String(it).padStart(2, '0')).join('-'));
      await page.getByRole('combobox', { name: 'Period' }).selectOption('Today');
      await expect(row).toBeVisible();
      await page.getByRole('combobox', { name: 'Period' }).selectOption('Choose dates');
      await expect(page.getByLabel('From', { exact: true })).toHaveValue(here);
      await expect(page.getByLabel('To', { exact: true })).toHaveValue(here);
      await expect(row).toBeVisible();
    });
  });
}

test('a failure that happens while the list is open says why', async ({ signed: page, world }) => {
  await visit(page, '/messages');
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  const { message_id } = await send(world, BO, { template: { name: 'welcome', language: 'en' } });
  const row = page.getByRole('table', { name: 'Messages' }).getByRole('row').filter({ hasText: BO });
  await expect(row).toContainText('Sent');
  await world.api('POST', '/v1/sandbox/reports', { message_id, status: 'failed', error_code: 131049 });
  await expect(row).toContainText('the recipient has received many marketing messages');
});

test('the text of an authentication template is not shown', async ({ signed: page, world }) => {
  const template = { name: 'otp_code', language: 'en', components: [{ type: 'body', parameters: [{ type: 'text', text: '483920' }] }] };
  const { message_id } = await send(world, ANA, { template });
  await visit(page, `/messages/${message_id}`);
  await expect(page.getByRole('region', { name: 'Message' })).toContainText('the template contains a code');
});

test('a code has one state, and its page says for whom and how long', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/contacts', { name: 'Ana Souza', phone: ANA });
  const code = async (phone) => (await world.api('POST', '/v1/otp/send', { phone, reference: `login-${phone}` })).request_id;
  const verified = await code(ANA);
  const { code: otp } = await received(world, ANA);
  await world.api('POST', '/v1/otp/verify', { request_id: verified, otp: '000' });
  await world.api('POST', '/v1/otp/verify', { request_id: verified, otp });
  await world.api('POST', '/v1/sandbox/outcomes', { to: BO, outcome: 'failed', times: 1 });
  await code(BO);
  await visit(page, '/codes');
  const table = page.getByRole('table', { name: 'Codes' });
  await columns(table, ['Phone', 'Status', 'Channel', 'Wrong attempts', 'Time']);
  const row = (text) => table.getByRole('row').filter({ hasText: text });
  await expect(row('Ana Souza')).toContainText('Verified');
  await expect(row('Ana Souza')).toContainText('1 of 5');
  await expect(row(BO)).toContainText('Not delivered');
  await expect(row(BO)).not.toContainText('Active');
  await page.getByRole('searchbox', { name: 'Phone or reference' }).fill(`login-${ANA}`);
  await expect(row(BO)).toHaveCount(0);
  await row('Ana Souza').click();
  await expect(heading(page, 'Code to Ana Souza')).toBeVisible();
  await expect(page.locator('dl.facts').first()).toContainText(/Verified after\s*\d+ s/);
});

test('the recipients of a broadcast are named, and each leads to its message', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/contacts', { name: 'Ana Souza', phone: ANA });
  const recipients = [{ to: ANA, variables: ['7', 'Friday'] }, { to: BO, variables: ['8', 'Monday'] }];
  const made = await world.api('POST', '/v1/messaging/broadcasts', { name: 'Orders', template_name: 'order_update', recipients });
  await visit(page, `/broadcasts/${made.broadcast_id}`);
  await page.getByRole('table', { name: 'Recipients' }).getByRole('row').filter({ hasText: 'Ana Souza' }).click();
  await expect(page.getByRole('region', { name: 'Message' })).toContainText('Friday');
  await page.getByRole('link', { name: 'Open broadcast' }).click();
  await expect(heading(page, 'Orders')).toBeVisible();
});
