/** An import whose tab is closed midway loses nothing and makes nothing twice. */
import { readFileSync } from 'node:fs';
import { expect, size, test, visit } from './world.mjs';

const ROWS = size(5000, 100_000);
const BAD = size(10, 200);
const GOOD = ROWS - BAD;
/** The tab is closed when so many are done. */
const MIDWAY = 0.4 * ROWS;

test('an import goes on after its tab was closed', async ({ signed: page, world, context }) => {
  test.setTimeout(size(150_000, 900_000));
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
