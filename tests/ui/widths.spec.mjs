/** Every column of every table can be reached at every width, no row lies over another, and the inbox has a drawer. */
import { expect, fill, test, visit } from './world.mjs';

// A trace of every page takes longer than the pages.
test.use({ trace: 'off' });

const WIDTHS = [320, 360, 412, 480, 560, 640, 704, 705, 760, 820, 900, 960, 961, 1024, 1088, 1150, 1216, 1280, 1440, 1920];
const LONG = 'Maximilian-Alexander von Hohenstaufen-Württemberg-Sigmaringen zu Donaueschingen';
const TAGS = ['newsletter', 'vip', 'a tag of many words that is long', 'spring', 'Donaudampfschifffahrtsgesellschaft', 'summer'];

/** What no page may have at its width. Runs in the page. */
function faultsOfTables() {
  const faults = [];
  const seen = (it) => it.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !it.closest('.sr')
    && getComputedStyle(it).clipPath === 'none' && it.getBoundingClientRect().width > 1;
  const name = (it) => `${it.tagName.toLowerCase()}.${it.className} "${it.textContent.trim().slice(0, 30)}"`;
  const over = document.documentElement.scrollWidth - innerWidth;
  if (over > 0) faults.push(`the page is ${over} px too wide`);
  for (const table of document.querySelectorAll('main table, main [role=table].virtual')) {
    const box = table.closest('.table-box') ?? table;
    const scrolls = /auto|scroll/.test(getComputedStyle(box).overflowX);
    const edge = box.getBoundingClientRect();
    if (edge.left < -1 || edge.right > innerWidth + 1) faults.push(`${name(table)} leaves the page`);
    if (box.tabIndex < 0 && box.scrollWidth > box.clientWidth + 1) faults.push(`${name(table)} is not scrolled by keys`);
    const rows = [...table.querySelectorAll('tr:not(.rest), .virtual-row')].filter(seen);
    for (const row of rows) {
      const at = row.getBoundingClientRect();
      for (const cell of [...row.children].filter(seen)) {
        const own = cell.getBoundingClientRect();
        if (!scrolls && (own.right > edge.right + 1 || own.left < edge.left - 1)) faults.push(`${name(cell)} is cut`);
        for (const it of cell.querySelectorAll('*')) {
          if (!seen(it)) continue;
          // What ends in dots is whole on its row's page.
          const short = it.parentElement.closest('.one-line, .clip, .even td, .tag, .account-name');
          const [a, limit] = [it.getBoundingClientRect(), short ?? cell];
          const b = limit.getBoundingClientRect();
          if (!short && (a.right > b.right + 1 || a.left < b.left - 1)) faults.push(`${name(it)} is over the edge of its cell by ${Math.round(Math.max(a.right - b.right, b.left - a.left))}`);
          if (!short && (a.bottom > at.bottom + 1 || a.top < at.top - 1)) faults.push(`${name(it)} is over the edge of its row`);
        }
        if (getComputedStyle(cell).textOverflow === 'ellipsis') continue;
        for (const it of [...cell.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())) {
          const range = document.createRange();
          range.selectNodeContents(it);
          const text = range.getBoundingClientRect();
          if (text.right > own.right + 1 || text.left < own.left - 1) faults.push(`the text of ${name(cell)} is over its edge`);
        }
      }
    }
    const tops = rows.map((it) => it.getBoundingClientRect()).sort((a, b) => a.top - b.top);
    for (let i = 1; i < tops.length; i++) if (tops[i].top < tops[i - 1].bottom - 1 && !table.matches('.virtual')) faults.push(`row ${i} of ${name(table)} lies over the one before`);
    box.scrollLeft = getComputedStyle(box).direction === 'rtl' ? -1e6 : 1e6;
    const last = [...(rows[0]?.children ?? [])].filter(seen).at(-1)?.getBoundingClientRect();
    const [start, end] = getComputedStyle(box).direction === 'rtl' ? [-(last?.left ?? 0), -edge.left] : [last?.right ?? 0, edge.right];
    if (last && start > end + 1) faults.push(`the last column of ${name(table)} is not reached`);
    box.scrollLeft = 0;
  }
  return [...new Set(faults)].slice(0, 8);
}

/** So many of the pages are of messages and people. */
const HALF = 9;

