/** What holds on every page: its heading, landmarks, policy, hostile texts, contrast and width. */
import AxeBuilder from '@axe-core/playwright';
import { expect, fill, test } from './world.mjs';

// A trace of every page takes longer than the pages.
test.use({ trace: 'off' });

const PAGES = [['/', 'Home'], ['/phone', 'Phone'], ['/codes', 'Codes'], ['/messages', 'Messages'], ['/inbox', 'Inbox'], ['/broadcasts', 'Broadcasts'], ['/broadcasts/new', 'New broadcast'],
  ['/contacts', 'Contacts'], ['/import', 'Import contacts'], ['/segments', 'Segments'], ['/templates', 'Templates'], ['/events', 'Events'], ['/webhooks', 'Webhooks'], ['/keys', 'API keys'],
  ['/requests', 'Requests'], ['/explorer', 'API explorer'], ['/explorer/sendOtp', 'API explorer'], ['/analytics', 'Analytics'], ['/analytics/broadcasts', 'Analytics'], ['/settings', 'Settings'], ['/settings/people', 'Settings'],
  ['/settings/opt-outs', 'Settings'], ['/settings/channels', 'Settings'], ['/operator', 'Operator'], ['/operator/numbers', 'Operator'], ['/operator/system', 'Operator'], ['/operator/audit', 'Operator'], ['/me', 'My account'], ['/nowhere', 'Page not found']];

async function open(page, world, path, title) {
  await page.goto(`${world.origin}/ui${path}`);
  await expect(page.getByRole('heading', { level: 1, name: title, exact: true })).toBeVisible();
  await expect(page.locator('.skeleton')).toHaveCount(0, { timeout: 15_000 });
}

/** Contrast is all that the dark colours change. */
async function violations(page, dark) {
  const axe = new AxeBuilder({ page });
  const found = await (dark ? axe.withRules(['color-contrast']) : axe.withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'])).analyze();
  return found.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target.join(' ')).join(', ')}`);
}

const tooWide = (page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);

async function everyPage(page, world, list) {
  const faults = [];
  for (const [path, title] of list) {
    await page.setViewportSize({ width: 1280, height: 860 });
    await open(page, world, path, title);
    expect(await page.title()).toBe(`${title} · Postrider`);
    for (const scheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: scheme });
      for (const v of await violations(page, scheme === 'dark')) faults.push(`${path} ${scheme} ${v}`);
    }
    await page.setViewportSize({ width: 360, height: 740 });
    if ((await tooWide(page)) > 0) faults.push(`${path} is wider than 360 px`);
    if (await page.locator('[src="x"], img[onerror], [onerror]').count()) faults.push(`${path} made markup of a text`);
  }
  return faults;
}

test('the frame has its landmarks, names and order', async ({ signed: page, world }) => {
  await open(page, world, '/codes', 'Codes');
  await expect(page.getByRole('banner')).toBeVisible();
  await expect(page.getByRole('navigation', { name: 'Main' })).toBeVisible();
  await expect(page.getByRole('main')).toBeVisible();
  await expect(page.getByRole('combobox', { name: 'Workspace' })).toBeVisible();
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  await page.locator('body').press('Tab');
  await expect(page.getByRole('link', { name: 'Skip to content' })).toBeFocused();
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Webhooks' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Webhooks' })).toBeFocused();
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('dialog', { name: 'Search' })).toBeVisible();
  await page.keyboard.type('segm');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1, name: 'Segments' })).toBeFocused();
  await page.keyboard.press('g');
  await page.keyboard.press('i');
  await expect(page.getByRole('heading', { level: 1, name: 'Inbox' })).toBeVisible();
  await page.goBack();
  await expect(page.getByRole('heading', { level: 1, name: 'Segments' })).toBeVisible();
  await page.getByRole('button', { name: 'API', exact: true }).click();
  await expect(page.getByRole('dialog', { name: 'API calls' })).toContainText('$POSTRIDER_API_KEY');
  await page.keyboard.press('Escape');
  await expect(page.getByRole('button', { name: 'API', exact: true })).toBeFocused();
  await page.getByRole('button', { name: 'Account' }).click();
  await expect(page.getByRole('menuitem', { name: 'My account' })).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await expect(page.getByRole('menuitem', { name: 'Sign out' })).toBeFocused();
});

test('every page while there is little', async ({ signed: page, world }) => {
  test.setTimeout(240_000);
  expect(await everyPage(page, world, PAGES)).toEqual([]);
});

test('every page with hostile, long and right-to-left texts', async ({ signed: page, world }) => {
  test.setTimeout(240_000);
  const { hook } = await fill(world.api);
  const conversation = (await world.api('GET', '/v1/conversations?limit=1')).data[0].id;
  const broadcast = (await world.api('GET', '/v1/messaging/broadcasts?limit=1')).data[0];
  const segment = (await world.api('GET', '/v1/segments?limit=1')).data[0];
  const contact = (await world.api('GET', '/v1/contacts?search=two&limit=1')).data[0];
  const more = [['/inbox', 'Inbox'], [`/inbox/${conversation}`, 'Inbox'], [`/broadcasts/${broadcast.broadcast_id}`, broadcast.name], [`/segments/${segment.id}`, segment.name], [`/contacts/${contact.id}`, contact.name],
    [`/webhooks/${hook}`, 'http://127.0.0.1:9/hooks'], ['/contacts', 'Contacts'], ['/events', 'Events'], ['/codes', 'Codes'], ['/messages', 'Messages'], ['/phone?phone=%2B15550100002', 'Phone'], ['/segments', 'Segments'], ['/broadcasts', 'Broadcasts']];
  expect(await everyPage(page, world, more)).toEqual([]);
});

test('signed out, a page leads to "Sign in" and back', async ({ page, world }) => {
  await page.goto(`${world.origin}/ui/codes?status=failed`);
  await expect(page.getByRole('heading', { level: 1, name: 'Sign in' })).toBeVisible();
  expect(page.url()).toContain('next=%2Fcodes%3Fstatus%3Dfailed');
  expect(await violations(page)).toEqual([]);
  await page.goto(`${world.origin}/ui/phone#in=used`);
  await expect(page.getByRole('alert')).toHaveText('This link has been used or is too old');
});
