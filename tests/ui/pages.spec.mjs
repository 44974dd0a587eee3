/** Every page: its heading and title, contrast, names and roles, width, and hostile texts. */
import { readFileSync } from 'node:fs';
import { expect, fill, heading, HOSTILE, test, visit } from './world.mjs';

// A trace of every page takes longer than the pages.
test.use({ trace: 'off' });

const MESSAGING = [
  ['/', 'Home'], ['/phone', 'Phone'], ['/codes', 'Codes'], ['/messages', 'Messages'], ['/inbox', 'Inbox'],
  ['/broadcasts', 'Broadcasts'], ['/broadcasts/new', 'New broadcast'], ['/templates', 'Templates'],
  ['/contacts', 'Contacts'], ['/segments', 'Segments'], ['/import', 'Import contacts'],
];
const MANAGING = [
  ['/events', 'Events'], ['/webhooks', 'Webhooks'], ['/keys', 'API keys'], ['/requests', 'Requests'],
  ['/explorer', 'API explorer'], ['/explorer/sendOtp', 'API explorer'], ['/analytics', 'Analytics'],
  ['/analytics/broadcasts', 'Analytics'], ['/settings', 'Settings'], ['/settings/people', 'Settings'],
  ['/settings/opt-outs', 'Settings'], ['/settings/channels', 'Settings'], ['/operator', 'Operator'],
  ['/operator/numbers', 'Operator'], ['/operator/system', 'Operator'], ['/operator/audit', 'Operator'],
  ['/me', 'My account'], ['/nowhere', 'Page not found'],
];
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const WIDE = { width: 1280, height: 860 };
const NARROW = { width: 360, height: 740 };

const AXE = readFileSync('node_modules/axe-core/axe.min.js', 'utf8');

/** Contrast is all that the dark colours change. axe is put into the page once; a policy forbids it to
 * a page, not to a test. */
async function violations(page, scheme) {
  await page.emulateMedia({ colorScheme: scheme });
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(AXE);
  const wanted = scheme === 'dark' ? { type: 'rule', values: ['color-contrast'] } : { type: 'tag', values: RULES };
  return page.evaluate(async (runOnly) => {
    const found = await globalThis.axe.run(document, { runOnly, resultTypes: ['violations'] });
    return found.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target.join(' ')).join(', ')}`);
  }, wanted);
}

async function faultsOf(page, list) {
  const faults = [];
  for (const [path, title] of list) {
    await page.setViewportSize(WIDE);
    await visit(page, path);
    await expect(heading(page, title)).toBeVisible();
    await expect(page.locator('.skeleton')).toHaveCount(0, { timeout: 15_000 });
    expect(await page.title()).toBe(`${title} · Postrider`);
    for (const scheme of ['light', 'dark']) {
      for (const v of await violations(page, scheme)) faults.push(`${path} ${scheme} ${v}`);
    }
    await page.setViewportSize(NARROW);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) faults.push(`${path} is ${over} px wider than ${NARROW.width}`);
    // 1280 px at 200 % are 640.
    await page.setViewportSize({ width: 640, height: 430 });
    const zoomed = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (zoomed > 0) faults.push(`${path} is ${zoomed} px too wide at 200 %`);
    if (await page.locator('[src="x"], [onerror]').count()) faults.push(`${path} made markup of a text`);
  }
  return faults;
}

for (const [name, list] of [['of messages and people', MESSAGING], ['of developers and operators', MANAGING]]) {
  test(`pages ${name} while there is little`, async ({ signed: page }) => {
    test.setTimeout(240_000);
    expect(await faultsOf(page, list)).toEqual([]);
  });
}

test('pages with hostile, long and right-to-left texts', async ({ signed: page, world }) => {
  test.setTimeout(240_000);
  const { contact, segment, hook, broadcast, conversation } = await fill(world);
  const [code] = (await world.api('GET', '/v1/otp')).data;
  const [message] = (await world.api('GET', '/v1/messaging/messages')).data;
  expect(await faultsOf(page, [
    ['/inbox', 'Inbox'], [`/inbox/${conversation.id}`, 'Inbox'],
    ['/broadcasts', 'Broadcasts'], [`/broadcasts/${broadcast.broadcast_id}`, broadcast.name],
    ['/segments', 'Segments'], [`/segments/${segment.id}`, segment.name],
    ['/contacts', 'Contacts'], [`/contacts/${contact.id}`, contact.name],
    [`/webhooks/${hook.id}`, 'http://127.0.0.1:9/hooks'], ['/events', 'Events'], ['/codes', 'Codes'],
    ['/messages', 'Messages'], [`/messages/${message.message_id}`, `Message to ${message.to}`],
    [`/codes/${code.request_id}`, `Code to ${code.phone}`], ['/templates', 'Templates'], ['/', 'Home'],
    ['/phone?phone=%2B15550100002', 'Phone'],
  ])).toEqual([]);
  await expect(page.getByRole('log', { name: 'Messages on this phone' })).toContainText(HOSTILE);
});

test('pages of developers and operators with all that they may have', async ({ signed: page, world }) => {
  test.setTimeout(240_000);
  const { hook } = await fill(world);
  await world.api('POST', '/admin/v1/workspaces', { id: 'other', name: `Other ${HOSTILE}` });
  await world.api('POST', '/admin/v1/workspaces/demo/keys', { name: HOSTILE, scopes: ['contacts:read'] });
  await world.api('POST', '/admin/v1/workspaces/demo/invites', { email: 'eve@example.com', role: 'agent' });
  await world.api('POST', '/v1/suppressions', { phone: '+15550100321' });
  const [number] = (await world.api('GET', '/admin/v1/workspaces/demo/numbers')).data;
  expect(await faultsOf(page, [
    ...MANAGING, ['/analytics/codes', 'Analytics'], ['/analytics/ads', 'Analytics'], ['/analytics/inbox', 'Analytics'],
    ['/webhooks', 'Webhooks'], [`/webhooks/${hook.id}`, 'http://127.0.0.1:9/hooks'], ['/operator/workspaces', 'Operator'],
    [`/operator/numbers/demo/${number.id}`, number.phone ?? `Number of ${number.kind}`],
  ])).toEqual([]);
});

test('in Arabic a page runs from the right, in no language is it wider than a phone', async ({ signed: page }) => {
  for (const language of ['ar', 'de', 'es', 'pt-BR']) {
    await page.evaluate((it) => localStorage.setItem('language', it), language);
    await page.setViewportSize(NARROW);
    for (const path of ['/', '/phone', '/inbox', '/broadcasts/new']) {
      await page.goto(new URL(`/ui${path}`, page.url()).href);
      await expect(page.locator('main h1')).toBeVisible();
      expect(await page.evaluate(() => document.documentElement.dir)).toBe(language === 'ar' ? 'rtl' : 'ltr');
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(over, `${path} in ${language}`).toBeLessThanOrEqual(0);
    }
  }
  expect(await violations(page, 'light')).toEqual([]);
});
