/** Every page: its heading and title, contrast, names and roles, width, and hostile texts. */
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { APP, expect, fill, heading, HOSTILE, test, visit } from './world.mjs';

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
  ['/settings/opt-outs', 'Settings'], ['/settings/numbers', 'Settings'], ['/settings/channels', 'Settings'], ['/operator', 'Operator'],
  ['/operator/numbers', 'Operator'], ['/operator/system', 'Operator'], ['/operator/audit', 'Operator'],
  ['/me', 'My account'], ['/nowhere', 'Page not found'],
];
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const WIDE = { width: 1280, height: 860 };
const NARROW = { width: 360, height: 740 };

const AXE = readFileSync('node_modules/axe-core/axe.min.js', 'utf8');

/** axe is put into the page once; a policy forbids it to a page, not to a test. Where a page is seen in both schemes,
 * contrast is all that the dark one changes. */
async function violations(page, scheme, all = scheme === 'light') {
  await page.emulateMedia({ colorScheme: scheme });
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(AXE);
  const wanted = all ? { type: 'tag', values: RULES } : { type: 'rule', values: ['color-contrast'] };
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
    await expect(page.locator('.skeleton')).toHaveCount(0);
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
    expect(await faultsOf(page, list)).toEqual([]);
  });
}

test('pages with hostile, long and right-to-left texts', async ({ signed: page, world }) => {
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
  const { hook } = await fill(world);
  await world.api('POST', '/admin/v1/workspaces', { id: 'other', name: `Other ${HOSTILE}` });
  await world.api('POST', '/admin/v1/workspaces/demo/keys', { name: HOSTILE, scopes: ['contacts:read'] });
  await world.api('POST', '/admin/v1/workspaces/demo/invites', { email: 'eve@example.com', role: 'agent' });
  await world.api('POST', '/v1/suppressions', { phone: '+15550100321' });
  const [number] = (await world.api('GET', '/admin/v1/workspaces/demo/numbers')).data;
  expect(await faultsOf(page, [
    ...MANAGING, ['/analytics/codes', 'Analytics'], ['/analytics/ads', 'Analytics'], ['/analytics/inbox', 'Analytics'],
    ['/webhooks', 'Webhooks'], [`/webhooks/${hook.id}`, 'http://127.0.0.1:9/hooks'], ['/operator/workspaces', 'Operator'],
    [`/operator/numbers/demo/${number.id}`, number.phone ?? `Number (${number.kind})`],
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

/** What opens over a page. */
const DIALOGS = [
  ['/contacts', 'New contact', 'New contact'], ['/segments', 'New segment', 'New segment'], ['/templates', 'New template', 'New template'],
  ['/webhooks', 'New endpoint', 'New endpoint'], ['/keys', 'New key', 'New key'], ['/settings/people', 'Invite', 'Invite'],
  ['/settings/opt-outs', 'Add opt-out', 'Add opt-out'], ['/settings/numbers', 'Connect number', 'Connect number'],
  ['/operator', 'New workspace', 'New workspace'], ['/codes', 'API', 'API calls'], ['/me', 'Search', 'Search'],
];

test('dialogs, signing in and what a role may not see have no violation, in the dark with all rules', async ({ signed: page, world, browser }) => {
  await world.api('POST', '/v1/otp/send', { phone: '+15550100001' });
  const fields = { city: HOSTILE, note: 'one\ntwo', plan: 3, vip: true, deep: { a: [null] } };
  const { id } = await world.api('POST', '/v1/contacts', { name: 'Ada', tags: ['a,b', HOSTILE], custom_fields: fields });
  const faults = [];
  const look = async (tab, name) => {
    await expect(tab.locator('.skeleton')).toHaveCount(0);
    for (const scheme of ['light', 'dark']) for (const v of await violations(tab, scheme, true)) faults.push(`${name} ${scheme} ${v}`);
    await tab.setViewportSize(NARROW);
    const over = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) faults.push(`${name} is ${over} px wider than ${NARROW.width}`);
    await tab.setViewportSize(WIDE);
  };
  for (const [path, button, name] of [...DIALOGS, [`/contacts/${id}`, 'Edit', 'Edit contact'], ['/contacts?tags_any=a,b', 'Filter', 'Filter']]) {
    await visit(page, path);
    await page.getByRole('button', { name: button, exact: true }).first().click();
    await expect(page.getByRole('dialog', { name })).toBeVisible();
    await look(page, `${path} ${name}`);
    await page.keyboard.press('Escape');
    await expect(page.getByRole('dialog')).toHaveCount(0);
  }
  await page.getByRole('button', { name: 'Account' }).click();
  await look(page, 'Account');
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toBeVisible();
  await look(page, 'Keyboard shortcuts');

  const other = await (await browser.newContext()).newPage();
  await other.goto(`${world.origin}/ui/sign-in`);
  await expect(heading(other, 'Sign in')).toBeVisible();
  await other.getByText('Use an admin token').click();
  await look(other, '/sign-in');
  await other.goto(`${world.origin}/ui/join`);
  await expect(heading(other, 'Join')).toBeVisible();
  await look(other, '/join');
  await other.goto(await world.person('agent'));
  await expect(other.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  await visit(other, '/keys');
  await expect(heading(other, 'Not allowed')).toBeVisible();
  await look(other, 'Not allowed');
  await visit(other, '/');
  await expect(other.getByRole('region', { name: 'Last hour' })).toContainText('Open conversations');
  await look(other, 'Home of an agent');
  await other.context().close();
  expect(faults).toEqual([]);
});

test('where a system sets its own colours, bars and choices are still seen', async ({ signed: page, world }) => {
  await page.emulateMedia({ forcedColors: 'active' });
  const { broadcast_id: id } = await world.api('POST', '/v1/messaging/broadcasts', {
    name: 'Sale', template_name: 'spring_sale', recipients: ['+15550100001', '+15550100009'],
  });
  await visit(page, `/broadcasts/${id}`);
  const colour = (selector, name) => page.locator(selector).first().evaluate((it, what) => getComputedStyle(it)[what], name);
  await expect(page.locator('.progress i').first()).toBeAttached();
  expect(await colour('.progress i', 'backgroundColor')).not.toBe(await colour('.progress', 'backgroundColor'));
  expect(await colour('.menu-main [aria-current]', 'outlineStyle')).toBe('solid');
  await visit(page, '/codes');
  await expect(page.locator('.funnel .bar').first()).toBeVisible();
  expect(await colour('.funnel .bar', 'outlineStyle')).toBe('solid');
});

test('no style names a side that a language turns around', () => {
  const folder = path.join(APP, 'styles');
  const wrong = readdirSync(folder).flatMap((name) => readFileSync(path.join(folder, name), 'utf8').split('\n')
    .filter((line) => /(?<![\w-])(left|right)(?![\w-])|(margin|padding|border|inset)-(left|right)|border-(top|bottom)-(left|right)-radius/.test(line.replace(/\/\*.*?\*\//g, '')))
    .map((line) => `${name}: ${line.trim()}`));
  expect(wrong).toEqual([]);
});

/** Buttons, labels and headings whose text is cut. */
const clipped = (page) => page.evaluate(() => [...document.querySelectorAll('button, .button, label, legend, h1, h2, h3, dt, th, .badge, .menu-main a, [role=tab], .tabs a')]
  .filter((it) => it.clientWidth > 0 && !it.closest('.sr, .virtual, .skeleton, .account') && !it.classList.contains('sr'))
  .filter((it) => it.scrollWidth > it.clientWidth + 1 && getComputedStyle(it).overflowX !== 'visible')
  .map((it) => `${it.tagName} ${it.className}: ${it.textContent.trim().slice(0, 40)}`));

test('texts that are 40 % longer are cut nowhere, and make no page wider', async ({ signed: page }) => {
  const known = JSON.parse(readFileSync(path.join(APP, 'words', 'de.json'), 'utf8'));
  // In words of at most sixteen letters, as a language has them.
  const longer = (text) => text + 'ö'.repeat(Math.ceil([...text].length * 0.4)).replace(/ö{16}/g, '$& ');
  const words = Object.fromEntries(Object.keys(known).map((key) => [key, longer(key)]));
  await page.route(/words\/en\.json$/, (route) => route.fulfill({ json: words }));
  await page.reload();
  const faults = [];
  for (const [path_] of [...MESSAGING, ...MANAGING]) {
    await visit(page, path_);
    await expect(page.locator('main h1')).toBeVisible();
    await expect(page.locator('.skeleton')).toHaveCount(0);
    for (const size of [WIDE, NARROW]) {
      await page.setViewportSize(size);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (over > 0) faults.push(`${path_} is ${over} px wider than ${size.width}`);
      for (const it of await clipped(page)) faults.push(`${path_} at ${size.width}: ${it}`);
    }
  }
  expect(faults).toEqual([]);
});
