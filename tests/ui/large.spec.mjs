/** A large broadcast that is watched, paused, resumed and cancelled; and how soon a page is there. */
import { expect, heading, limit, signIn, size, test, visit } from './world.mjs';

const RECIPIENTS = size(6000, 100_000);
/** Messages in a second: time enough to press what there is. */
const RATE = size(100, 2000);

const number = (text) => Number(text.replace(/\D/g, ''));
const outcomes = (page) => page.getByRole('table', { name: 'Counts' }).getByRole('row').locator('td:nth-child(2)').allTextContents();

test(`a broadcast to ${RECIPIENTS} adds up at every moment, in two browsers`, async ({ signed: page, world, browser }) => {
  test.setTimeout(size(300_000, 900_000));
  const [{ id }] = (await world.api('GET', '/admin/v1/workspaces/demo/numbers')).data;
  const path = `/admin/v1/workspaces/demo/numbers/${id}`;
  await world.api('PATCH', path, { messages_per_second: RATE });
  const recipients = [...Array(RECIPIENTS).keys()].map((i) => `+1555${5_000_000 + i}`);
  for (const to of recipients.slice(0, 20)) await world.api('POST', '/v1/sandbox/outcomes', { to, outcome: 'failed', times: 1 });
  const { broadcast_id } = await world.api('POST', '/v1/messaging/broadcasts', { name: 'Large', template_name: 'spring_sale', recipients });
  const other = await (await browser.newContext()).newPage();
  await signIn(other, await world.person('owner', 'second@example.com'));
  for (const tab of [page, other]) {
    await visit(tab, `/broadcasts/${broadcast_id}`);
    await expect(heading(tab, 'Large')).toBeVisible();
  }
  const wrong = [];
  let samples = 0;
  let watching = true;
  const watch = (async () => {
    while (watching) {
      const counts = await outcomes(page);
      const sum = counts.reduce((all, n) => all + number(n), 0);
      if (counts.length && (counts.length !== 9 || sum !== RECIPIENTS)) wrong.push(counts);
      samples++;
    }
  })();
  const status = (tab) => tab.getByRole('status', { name: 'Broadcast status' });
  const done = async (tab) => Number(await tab.getByRole('progressbar', { name: 'Progress' }).getAttribute('aria-valuenow'));
  await expect.poll(() => done(page)).toBeGreaterThan(RECIPIENTS / 20);
  const pressed = Date.now();
  await page.getByRole('button', { name: 'Pause' }).click();
  await expect(status(page)).toHaveText('Paused');
  const took = Date.now() - pressed;
  console.log(`paused ${took} ms after the click, ${samples} samples so far`);
  // Ten times what was promised for a machine that does nothing else.
  expect(took).toBeLessThan(limit(10_000));
  await expect(status(other)).toHaveText('Paused');
  const paused = (await world.api('GET', `/v1/messaging/broadcasts/${broadcast_id}`)).counts;
  expect(paused.pending).toBeGreaterThan(0);
  await other.reload();
  await expect(status(other)).toHaveText('Paused');
  await expect.poll(async () => (await outcomes(other)).map(number)[0]).toBe(paused.pending);
  await other.getByRole('button', { name: 'Resume' }).click();
  await expect(status(page)).toHaveText('Sending');
  const before = await done(page);
  await expect.poll(() => done(page)).toBeGreaterThan(before + 50);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel broadcast' }).click();
  for (const tab of [page, other]) await expect(status(tab)).toHaveText('Cancelled');
  const went = async () => RECIPIENTS - (await world.api('GET', `/v1/messaging/broadcasts/${broadcast_id}`)).counts.cancelled;
  for (const tab of [page, other]) await expect.poll(async () => (await done(tab)) - (await went())).toBe(0);
  expect(await went()).toBeLessThan(RECIPIENTS);
  expect(await outcomes(other)).toEqual(await outcomes(page));
  watching = false;
  await watch;
  expect(samples).toBeGreaterThan(10);
  expect(wrong).toEqual([]);
  await world.api('PATCH', path, { messages_per_second: 0 });
  await page.getByRole('button', { name: 'Retry failed' }).click();
  await expect(status(page)).toHaveText('Completed');
  expect(page.url()).not.toContain(broadcast_id);
  await expect(page.getByRole('progressbar', { name: 'Progress' })).toHaveAttribute('aria-valuemax', '20');
});

test('a page is there soon, the next one sooner', async ({ signed: page, world }) => {
  const shown = (name) => page.evaluate((wanted) => new Promise((done) => {
    const look = () => document.querySelector('h1')?.textContent === wanted && !document.querySelector('.skeleton');
    const tick = () => (look() ? done(performance.now()) : requestAnimationFrame(tick));
    tick();
  }), name);
  await page.goto(`${world.origin}/ui/contacts`);
  const first = await shown('Contacts');
  const times = [];
  for (const [path, name] of [['/segments', 'Segments'], ['/contacts', 'Contacts'], ['/codes', 'Codes'], ['/contacts', 'Contacts'], ['/codes', 'Codes']]) {
    const started = await page.evaluate(() => performance.now());
    await visit(page, path);
    times.push(Math.round((await shown(name)) - started));
  }
  console.log(`from the address to the first page ${Math.round(first)} ms, then from page to page ${times.join(', ')} ms`);
  // Ten times what was promised for a machine that does nothing else.
  expect(first).toBeLessThan(limit(5000));
  expect(Math.max(...times)).toBeLessThan(limit(1000));
});
