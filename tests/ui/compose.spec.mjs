/** What people fill in: an error stands under its field in their words, a time is chosen and checked, nothing is asked in vain. */
import { expect, heading, test, visit } from './world.mjs';

/** The field that a label names, with what stands below it. */
const fieldOf = (place, label) => place.locator('.field', { has: (place.page?.() ?? place).getByLabel(label, { exact: true }) });

/** As a picker takes it, in the page's own zone. */
const inMinutes = (page, minutes) =>
  page.evaluate((n) => {
    const at = new Date(Date.now() + n * 60_000);
    return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  }, minutes);

/** The bodies of previews that the page asks for. */
function previews(page) {
  const asked = [];
  page.on('request', (it) => it.url().endsWith('/v1/messaging/broadcasts/preview') && asked.push(it.postDataJSON()));
  return asked;
}

async function startBroadcast(page, template) {
  await visit(page, '/broadcasts/new');
  await page.getByRole('combobox', { name: 'Template' }).selectOption({ label: template });
  await page.getByRole('radio', { name: 'Phone numbers' }).check();
}

test('what a broadcast lacks is said under each field, and no preview is asked for before it can succeed', async ({ signed: page }) => {
  const asked = previews(page);
  await startBroadcast(page, 'order_update (en)');
  const form = page.locator('.compose form');
  await page.getByRole('textbox', { name: 'Text for {{1}}' }).fill('Ada');
  await page.getByRole('textbox', { name: 'Phone numbers' }).fill('+15550300001\n12345');
  await expect(form.getByRole('alert')).toHaveCount(0);
  await page.getByRole('button', { name: 'Send broadcast' }).click();
  await expect(fieldOf(form, 'Name').getByRole('alert')).toHaveText('This field is required');
  await expect(fieldOf(form, 'Text for {{2}}').getByRole('alert')).toHaveText('This field is required');
  await expect(fieldOf(form, 'Phone numbers').getByRole('alert')).toHaveText('12345 is not a valid phone number (example: +15550123456)');
  await expect(form.getByRole('alert')).toHaveCount(3);
  await expect(page.getByRole('textbox', { name: 'Name', exact: true })).toBeFocused();
  await expect(page.getByRole('dialog')).toHaveCount(0);
  expect(asked).toEqual([]);
  // Each goes as it is mended, and what is whole is shown at once.
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Orders');
  await page.getByRole('textbox', { name: 'Phone numbers' }).fill('+15550300001');
  await page.getByRole('textbox', { name: 'Text for {{2}}' }).fill('17');
  await expect(form.getByRole('alert')).toHaveCount(0);
  await expect(page.getByRole('region', { name: 'Preview' })).toContainText('order 17');
  expect(asked.every((it) => it.recipients[0].variables.join() === 'Ada,17')).toBe(true);
  // A click before the preview is there waits for it.
  await page.getByRole('textbox', { name: 'Text for {{2}}' }).fill('18');
  await page.getByRole('button', { name: 'Send broadcast' }).click();
  const dialog = page.getByRole('dialog', { name: 'Send broadcast?' });
  await expect(dialog).toContainText('1 recipient');
  expect(asked.at(-1).recipients[0].variables).toEqual(['Ada', '18']);
});

test('recipients that lack a value are said under the place that takes it', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/contacts', { name: 'Ada', phone: '+15550100611', tags: ['some'], custom_fields: { city: 'Rome' } });
  await world.api('POST', '/v1/contacts', { name: 'Bo', phone: '+15550100612', tags: ['some'] });
  const segment = await world.api('POST', '/v1/segments', { name: 'Some', filter: { tags_any: ['some'] } });
  await visit(page, `/broadcasts/new?segment=${segment.id}`);
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Cities');
  await page.getByRole('combobox', { name: 'Template' }).selectOption({ label: 'order_update (en)' });
  await page.getByRole('combobox', { name: '{{1}}' }).selectOption('name');
  await page.getByRole('combobox', { name: '{{2}}' }).selectOption('city');
  await expect(page.getByRole('region', { name: 'Preview' })).toContainText('1 is missing a value for a variable');
  await page.getByRole('button', { name: 'Send broadcast' }).click();
  await expect(fieldOf(page, '{{2}}').getByRole('alert')).toHaveText('1 recipient is missing a value for a variable.');
  await expect(page.getByRole('dialog')).toHaveCount(0);
});

