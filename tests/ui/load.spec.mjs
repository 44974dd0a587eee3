/** What many events in a short time do to the tabs that share one stream. */
import { expect, test } from './world.mjs';

/** POSTRIDER_UI_EVENTS=10000 is the size that is promised. */
const EVENTS = Number(process.env.POSTRIDER_UI_EVENTS ?? 1000);
/** POSTRIDER_UI_LOAD_SECONDS=60 is how long it is promised for. */
const SECONDS = Number(process.env.POSTRIDER_UI_LOAD_SECONDS ?? 5);

test.use({ env: { POSTRIDER_LIMITS__CONTACTS_PER_MINUTE: '0', POSTRIDER_LIMITS__KEY_REQUESTS_PER_HOUR: '0' } });

/** Each contact that is made is an event. */
const make = (world, count) =>
  world.api('POST', '/v1/contacts/batch', { contacts: [...Array(count).keys()].map((i) => ({ name: `Load ${i}` })) });
const newest = async (world) => (await world.api('GET', '/v1/events?order=desc&limit=1')).data[0]?.sequence ?? 0;

/** Notes the sequence of each event that a page hears of. */
const hear = (tab) => tab.evaluate(async () => {
  const script = document.querySelector('script[type=module][src]').src;
  const { listen } = await import(new URL('lib/live.js', script).href);
  globalThis.heard = [];
  listen((event) => event.sequence && globalThis.heard.push(event.sequence), () => {});
});
const heard = (tab) => tab.evaluate(() => globalThis.heard);

test(`of ${EVENTS} events no tab misses one or hears one twice, though the leader is closed`, async ({ signed: page, world, context }) => {
  test.setTimeout(300_000);
  const tabs = [page];
  await page.goto(`${world.origin}/ui/events`);
  while (tabs.length < 8) {
    const tab = await context.newPage();
    tabs.push(tab);
    await tab.goto(`${world.origin}/ui/events`);
  }
  for (const tab of tabs) {
    await expect(tab.getByRole('status', { name: 'Connection' })).toHaveText('Live');
    await hear(tab);
  }
  const before = await newest(world);
  const part = Math.min(500, EVENTS / 4);
  for (let made = 0; made < EVENTS; made += part) {
    const making = make(world, part);
    // The first tab leads. It goes while events come.
    if (made >= EVENTS / 2 && tabs.length === 8) await tabs.shift().close();
    await making;
  }
  const last = await newest(world);
  expect(last - before).toBeGreaterThanOrEqual(EVENTS);
  const all = [...Array(last - before).keys()].map((i) => before + 1 + i);
  for (const tab of tabs) {
    await expect.poll(async () => (await heard(tab)).at(-1), { timeout: 60_000 }).toBe(last);
    expect(await heard(tab)).toEqual(all);
  }
});

test(`1,000 events a second for ${SECONDS} s leave the page moving`, async ({ signed: page, world }) => {
  test.setTimeout(120_000 + SECONDS * 2000);
  await page.goto(`${world.origin}/ui/events`);
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  await hear(page);
  await page.evaluate(() => {
    globalThis.frames = [];
    let before = performance.now();
    const tick = (now) => {
      globalThis.frames.push(now - before);
      before = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  const heap = () => page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0);
  const heapBefore = await heap();
  const before = await newest(world);
  const started = Date.now();
  let made = 0;
  while (made < SECONDS * 1000) {
    await make(world, 100);
    made += 100;
    const early = started + made - Date.now();
    if (early > 0) await new Promise((done) => setTimeout(done, early));
  }
  const took = (Date.now() - started) / 1000;
  const last = await newest(world);
  await expect.poll(async () => (await heard(page)).at(-1), { timeout: 60_000 }).toBe(last);
  const frames = (await page.evaluate(() => globalThis.frames)).sort((a, b) => a - b);
  const at = (share) => Math.round(frames[Math.min(frames.length - 1, Math.floor(frames.length * share))]);
  const grown = Math.round(((await heap()) - heapBefore) / 1e6);
  console.log(`${made} events in ${took.toFixed(1)} s: ${frames.length} frames, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms, heap grown by ${grown} MB`);
  expect((await heard(page)).length).toBe(last - before);
});
