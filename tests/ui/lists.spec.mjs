/** Lists of very many rows: only what is seen is in the document, and a place is found again. */
import { expect, heading, limit, size, test, visit } from './world.mjs';

const MANY = size(5000, 100_000);
const name = (n) => `Person ${String(n).padStart(6, '0')}`;
const NEWEST = name(MANY - 1);

/** How long it takes from now until a link of this name is there, in ms, as the page measures it. */
const shown = (page, wanted) => page.evaluate((text) => new Promise((done) => {
  const started = performance.now();
  const look = () => ([...document.querySelectorAll('main a')].some((it) => it.textContent === text)
    ? done(performance.now() - started) : requestAnimationFrame(look));
  look();
}), wanted);

/** The times of frames, in order of length, while the table is scrolled evenly. */
const scrolled = (table) => table.evaluate((node) => new Promise((done) => {
  const times = [];
  let before = performance.now();
  const step = (now) => {
    times.push(now - before);
    before = now;
    node.scrollBy(0, 60);
    if (times.length < 200) requestAnimationFrame(step);
    else done(times.sort((a, b) => a - b));
  };
  requestAnimationFrame(step);
}));

test(`${MANY} contacts are scrolled, opened and come back to`, async ({ signed: page, world }) => {
  test.setTimeout(size(240_000, 600_000));
  for (let from = 0; from < MANY; from += 1000) {
    const contacts = [...Array(1000).keys()].map((i) => ({
      name: name(from + i), phone: `+1555${2_000_000 + from + i}`, tags: i % 5 ? [] : ['fifth'],
    }));
    await world.api('POST', '/v1/contacts/batch', { contacts });
  }
  const first = shown(page, NEWEST);
  await visit(page, '/contacts');
  const table = page.getByRole('table', { name: 'Contacts' });
  await expect(table.getByRole('link', { name: NEWEST })).toBeVisible();
  await expect(table).toHaveAttribute('aria-rowcount', String(MANY + 1));
  await expect(page.getByRole('status', { name: 'Contacts found' })).toHaveText(`${MANY.toLocaleString('en')} contacts`);
  expect(await table.getByRole('row').count()).toBeLessThanOrEqual(61);

  await table.focus();
  await page.keyboard.press('End');
  await expect(table.getByRole('link', { name: 'Person 000000' })).toBeVisible();
  expect(await table.getByRole('row').count()).toBeLessThanOrEqual(61);
  const last = table.getByRole('row').last();
  await expect(last).toHaveAttribute('aria-rowindex', String(MANY + 1));
  await page.keyboard.press('Home');
  await expect(table.getByRole('link', { name: NEWEST })).toBeVisible();

  const jumps = [];
  for (const share of [0.5, 0.2, 0.9, 0.4, 0.7]) {
    const there = Math.round((MANY - 1) * share);
    const shows = shown(page, name(MANY - 1 - there));
    await table.evaluate((node, at) => node.scrollTo(0, at * (node.scrollHeight - node.clientHeight)), there / (MANY - 1));
    jumps.push(Math.round(await shows));
  }
  const frames = await scrolled(table);
  const p99 = Math.round(frames[Math.floor(frames.length * 0.99)]);
  console.log(`${MANY} contacts: first rows after ${Math.round(await first)} ms, jumps ${jumps.join(', ')} ms, frames of scrolling p99 ${p99} ms`);
  // Ten times what was promised for a machine that does nothing else.
  expect(await first).toBeLessThan(limit(5000));
  expect(Math.max(...jumps)).toBeLessThan(limit(3000));
  expect(p99).toBeLessThan(limit(330));
  await page.keyboard.press('Home');
  await expect(table.getByRole('link', { name: NEWEST })).toBeVisible();

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

test('of thousands of events only those in sight are in the document, and new ones make nothing jump', async ({ signed: page, world }) => {
  await visit(page, '/events');
  const table = page.getByRole('table', { name: 'Events' });
  await world.api('POST', '/v1/contacts', { name: 'Before', phone: '+15554999999' });
  // What comes before the stream is open and the list is read is fetched, fifty events at a time.
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  await expect(table.getByRole('row').filter({ hasText: 'Before' })).toBeVisible();
  for (let from = 0; from < 1500; from += 500) {
    const contacts = [...Array(500).keys()].map((i) => ({ name: `Many ${from + i}.`, phone: `+1555${4_000_000 + from + i}` }));
    await world.api('POST', '/v1/contacts/batch', { contacts });
  }
  const newest = table.getByRole('row').filter({ hasText: 'Many 1499.' });
  await expect(newest).toBeVisible();
  expect(await table.getByRole('row').count()).toBeLessThanOrEqual(61);
  await expect(table).toHaveAttribute('aria-rowcount', /^1\d{3}$/);

  await page.evaluate(() => scrollTo(0, 20_000));
  const seen = table.getByRole('row').nth(20);
  await expect(seen).toHaveAttribute('aria-rowindex', /^[56]\d\d$/);
  const about = (it) => /Many \d+\./.exec(it)?.[0];
  const text = await seen.textContent();
  await world.api('POST', '/v1/otp/send', { phone: '+15550100073' });
  const fresh = page.getByRole('button', { name: /^\d+ new$/ });
  await expect(fresh).toBeVisible();
  expect(about(await seen.textContent())).toBe(about(text));
  await fresh.click();
  await expect(table.getByRole('row').filter({ hasText: '+15550100073' }).first()).toBeInViewport();
  expect(await page.evaluate(() => scrollY)).toBe(0);
});

test('codes and contacts that come while their list is scrolled wait for a click', async ({ signed: page, world }) => {
  const phones = [...Array(40).keys()].map((i) => `+1555010${8000 + i}`);
  for (const phone of phones) await world.api('POST', '/v1/otp/send', { phone });
  const contacts = [...Array(120).keys()].map((i) => ({ name: `Waiting ${String(i).padStart(3, '0')}`, phone: `+1555011${1000 + i}` }));
  await world.api('POST', '/v1/contacts/batch', { contacts });
  await visit(page, '/codes');
  const codes = page.getByRole('table', { name: 'Codes' });
  await expect(codes.getByRole('row')).toHaveCount(41);
  await page.evaluate(() => scrollTo(0, 700));
  const seen = codes.getByRole('row').nth(20);
  const phoneOf = async () => /\+\d+/.exec(await seen.textContent())[0];
  const before = await phoneOf();
  const place = (await seen.boundingBox()).y;
  await world.api('POST', '/v1/otp/send', { phone: '+15550109999' });
  const fresh = page.getByRole('button', { name: /^\d+ new$/ });
  await expect(fresh).toHaveText('1 new');
  await expect(codes).not.toContainText('+15550109999');
  expect(await phoneOf()).toBe(before);
  expect(Math.abs((await seen.boundingBox()).y - place)).toBeLessThan(60);
  await expect(page.getByRole('status').filter({ hasText: '1 new' })).toHaveCount(1);
  // What is known changes in its place.
  const [last] = (await world.api('GET', `/v1/otp?phone=${encodeURIComponent(phones[30])}`)).data;
  await world.api('POST', '/v1/otp/cancel', { request_id: last.request_id });
  await expect(codes.getByRole('row').filter({ hasText: phones[30] })).toContainText('Cancelled');
  await fresh.click();
  await expect(codes.getByRole('row').nth(1)).toContainText('+15550109999');
  expect(await page.evaluate(() => scrollY)).toBeLessThan(200);

  await visit(page, '/contacts');
  const table = page.getByRole('table', { name: 'Contacts' });
  await expect(table.getByRole('link', { name: 'Waiting 119' })).toBeVisible();
  await table.evaluate((node) => node.scrollTo(0, 1200));
  await expect(table.getByRole('link', { name: 'Waiting 080' })).toBeVisible();
  const at = () => table.getByRole('link').evaluateAll((all) => all.slice(0, 20).map((it) => it.textContent));
  const shown = await at();
  await world.api('POST', '/v1/contacts', { name: 'New one', phone: '+15550112222' });
  await expect(page.getByRole('button', { name: '1 new' })).toBeVisible();
  expect(await at()).toEqual(shown);
  await page.getByRole('button', { name: '1 new' }).click();
  await expect(table.getByRole('link', { name: 'New one' })).toBeVisible();
});

test('all rows in sight are read again, also those of a second page', async ({ signed: page, world }) => {
  const name = (i) => `Waiting ${String(i).padStart(3, '0')}`;
  const contacts = [...Array(120).keys()].map((i) => ({ name: name(i), phone: `+1555012${1000 + i}` }));
  const made = await world.api('POST', '/v1/contacts/batch', { contacts });
  await visit(page, '/contacts');
  const table = page.getByRole('table', { name: 'Contacts' });
  await expect(table.getByRole('link', { name: name(119) })).toBeVisible();
  const row = (await table.getByRole('row').nth(2).boundingBox()).height;
  await table.evaluate((node, top) => node.scrollTo(0, top), 42 * row);
  for (const i of [76, 65]) await expect(table.getByRole('link', { name: name(i) })).toBeVisible();
  const { id } = made.data[65].contact ?? made.data[65];
  await world.api('PATCH', `/v1/contacts/${id}`, { name: 'Updated' });
  await expect(table.getByRole('link', { name: 'Updated' })).toBeVisible();
  for (const i of [76, 66, 64]) await expect(table.getByRole('link', { name: name(i) })).toBeVisible();
});

test('events and a timeline show what comes from the other national form of a phone', async ({ signed: page, world }) => {
  const inbound = (text) => world.api('POST', '/v1/sandbox/inbound', { from: '+551187654321', text });
  const { id } = await world.api('POST', '/v1/contacts', { name: 'Rita', phone: '+5511987654321' });
  await visit(page, '/events?about=%2B5511987654321');
  const events = page.getByRole('table', { name: 'Events' }).getByRole('row');
  await expect(events.filter({ hasText: 'contact.created' })).toHaveCount(1);
  await world.api('POST', '/v1/sandbox/inbound', { from: '+5511976654321', text: 'Of another person' });
  await inbound('Oi');
  await expect(events.filter({ hasText: 'message.received' })).toHaveCount(1);
  await inbound('Tudo bem?');
  await expect(events.filter({ hasText: 'message.received' })).toHaveCount(2);

  await visit(page, `/contacts/${id}`);
  const timeline = page.getByRole('list', { name: 'Timeline' });
  await expect(timeline).toContainText('Tudo bem?');
  await inbound('Até logo');
  await expect(timeline).toContainText('Até logo');
  await expect(timeline).not.toContainText('Of another person');
});

test('a search that has found nothing so far says so, and goes on', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/contacts', { name: 'Far', phone: '+15550100555' });
  const { data: [event] } = await world.api('GET', '/v1/events?about=%2B15550100555');
  const asked = [];
  await page.route(/\/v1\/events\?.*about=/, (route) => {
    asked.push(new URL(route.request().url()).searchParams.get('cursor'));
    const last = asked.length === 23;
    return route.fulfill({ json: { data: last ? [event] : [], next_cursor: last ? null : `part-${asked.length}` } });
  });
  await visit(page, '/events?about=%2B15550100555');
  await expect(page.getByText('No matches so far. Some entries have not been searched yet.')).toBeVisible();
  await expect(page.getByRole('heading', { name: 'No events' })).toHaveCount(0);
  await expect(page.getByText('No events')).toHaveCount(0);
  expect(asked).toHaveLength(20);
  await page.getByRole('button', { name: 'Keep searching' }).click();
  await expect(page.getByRole('table', { name: 'Events' }).getByRole('row').filter({ hasText: 'contact.created' })).toBeVisible();
  expect(asked).toEqual([null, ...[...Array(22).keys()].map((i) => `part-${i + 1}`)]);
  await expect(page.getByRole('button', { name: 'Keep searching' })).toHaveCount(0);
});