/** What a server may say of what was sent, and the field that it stands under. */
const REFUSALS = [
  ['`name` must have 1 to 200 characters, none of them control', 'Name', /^Must have 1 to 200 characters/],
  ['`variables_from[1]` must be `name`, or an object with a `text`', 'Text for {{2}}', /^Must be/],
  ['`variables_from[0]` of the contact with +15550100001 must not have a line break', 'Text for {{1}}', /^\+15550100001: must not have/],
  ['`recipients[0].variables`: `components[0].parameters[1]` must not have a line break; and 3 more', 'Text for {{2}}', /^Must not have a line break$/],
  ['`recipients[0]`, `recipients[1]` must be in E.164', 'Phone numbers', /^Entry 1: must be in E\.164; Entry 2: must be in E\.164$/],
  ['`recipients` must have at least one entry', 'Phone numbers', /^Must have at least one entry$/],
  ['`name`: invalid type: integer `7`, expected a string', 'Name', /^Must be a string$/],
  ['`template_name` must not be empty', 'Template', /^Must not be empty$/],
];

test('a refusal that names a place in a list stands under the field that wrote it', async ({ signed: page }) => {
  let message = '';
  await page.route('**/v1/messaging/broadcasts/preview', (route) =>
    route.fulfill({ status: 400, json: { error: 'Bad Request', code: 'VALIDATION_ERROR', message, request_id: 'req_1' } }));
  await startBroadcast(page, 'order_update (en)');
  const form = page.locator('.compose form');
  await page.getByRole('textbox', { name: 'Text for {{1}}' }).fill('Ada');
  await page.getByRole('textbox', { name: 'Text for {{2}}' }).fill('17');
  for (const [i, [said, label, text]] of REFUSALS.entries()) {
    message = said;
    await page.getByRole('textbox', { name: 'Phone numbers' }).fill(`+1555030000${i}`);
    await expect(fieldOf(form, label).getByRole('alert')).toHaveText(text);
    await expect(form.getByRole('alert')).toHaveCount(1);
  }
  // What names none of them stands at the form, and so does the name of a field that is only offered.
  for (const said of ['the workspace has no active messaging number', '`nmae` is not known; did you mean `name`?']) {
    message = said;
    await page.getByRole('textbox', { name: 'Phone numbers' }).fill(`+15550300${said.length}`);
    await expect(form.locator('.error.block')).toContainText(said.replace('`nmae`', 'nmae'));
    await expect(form.getByRole('alert')).toHaveCount(1);
  }
});

test.describe('where clocks are changed', () => {
  test.use({ timezoneId: 'Europe/Berlin' });

  test('a broadcast starts now or later, and a time that cannot be is said under its field', async ({ signed: page, world }) => {
    await startBroadcast(page, 'spring_sale (en)');
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Later');
    await page.getByRole('textbox', { name: 'Phone numbers' }).fill('+15550300001');
    await expect(page.getByLabel('Date and time')).toHaveCount(0);
    await page.getByRole('radio', { name: 'Later' }).check();
    const at = page.getByLabel('Date and time');
    const below = fieldOf(page, 'Date and time');
    await expect(below).toContainText('Time zone: Europe/Berlin (GMT+');
    const send = page.getByRole('button', { name: 'Send broadcast' });
    await send.click();
    await expect(below.getByRole('alert')).toHaveText('Choose a date and time');
    await expect(at).toBeFocused();
    for (const [value, text] of [
      ['2020-01-31T09:30', 'This time is in the past'],
      ['2099-03-29T02:30', 'This time does not exist on that day because the clocks change'],
    ]) {
      await at.fill(value);
      await send.click();
      await expect(below.getByRole('alert')).toHaveText(text);
    }
    // A day without its time is not the day's first minute.
    await at.fill('');
    await at.press('Home');
    await page.keyboard.type('12242098');
    await send.click();
    await expect(below.getByRole('alert')).toHaveText('Enter a complete date and time');
    await expect(page.getByRole('dialog')).toHaveCount(0);
    await at.fill('2098-07-01T09:30');
    await expect(below).toContainText('GMT+2');
    await send.click();
    const dialog = page.getByRole('dialog', { name: 'Send broadcast?' });
    await expect(dialog).toContainText('starts Jul 1, 2098, 9:30');
    await dialog.getByRole('button', { name: 'Schedule' }).click();
    await expect(page.getByRole('status', { name: 'Broadcast status' })).toHaveText('Scheduled');
    const [made] = (await world.api('GET', '/v1/messaging/broadcasts?limit=1')).data;
    expect(made.schedule_at).toMatch(/^2098-07-01T07:30:00/);
  });
});

