/** Rows of lists: each is a link, and lists of the whole server come a page at a time. */
import { expect, test, visit } from './world.mjs';

const LISTS = [
  ['/keys', 'API keys', 'API key'], ['/requests', 'Requests', 'Request'], ['/settings/people', 'Members', 'Member'],
  ['/me', 'Sessions', 'Session'], ['/operator/audit', 'Audit log', 'Audit record'],
];

for (const [path, list, one] of LISTS) {
  test(`a row of "${list}" opens beside it, and the address holds it`, async ({ signed: page, world }) => {
    await page.goto(`${world.origin}/ui${path}`);
    const rows = page.getByRole('table', { name: list }).getByRole('row');
    await expect(rows.nth(1)).toBeVisible();
    await page.keyboard.press('j');
    await expect(rows.nth(1).getByRole('link')).toBeFocused();
    const text = await rows.nth(1).getByRole('link').textContent();
    await page.keyboard.press('Enter');
    const beside = page.getByRole('complementary', { name: one, exact: true });
    await expect(beside).toBeVisible();
    await expect(rows.nth(1)).toHaveClass(/selected/);
    expect(new URL(page.url()).searchParams.get('row')).toBeTruthy();
    await page.reload();
    await expect(beside).toBeVisible();
    if (list === 'API keys') await expect(beside).toContainText(text);
    await beside.getByRole('link', { name: 'Close' }).click();
    await expect(beside).toHaveCount(0);
    await page.goBack();
    await expect(beside).toBeVisible();
  });
}

test('workspaces and numbers of the whole server come a page at a time', async ({ signed: page, world }) => {
  const many = [...Array(60).keys()].map((i) => `other${String(i).padStart(2, '0')}`);
  for (const id of many) {
    await world.api('POST', '/admin/v1/workspaces', { id, name: id });
    await world.api('POST', `/admin/v1/workspaces/${id}/numbers`, { kind: 'sandbox' });
  }
  await visit(page, '/operator');
  // The end that comes into sight asks for more by itself.
  const more = () => page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await expect(page.getByRole('main')).toContainText('50 of 61');
  await more();
  const workspaces = page.getByRole('table', { name: 'Workspaces' });
  await expect(workspaces).toHaveAttribute('aria-rowcount', '62');
  const asked = new Set();
  page.on('request', (it) => /\/workspaces\/\w+\/numbers\?/.test(it.url()) && asked.add(it.url()));
  await visit(page, '/operator/numbers');
  const numbers = page.getByRole('table', { name: 'Numbers' });
  await expect(numbers.getByRole('row').nth(50)).toBeVisible();
  expect(asked.size).toBeLessThan(61);
  await more();
  await expect(numbers).toHaveAttribute('aria-rowcount', '62');
  expect(asked.size).toBe(61);
  // A workspace leads to its own numbers.
  await visit(page, '/operator');
  await workspaces.getByRole('link', { name: 'other07' }).click();
  await expect(numbers.getByRole('row')).toHaveCount(2);
  await expect(numbers).toContainText('other07');
});

test('a body is filled in by fields or as it is sent, and each changes the other', async ({ signed: page }) => {
  await visit(page, '/explorer/sendOtp');
  const fields = page.getByRole('group', { name: 'Body fields' });
  const raw = page.getByRole('textbox', { name: 'Body', exact: true });
  await fields.getByRole('textbox', { name: 'phone', exact: true }).fill('+15550100381');
  expect(JSON.parse(await raw.inputValue())).toMatchObject({ phone: '+15550100381' });
  await raw.fill('{"phone": "+15550100382"');
  await expect(page.getByRole('alert')).toContainText('JSON');
  await expect(fields).toHaveCount(0);
  await raw.fill('{"phone": "+15550100382"}');
  await expect(fields.getByRole('textbox', { name: 'phone', exact: true })).toHaveValue('+15550100382');
  await page.getByRole('button', { name: 'Run' }).click();
  await expect(page.getByRole('region', { name: 'Answer' })).toContainText('otp_');
  // Objects in objects, lists, choices.
  await visit(page, '/explorer/createOwnTemplate');
  await fields.getByRole('textbox', { name: 'language', exact: true }).fill('de');
  expect(JSON.parse(await raw.inputValue())).toMatchObject({ language: 'de' });
  await visit(page, '/explorer/createWebhook');
  await fields.getByRole('textbox', { name: 'events', exact: true }).fill('otp.sent\notp.failed');
  await fields.getByRole('combobox', { name: 'ordered', exact: true }).selectOption('true');
  expect(JSON.parse(await raw.inputValue())).toMatchObject({ events: ['otp.sent', 'otp.failed'], ordered: true });
  // Line by line as it is typed.
  const events = fields.getByRole('textbox', { name: 'events', exact: true });
  await events.fill('');
  await events.pressSequentially('otp.sent');
  await events.press('Enter');
  await events.pressSequentially('otp.read');
  expect(JSON.parse(await raw.inputValue())).toMatchObject({ events: ['otp.sent', 'otp.read'] });
  await events.fill('');
  expect(JSON.parse(await raw.inputValue())).not.toHaveProperty('events');
});

test('numbers that could not be got are got by the next try', async ({ signed: page, world }) => {
  await world.api('POST', '/admin/v1/workspaces', { id: 'second', name: 'Second' });
  await world.api('POST', '/admin/v1/workspaces/second/numbers', { kind: 'sandbox' });
  let fails = true;
  await page.route('**/admin/v1/workspaces/second/numbers?*', (route) =>
    fails ? route.fulfill({ status: 503, json: { status: 'error', code: 'SERVICE_UNAVAILABLE', message: 'not now' } }) : route.continue());
  await visit(page, '/operator/numbers');
  await expect(page.getByRole('alert')).toContainText('not now');
  fails = false;
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect(page.getByRole('table', { name: 'Numbers' })).toContainText('second');
});
