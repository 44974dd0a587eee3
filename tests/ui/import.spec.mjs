/** An import whose tab is closed midway loses nothing and makes nothing twice. */
import { readFileSync } from 'node:fs';
import { expect, size, test, visit } from './world.mjs';

const ROWS = size(5000, 100_000);
const BAD = size(10, 200);
const GOOD = ROWS - BAD;
/** The tab is closed when so many are done. */
const MIDWAY = 0.4 * ROWS;

test('an import goes on after its tab was closed', async ({ signed: page, world, context }) => {
  test.setTimeout(size(240_000, 900_000));
  const rows = [...Array(ROWS).keys()].map((i) => {
    const phone = i % (ROWS / BAD) === 7 ? '12' : `+1555${3_000_000 + i}`;
    return `"Person ""${i}""",${phone},"<img src=x onerror=1>\nline ${i}"`;
  });
  const file = { name: 'people.csv', mimeType: 'text/csv', buffer: Buffer.from(`name,phone,custom.note\r\n${rows.join('\r\n')}`) };
  const begin = async (tab, name) => {
    await visit(tab, '/import');
    await tab.getByLabel('CSV file').setInputFiles(file);
    await tab.getByRole('button', { name, exact: true }).click();
  };
  await begin(page, 'Import');
  const progress = page.getByRole('progressbar', { name: 'Import' });
  await expect.poll(async () => Number(await progress.getAttribute('aria-valuenow')), { timeout: size(60_000, 300_000) }).toBeGreaterThanOrEqual(MIDWAY);
  await page.close();

  const tab = await context.newPage();
  await tab.goto(`${world.origin}/ui/import`);
  await begin(tab, 'Resume');
  await expect(tab.getByRole('status', { name: 'Imported' })).toHaveText(GOOD.toLocaleString('en'), { timeout: size(90_000, 600_000) });
  await expect(tab.getByRole('status', { name: 'Refused' })).toHaveText(String(BAD));
  const refused = tab.getByRole('table', { name: 'Refused rows' }).getByRole('row');
  const [download] = await Promise.all([tab.waitForEvent('download'), tab.getByRole('link', { name: 'Download refused rows' }).click()]);
  const lines = readFileSync(await download.path(), 'utf8').match(/^\d+,phone,12,/gm);
  expect(lines).toHaveLength(BAD);
  await expect(refused.nth(1)).toContainText('phone');
  expect((await world.api('GET', '/v1/contacts?limit=1')).total).toBe(GOOD);
  expect(await tab.locator('[onerror]').count()).toBe(0);
});

test('an import sends 1,000 rows at a time, and a batch while the one before is under way', async ({ signed: page }) => {
  const rows = [...Array(4500).keys()].map((i) => `Person ${i},+1555${6_000_000 + i}`);
  const batches = [];
  const held = [];
  // The server's answers are held until two batches wait for them.
  await page.route('**/v1/contacts/batch', async (route) => {
    batches.push(route.request().postDataJSON().contacts.length);
    await new Promise((go) => {
      held.push(go);
      if (held.length === 2 || batches.length === 5) held.splice(0).forEach((it) => it());
    });
    await route.continue();
  });
  await visit(page, '/import');
  const file = { name: 'people.csv', mimeType: 'text/csv', buffer: Buffer.from(`name,phone\r\n${rows.join('\r\n')}`) };
  await page.getByLabel('CSV file').setInputFiles(file);
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  await expect(page.getByRole('status', { name: 'Imported' })).toHaveText('4,500');
  expect(batches).toEqual([1000, 1000, 1000, 1000, 500]);
});

test('a check names every row of the file that would be refused, and sends nothing', async ({ signed: page, world }) => {
  const lines = [...Array(60).keys()].map((i) => `Person ${i},+1555010${7000 + i},p${i}@example.com`);
  lines[40] = 'Zero,+0555,';
  lines[44] = ',+15550109001,';
  lines[50] = 'Mail,,no mail';
  lines[55] = 'Twice,+15550107000,';
  lines[58] = `${'n'.repeat(201)},,`;
  const csv = `name,phone,email\r\n${lines.join('\r\n')}`;
  await visit(page, '/import');
  await page.getByLabel('CSV file').setInputFiles({ name: 'check.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
  await page.getByRole('button', { name: 'Check' }).click();
  await expect(page.getByRole('status', { name: 'Check' })).toHaveText('5 rows would be refused');
  const rows = page.getByRole('table', { name: 'Refused rows' }).getByRole('row');
  const found = await rows.evaluateAll((all) => all.slice(1).map((row) => [...row.cells].slice(0, 3).map((it) => it.textContent.trim())));
  expect(found.map(([row, column]) => [row, column])).toEqual([
    ['42', 'phone'], ['46', 'name'], ['52', 'email'], ['57', 'phone'], ['60', 'name'],
  ]);
  expect((await world.api('GET', '/v1/contacts?limit=1')).total).toBe(0);
  // Another choice is another question.
  await page.getByRole('combobox', { name: 'Duplicate phone numbers' }).selectOption('update');
  await expect(page.getByRole('table', { name: 'Refused rows' })).toHaveCount(0);
  await page.getByRole('button', { name: 'Check' }).click();
  await expect(page.getByRole('status', { name: 'Check' })).toHaveText('4 rows would be refused');
  // What the check finds is what the server refuses.
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  await expect(page.getByRole('status', { name: 'Refused' })).toHaveText('4');
});
