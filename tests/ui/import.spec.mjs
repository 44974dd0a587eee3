/** An import whose tab is closed midway loses nothing and makes nothing twice. */
import { expect, test, visit } from './world.mjs';

const ROWS = 5000;
const BAD = 10;

test('an import goes on after its tab was closed', async ({ signed: page, world, context }) => {
  test.setTimeout(150_000);
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
  await expect.poll(async () => Number(await progress.getAttribute('aria-valuenow')), { timeout: 60_000 }).toBeGreaterThanOrEqual(2000);
  await page.close();

  const tab = await context.newPage();
  await tab.goto(`${world.origin}/ui/import`);
  await begin(tab, 'Resume');
  await expect(tab.getByRole('status', { name: 'Imported' })).toHaveText('4,990', { timeout: 90_000 });
  await expect(tab.getByRole('status', { name: 'Refused' })).toHaveText('10');
  const refused = tab.getByRole('table', { name: 'Refused rows' }).getByRole('row');
  await expect(refused).toHaveCount(BAD + 1);
  await expect(refused.nth(1)).toContainText('phone');
  expect((await world.api('GET', '/v1/contacts?limit=1')).total).toBe(ROWS - BAD);
  expect(await tab.locator('[onerror]').count()).toBe(0);
});
