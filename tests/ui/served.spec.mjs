/** Lists that others change or take along: requests, notes, contacts, files. */
import { readFileSync } from 'node:fs';
import { expect, heading, signIn, test, visit } from './world.mjs';

test('requests of the workspace are listed with their status and key', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/otp/send', { phone: '+15550100601' });
  await world.api('GET', '/v1/otp/otp_01jd3v0x5n8m7k2q4r6s8t0w2y').catch(() => {});
  await visit(page, '/requests');
  const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row');
  const sent = rows.filter({ hasText: '/v1/otp/send' });
  await expect(sent).toHaveCount(1);
  await expect(sent).toContainText('POST');
  await expect(sent).toContainText('200');
  await expect(page.getByRole('table', { name: 'Requests' })).not.toContainText('5550100601');
  await page.getByRole('combobox', { name: 'Status' }).selectOption('404');
  await expect(sent).toHaveCount(0);
  await expect(rows.filter({ hasText: '/v1/otp/{request_id}' })).toHaveCount(1);
});

test('two agents share notes, and see who is answering', async ({ signed: page, world, browser }) => {
  await world.api('POST', '/v1/sandbox/inbound', { from: '+15550100602', name: 'Grace', text: 'Hello?' });
  const { id } = (await world.api('GET', '/v1/conversations?limit=1')).data[0];
  const other = await (await browser.newContext({ viewport: { width: 1400, height: 860 } })).newPage();
  await signIn(other, await world.person('agent', 'second@example.com'));
  await page.setViewportSize({ width: 1400, height: 860 });
  for (const tab of [page, other]) await visit(tab, `/inbox/${id}`);
  const notes = (tab) => tab.getByRole('region', { name: 'Notes' });
  await notes(other).getByLabel('Note').fill('Wants a refund');
  await notes(other).getByRole('button', { name: 'Add note' }).click();
  await expect(notes(page).getByRole('listitem')).toContainText('Wants a refund');
  await other.getByRole('textbox', { name: 'Reply' }).pressSequentially('We look');
  await expect(page.getByRole('status', { name: 'Other agents' })).toContainText('second@example.com');
  await expect(other.getByRole('status', { name: 'Other agents' })).toHaveText('');
});

test('all contacts that were found are tagged and deleted by the server', async ({ signed: page, world }) => {
  const contacts = [...Array(60).keys()].map((i) => ({ name: `Bulk ${i}`, tags: ['vip'] }));
  await world.api('POST', '/v1/contacts/batch', { contacts });
  const found = async (query) => (await world.api('GET', `/v1/contacts?limit=1&${query}`)).total;
  await visit(page, '/contacts');
  await page.getByRole('checkbox', { name: 'Select Bulk 59' }).check();
  const bar = page.getByRole('toolbar', { name: 'Selected contacts' });
  await bar.getByRole('button', { name: 'Select all 60' }).click();
  await bar.getByRole('button', { name: 'Add tag' }).click();
  const dialog = page.getByRole('dialog', { name: 'Add tag' });
  await expect(dialog.locator('datalist option')).toHaveCount(1);
  await dialog.getByLabel('Tag').fill('gold');
  await dialog.getByRole('button', { name: 'Add tag' }).click();
  await expect(bar).toHaveCount(0);
  await expect.poll(() => found('tags_all=vip,gold')).toBe(60);
  const made = (await world.api('GET', '/v1/contacts?limit=1')).data[0];
  await visit(page, `/contacts/${made.id}`);
  await expect(heading(page, made.name)).toBeVisible();
  await expect(page.getByRole('list', { name: 'Timeline' }).getByRole('listitem').last()).toContainText(/contact/i);
});

test('recipients, statistics and events are taken along as the server writes them', async ({ signed: page, world }) => {
  const { broadcast_id: id } = await world.api('POST', '/v1/messaging/broadcasts', { name: 'Few', template_name: 'spring_sale', recipients: ['+15550100603'] });
  const taken = async (name) => {
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name }).click()]);
    return [file.suggestedFilename(), readFileSync(await file.path(), 'utf8')];
  };
  await visit(page, `/broadcasts/${id}`);
  await expect(page.getByRole('status', { name: 'Broadcast status' })).toHaveText('Completed');
  await page.getByRole('combobox', { name: 'Outcome', exact: true }).selectOption('failed');
  expect((await taken('Download CSV'))[1]).not.toContain('+15550100603');
  await page.getByRole('combobox', { name: 'Outcome', exact: true }).selectOption('sent');
  const [name, recipients] = await taken('Download CSV');
  expect(name).toBe(`${id}.csv`);
  expect(recipients.split('\r\n')[0]).toBe('to,message_id,status,error_reason,error_code,error_details');
  expect(recipients).toMatch(/\r\n\+15550100603,msg_\w+,sent,,,\r\n$/);
  await visit(page, '/events');
  const [file, text] = await taken('Download JSON');
  expect(file).toBe('events.jsonl');
  const lines = text.trimEnd().split('\n').map((line) => JSON.parse(line));
  expect(lines.map((it) => it.type)).toContain('broadcast.created');
  await visit(page, '/analytics/codes');
  const [days, counts] = await taken('Download CSV');
  expect(days).toMatch(/^codes-\d{4}-.*\.csv$/);
  expect(counts).toMatch(/^day,sent,delivered,verified,wrong,expired,failed,refused\r\n/);
});