test('a time is past by the clock of the sandbox', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/sandbox/clock', { advance_seconds: 86_400 });
  await page.goto(`${world.origin}/ui/broadcasts/new`);
  await page.getByRole('radio', { name: 'Later' }).check();
  await page.getByLabel('Date and time').fill(await inMinutes(page, 60));
  await page.getByRole('button', { name: 'Send broadcast' }).click();
  await expect(fieldOf(page, 'Date and time').getByRole('alert')).toHaveText('This time is in the past');
  await page.getByLabel('Date and time').fill(await inMinutes(page, 60 * 25));
  await expect(fieldOf(page, 'Date and time').getByRole('alert')).toHaveCount(0);
});

test('the end of a key is chosen, and one that is past is said under its field', async ({ signed: page, world }) => {
  await visit(page, '/keys');
  await page.getByRole('button', { name: 'New key' }).first().click();
  const dialog = page.getByRole('dialog', { name: 'New key' });
  await dialog.getByRole('textbox', { name: 'Name' }).fill('shop');
  await dialog.getByLabel('Expires').fill('2020-01-31T09:30');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await expect(fieldOf(dialog, 'Expires').getByRole('alert')).toHaveText('This time is in the past');
  await dialog.getByLabel('Expires').fill('2099-01-31T09:30');
  await dialog.getByRole('textbox', { name: 'Requests per hour' }).fill('many');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await expect(fieldOf(dialog, 'Requests per hour').getByRole('alert')).toHaveText(/^Must be a whole number/);
  await dialog.getByRole('textbox', { name: 'Requests per hour' }).fill('500');
  await dialog.getByRole('textbox', { name: 'Allowed IPs' }).fill('10.1.0.0/16, here');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await expect(fieldOf(dialog, 'Allowed IPs').getByRole('alert')).toHaveText(/^Entry 2: must be an IP address or a subnet/);
  await dialog.getByRole('textbox', { name: 'Allowed IPs' }).fill('10.1.0.0/16');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await expect(dialog.getByRole('textbox', { name: 'API key' })).toHaveValue(/^pr_/);
  const made = (await world.api('GET', '/admin/v1/workspaces/demo/keys')).data.find((it) => it.name === 'shop');
  expect(made.expires_at).toMatch(/^2099-01-3/);
});

test('days of statistics are chosen, and a range that is none asks for nothing', async ({ signed: page }) => {
  await visit(page, '/analytics');
  await page.getByLabel('From', { exact: true }).fill('2026-01-10');
  await expect.poll(() => new URL(page.url()).searchParams.get('from')).toBe('2026-01-10');
  const asked = [];
  page.on('request', (it) => it.url().includes('/v1/analytics/') && asked.push(it.url()));
  await page.getByLabel('To', { exact: true }).fill('2026-01-01');
  await expect(fieldOf(page, 'To').getByRole('alert')).toHaveText('The end date is before the start date');
  await page.getByLabel('To', { exact: true }).fill('');
  await expect(fieldOf(page, 'To').getByRole('alert')).toHaveText('Choose a date');
  expect(asked).toEqual([]);
  await page.getByLabel('To', { exact: true }).fill('2026-01-31');
  await expect.poll(() => new URL(page.url()).searchParams.get('to')).toBe('2026-01-31');
  await expect(page.getByRole('alert')).toHaveCount(0);
});

test('what a new workspace lacks is what is wrong, with where it is mended', async ({ signed: page, world }) => {
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  await visit(page, '/');
  const wrong = page.getByRole('region', { name: 'Current problems' });
  await expect(wrong).toContainText('No problems');
  await world.api('POST', '/admin/v1/workspaces', { id: 'empty', name: 'Empty' });
  await page.evaluate(() => localStorage.setItem('workspace', 'empty'));
  await page.goto(`${world.origin}/ui/`);
  await expect(heading(page, 'Home')).toBeVisible();
  const links = wrong.getByRole('link');
  await expect(links).toHaveText([/^No number is connected/, /^No credits left/, /^The code template otp_code is not/, /^No utility or marketing template is approved/]);
  expect(await links.evaluateAll((all) => all.map((it) => it.getAttribute('href')))).toEqual([
    '/ui/settings/numbers', '/ui/operator', '/ui/templates', '/ui/templates',
  ]);
  await expect(wrong).not.toContainText('No problems');
  await world.api('POST', '/admin/v1/workspaces/empty/numbers', { kind: 'sandbox' });
  await world.api('POST', '/admin/v1/workspaces/empty/credits', { add: 100 });
  await page.reload();
  await expect(links).toHaveText([/^The code template otp_code is not/, /^No utility or marketing template is approved/]);
});