/** A workspace that has much of all that is listed, in long words. */
async function furnish(world) {
  const { api } = world;
  await fill(world);
  const contacts = [...Array(90).keys()].map((i) => ({
    name: i % 7 ? `Person ${i}` : `${LONG} ${i}`, phone: `+${i % 3 ? '1555040' : '96655504'}${1000 + i}`,
    email: `${i % 5 ? 'person' : 'somebody.with.a.very.long.name.indeed'}${i}@mail.of.a.company.example.com`, tags: TAGS.slice(0, i % 7),
  }));
  await api('POST', '/v1/contacts/batch', { contacts });
  for (let i = 0; i < 70; i++) await api('POST', '/v1/otp/send', { phone: `+15550405${100 + i}` });
  const segment = await api('POST', '/v1/segments', { name: LONG, filter: { tags_any: TAGS } });
  const recipients = [...Array(80).keys()].map((i) => `+1555060${1000 + i}`);
  const broadcast = await api('POST', '/v1/messaging/broadcasts', { name: `Spring sale for ${LONG}`, template_name: 'spring_sale', recipients });
  const hook = await api('POST', '/v1/webhooks', {
    url: 'http://127.0.0.1:9/a/very/long/path/of/an/endpoint/that/goes/on/and/on', events: ['otp.verified', 'otp.sent'],
  });
  for (let i = 0; i < 3; i++) await api('POST', `/v1/webhooks/${hook.id}/test`);
  await api('POST', '/v1/suppressions', { phone: '+15550100321', reason: `asked by phone, says ${LONG}` });
  await api('POST', '/admin/v1/workspaces', { id: 'other', name: LONG });
  await api('POST', '/admin/v1/workspaces/demo/keys', { name: LONG, scopes: ['contacts:read', 'messaging:send', 'webhooks:manage'] });
  await api('POST', '/admin/v1/workspaces/demo/invites', { email: 'somebody.with.a.very.long.name.indeed@mail.example.com', role: 'agent' });
  const [code] = (await api('GET', '/v1/otp')).data;
  const [number] = (await api('GET', '/admin/v1/workspaces/demo/numbers')).data;
  return [
    ['contacts', '/contacts'], ['codes', '/codes'], ['code', `/codes/${code.request_id}`], ['messages', '/messages'],
    ['broadcasts', '/broadcasts'], ['broadcast', `/broadcasts/${broadcast.broadcast_id}`], ['segments', '/segments'],
    ['segment', `/segments/${segment.id}`], ['events', '/events'], ['webhooks', '/webhooks'], ['webhook', `/webhooks/${hook.id}`],
    ['api-keys', '/keys'], ['requests', '/requests'], ['analytics', '/analytics/codes'], ['analytics', '/analytics/broadcasts'],
    ['analytics', '/analytics/ads'], ['analytics', '/analytics/inbox'], ['settings', '/settings'], ['settings', '/settings/people'],
    ['settings', '/settings/opt-outs'], ['settings', '/settings/numbers'], ['operator', '/operator'], ['operator', '/operator/numbers'],
    ['operator', '/operator/system'], ['operator', '/operator/audit'], ['number', `/operator/numbers/demo/${number.id}`], ['me', '/me'],
  ];
}

/** The faults of a page at each width. */
async function walk(page, [file, where], widths) {
  await page.setViewportSize({ width: 1280, height: 800 });
  await visit(page, where);
  await expect(page.locator(`main.page-${file} h1`)).toBeVisible();
  const tabs = /^(settings|operator)$/.test(file);
  if (tabs) await expect(page.locator(`.tabs a[aria-current=page][href="/ui${where.split('?')[0]}"]`)).toBeVisible();
  if (where !== '/settings' && !where.startsWith('/analytics')) await expect(page.locator('main [role=table]').first()).toBeVisible();
  await expect(page.locator('.skeleton')).toHaveCount(0);
  const faults = [];
  for (const width of widths) {
    await page.setViewportSize({ width, height: 800 });
    // What watches the size of the window has drawn.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    for (const fault of await page.evaluate(faultsOfTables)) faults.push(`${where} at ${width}: ${fault}`);
  }
  return faults;
}

for (const [name, half] of [['of messages and people', 0], ['of developers and operators', 1]]) {
  test(`every column of pages ${name} can be reached at every width, and no row lies over another`, async ({ signed: page, world }) => {
    test.setTimeout(600_000);
    const faults = [];
    const pages = await furnish(world);
    for (const where of half ? pages.slice(HALF) : pages.slice(0, HALF)) faults.push(...(await walk(page, where, WIDTHS)));
    // Beside a chosen row there is less room.
    for (const [file, where] of half ? [['api-keys', '/keys'], ['operator', '/operator/audit'], ['requests', '/requests']] : []) {
      await walk(page, [file, where], []);
      const row = page.locator('main a.row-link').first();
      const href = await row.getAttribute('href');
      faults.push(...(await walk(page, [file, href.replace(/^\/ui/, '')], [360, 961, 1024, 1280])));
    }
    expect(faults).toEqual([]);
  });
}

test('every column can be reached where a page runs from the right', async ({ signed: page, world }) => {
  test.setTimeout(600_000);
  const faults = [];
  const pages = await furnish(world);
  await page.evaluate(() => localStorage.setItem('language', 'ar'));
  await page.goto(`${world.origin}/ui/`);
  await expect(page.getByRole('status', { name: 'الاتصال' })).toHaveText('مباشر');
  for (const where of pages) faults.push(...(await walk(page, where, [320, 720, 1100])));
  expect(faults).toEqual([]);
});

test('the contact of a conversation is a drawer over it where there is no room for three columns', async ({ signed: page, world }) => {
  const { conversation } = await fill(world);
  await visit(page, `/inbox/${conversation.id}`);
  const thread = page.getByRole('log', { name: 'Thread' });
  const drawer = page.getByRole('complementary', { name: 'Contact' });
  const open = page.getByRole('button', { name: 'Contact', exact: true });
  for (const [width, height] of [[1280, 860], [1024, 700]]) {
    await page.setViewportSize({ width, height });
    await expect(thread).toBeVisible();
    await expect(drawer).toBeHidden();
    const before = await thread.boundingBox();
    await open.click();
    await expect(drawer.getByRole('button', { name: 'Close' })).toBeFocused();
    expect(await thread.boundingBox()).toEqual(before);
    const box = await drawer.boundingBox();
    expect(Math.round(box.x + box.width)).toBe(width);
    expect(box.x).toBeGreaterThan(before.x);
    expect(Math.round(box.y + box.height)).toBe(height);
    await page.keyboard.press('Escape');
    await expect(drawer).toBeHidden();
    await expect(open).toBeFocused();
  }
  await page.setViewportSize({ width: 1440, height: 860 });
  await expect(drawer).toBeVisible();
  expect((await drawer.boundingBox()).x).toBeGreaterThanOrEqual((await thread.boundingBox()).x + (await thread.boundingBox()).width - 1);
});
