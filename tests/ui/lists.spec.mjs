/** Lists of very many rows: only what is seen is in the document, and a place is found again. */
import { expect, heading, test, visit } from './world.mjs';

const MANY = 5000;

test(`${MANY} contacts are scrolled, opened and come back to`, async ({ signed: page, world }) => {
  test.setTimeout(120_000);
  for (let from = 0; from < MANY; from += 1000) {
    const contacts = [...Array(1000).keys()].map((i) => ({
      name: `Person ${String(from + i).padStart(6, '0')}`, phone: `+1555${2_000_000 + from + i}`, tags: i % 5 ? [] : ['fifth'],
    }));
    await world.api('POST', '/v1/contacts/batch', { contacts });
  }
  const started = Date.now();
  await visit(page, '/contacts');
  const table = page.getByRole('table', { name: 'Contacts' });
  await expect(table.getByRole('link', { name: 'Person 004999' })).toBeVisible();
  console.log(`first rows of ${MANY} after ${Date.now() - started} ms`);
  await expect(table).toHaveAttribute('aria-rowcount', String(MANY + 1));
  await expect(page.getByRole('status', { name: 'Contacts found' })).toHaveText('5,000 contacts');
  expect(await table.getByRole('row').count()).toBeLessThanOrEqual(61);

  await table.focus();
  await page.keyboard.press('End');
  await expect(table.getByRole('link', { name: 'Person 000000' })).toBeVisible();
  expect(await table.getByRole('row').count()).toBeLessThanOrEqual(61);
  const last = table.getByRole('row').last();
  await expect(last).toHaveAttribute('aria-rowindex', String(MANY + 1));
  await page.keyboard.press('Home');
  await expect(table.getByRole('link', { name: 'Person 004999' })).toBeVisible();

  await page.getByRole('searchbox', { name: 'Search contacts' }).fill('Person 0012');
  await expect(page.getByRole('status', { name: 'Contacts found' })).toHaveText('100 contacts');
  await table.evaluate((node) => node.scrollTo(0, 1500));
  const link = table.getByRole('link', { name: 'Person 001250' });
  await link.click();
  await expect(heading(page, 'Person 001250')).toBeVisible();
  await page.goBack();
  await expect(heading(page, 'Contacts')).toBeVisible();
  expect(page.url()).toContain('search=Person+0012');
  await expect(link).toBeInViewport();
});
