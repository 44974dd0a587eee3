/** Phones as people and spreadsheets write them: the table of all readings, and the forms and the import that take them. */
import { copyFileSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { APP, expect, test, visit } from './world.mjs';

const CASES = JSON.parse(readFileSync(path.join(APP, '../../../tests/fixtures/phones.json'), 'utf8'));
const COUNTRIES = JSON.parse(readFileSync(path.join(APP, 'import/countries.json'), 'utf8'));
// The module imports nothing.
copyFileSync(path.join(APP, 'import/phones.js'), 'read-phone.mjs');
const { readPhone } = await import(path.resolve('read-phone.mjs'));

test('each phone of the table is read as it says', () => {
  for (const [what, cases] of Object.entries(CASES)) {
    for (const { text, country, phone, reason } of cases) {
      const found = readPhone(text, country, COUNTRIES);
      expect(found.phone ?? found.reason, `${what}: ${text} of ${country || 'no country'}`).toBe(phone ?? reason);
    }
  }
});

test('what is read once is read again as it is, and is E.164', () => {
  let seed = 7;
  const random = (n) => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) % n;
  const letters = '0123456789+-()./ \'eE,';
  const codes = Object.keys(COUNTRIES);
  for (let i = 0; i < 20_000; i++) {
    const text = Array.from({ length: 4 + random(16) }, () => letters[random(letters.length)]).join('');
    const country = codes[random(codes.length)];
    const { phone } = readPhone(text, country, COUNTRIES);
    if (!phone) continue;
    expect(phone, text).toMatch(/^\+[1-9]\d{6,14}$/);
    expect(readPhone(phone, country, COUNTRIES), text).toEqual({ phone });
  }
});

test('forms take phones as they are written, and show what they send', async ({ signed: page, world }) => {
  await visit(page, '/contacts');
  await page.getByRole('button', { name: 'New contact' }).first().click();
  const dialog = page.getByRole('dialog', { name: 'New contact' });
  await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('Ada');
  const phone = dialog.getByRole('textbox', { name: 'Phone' });
  await phone.fill('+1 (555) 010-0701');
  await expect(dialog.getByText('Sent as +15550100701')).toBeVisible();
  await expect(dialog.getByRole('combobox', { name: 'Country for local numbers' })).toHaveCount(0);
  // A national number is of no country until one is chosen; then of that, until another is.
  await phone.fill('030 123456');
  await dialog.getByRole('combobox', { name: 'Country for local numbers' }).selectOption('DE');
  await expect(dialog.getByText('Sent as +4930123456')).toBeVisible();
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(dialog).toHaveCount(0);
  expect((await world.api('GET', '/v1/contacts?limit=1')).data[0].phone).toBe('+4930123456');
  await visit(page, '/settings/opt-outs');
  await page.getByRole('button', { name: 'Add opt-out' }).click();
  await page.getByRole('textbox', { name: 'Phone' }).fill('0151 12345678');
  await expect(page.getByText('Sent as +4915112345678')).toBeVisible();
  await page.getByRole('button', { name: 'Opt out', exact: true }).click();
  await expect(page.getByRole('table', { name: 'Opt-outs' })).toContainText('+4915112345678');
  await visit(page, '/phone');
  await page.getByRole('textbox', { name: 'Phone number' }).fill('00 1 555 010 0702');
  await page.getByRole('button', { name: 'Send code' }).click();
  await expect(page.getByRole('textbox', { name: 'Phone number' })).toHaveValue('+15550100702');
  await expect(page.getByRole('status', { name: 'Code', exact: true })).toHaveText(/\d/);
  await visit(page, '/codes');
  await page.getByRole('searchbox', { name: 'Phone' }).fill('+1 555 010 0702');
  await expect(page.getByRole('table', { name: 'Codes', exact: true }).getByRole('row')).toHaveCount(2);
  // Many in a field: each line is one.
  await visit(page, '/broadcasts/new');
  await page.getByRole('radio', { name: 'Phone numbers' }).check();
  await page.getByRole('textbox', { name: 'Phone numbers' }).fill('030 123456\n+1 555 010 0703, +15550100704');
  await expect(page.getByText('030 123456 → +4930123456')).toBeVisible();
  await expect(page.getByRole('status', { name: 'Cost' })).toHaveText('3 credits');
});

test('an import asks for the country of national numbers, and shows what it makes of phones', async ({ signed: page, world }) => {
  const rows = ['030 123456', '+1 (555) 010-0801', '0044 20 7946 0958', "'+15550100802", '1.5550100803E+10', '4.9E+11', '15550100804'];
  const buffer = Buffer.from(`name,phone\r\n${rows.map((it, i) => `Person ${i},${it}`).join('\r\n')}`);
  await visit(page, '/import');
  await page.getByLabel('CSV file').setInputFiles({ name: 'sheet.csv', mimeType: 'text/csv', buffer });
  const check = page.getByRole('button', { name: 'Check', exact: true });
  await check.click();
  await expect(page.getByRole('status', { name: 'Check' })).toHaveText('4 rows would be refused');
  await expect(page.getByRole('table', { name: 'Refused rows' })).toContainText('choose a country');
  const country = page.getByRole('combobox', { name: 'Country for local numbers' });
  await country.selectOption({ label: 'United States (\u2066+1\u2069)' });
  await check.click();
  await expect(page.getByRole('status', { name: 'Check' })).toHaveText('2 rows would be refused');
  await country.selectOption('DE');
  await check.click();
  await expect(page.getByRole('table', { name: 'Refused rows' })).toContainText('rounded');
  const rewritten = page.getByRole('table', { name: 'Reformatted phone numbers' });
  await expect(rewritten.getByRole('row').filter({ hasText: '030 123456' })).toContainText('+4930123456');
  expect((await world.api('GET', '/v1/contacts?limit=1')).total).toBe(0);
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  await expect(page.getByRole('status', { name: 'Imported' })).toHaveText('6');
  const made = (await world.api('GET', '/v1/contacts?limit=10')).data.map((it) => it.phone);
  expect(made).toEqual(expect.arrayContaining(['+4930123456', '+15550100801', '+442079460958', '+15550100802']));
});
