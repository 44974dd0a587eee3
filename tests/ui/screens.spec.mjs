/** Pictures of the main pages, to be looked at: `target/ui/screenshots`. What a test can see of them is checked elsewhere. */
import { mkdirSync } from 'node:fs';
import { expect, makeWorld, received, signIn, test, visit } from './world.mjs';

// A trace of every page takes longer than the pages.
test.use({ trace: 'off' });

const FOLDER = 'screenshots';
const LONG = 'Maximilian-Alexander von Hohenstaufen-Württemberg-Sigmaringen zu Donaueschingen';

/** A workspace that has much, with long and right-to-left names. */
async function furnish(world) {
  const { api } = world;
  const write = (from, name, text) => api('POST', '/v1/sandbox/inbound', { from, name, text });
  const asked = ['Where is my order?', 'Thank you!', 'Can I still change the address?', 'Do you ship to Norway?', 'It has arrived.'];
  for (const [i, name] of ['Ada Lovelace', 'Grace Hopper', LONG, 'Katherine Johnson', 'Edsger Dijkstra'].entries()) {
    await write(`+1555010010${i}`, name, asked[i]);
  }
  await write('+966555000044', 'ليلى العلي', 'مرحبا، أين طلبي رقم 4711؟');
  for (let i = 0; i < 30; i++) {
    const phone = i % 4 ? `+155501020${10 + i}` : `+49155501${10 + i}`;
    const { request_id } = await api('POST', '/v1/otp/send', { phone });
    const { code } = await received(world, phone);
    if (i % 3) await api('POST', '/v1/otp/verify', { request_id, otp: code });
  }
  const contacts = [...Array(300).keys()].map((i) => ({
    name: i === 7 ? LONG : i === 9 ? 'عبد الرحمن بن محمد' : `Person ${i}`, phone: `+1555020${1000 + i}`,
    email: i % 3 ? `person${i}@example.com` : null, tags: i % 5 ? ['newsletter'] : ['vip', 'a tag of many words that is long', 'newsletter', 'spring'],
  }));
  await api('POST', '/v1/contacts/batch', { contacts });
  for (const to of ['+15550100101', '+15550100102', '+15550100103']) {
    await api('POST', '/v1/messaging/send', { to, type: 'template', template: { name: 'welcome', language: 'en' } });
  }
  const update = { name: 'order_update', language: 'en', components: [{ type: 'body', parameters: [{ type: 'text', text: '1017' }, { type: 'text', text: 'Friday, between nine and noon' }] }] };
  await api('POST', '/v1/sandbox/outcomes', { to: '+15550201005', outcome: 'failed', times: 1 });
  for (const to of ['+15550201004', '+15550201005', '+15550201007', '+966555000044']) await api('POST', '/v1/messaging/send', { to, type: 'template', template: update });
  await api('POST', '/v1/messaging/send', { to: '+15550100102', type: 'text', text: 'Your table for two is booked for Friday at seven. Do you need a high chair?' });
  for (const [i, phone] of ['+15550201001', '+15550201007', '+966555000044', '+15550209999'].entries()) {
    if (i === 3) await api('POST', '/v1/sandbox/outcomes', { to: phone, outcome: 'failed', times: 1 });
    const { request_id } = await api('POST', '/v1/otp/send', { phone });
    if (i === 1) await api('POST', '/v1/otp/verify', { request_id, otp: '000000' });
  }
  for (const [i, outcome] of ['failed', 'lost', 'held'].entries()) await api('POST', '/v1/sandbox/outcomes', { to: `+1555030${1003 + i}`, outcome, times: 1 });
  const recipients = [...Array(120).keys()].map((i) => `+1555030${1000 + i}`);
  const broadcast = await api('POST', '/v1/messaging/broadcasts', { name: `Spring sale for ${LONG}`, template_name: 'spring_sale', recipients });
  await api('POST', '/v1/messaging/broadcasts', {
    name: 'Summer sale', template_name: 'spring_sale', recipients: recipients.slice(0, 20), schedule_at: '2099-06-21T09:00:00Z',
  });
  const segment = await api('POST', '/v1/segments', { name: 'Gold', filter: { tags_any: ['vip'] } });
  const hook = await api('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/a/very/long/path/of/an/endpoint/that/goes/on/and/on', events: ['otp.verified', 'otp.sent'] });
  await api('POST', `/v1/webhooks/${hook.id}/test`);
  await api('POST', '/v1/suppressions', { phone: '+15550100321', reason: 'asked by phone' });
  await api('POST', '/admin/v1/workspaces/demo/invites', { email: 'somebody.with.a.long.name@example.com', role: 'agent' });
  const conversation = (await api('GET', '/v1/conversations?limit=10')).data.find((it) => it.contact.name === LONG);
  const [contact] = (await api('GET', `/v1/contacts?search=${encodeURIComponent('Person 5')}`)).data;
  const [code] = (await api('GET', '/v1/otp')).data;
  const message = (await api('GET', '/v1/messaging/messages')).data.find((it) => it.error);
  const [number] = (await api('GET', '/admin/v1/workspaces/demo/numbers')).data;
  return { broadcast, segment, hook, conversation, contact, code, message, number };
}

/** Names, paths and the pages' files; `main` ones are looked at in every way. @param {any} made what there is, or nothing
 * @returns {[name: string, path: string, file: string, main?: boolean][]} */
const pages = (made) => [
  ['home', '/', 'home', true], ['phone', made ? '/phone?phone=%2B15550100102' : '/phone', 'phone', true],
  ['codes', '/codes', 'codes', true], ['messages', '/messages', 'messages', true], ['inbox', '/inbox', 'inbox'],
  ['broadcasts', '/broadcasts', 'broadcasts', true], ['broadcast-new', '/broadcasts/new', 'broadcast-new', true],
  ['templates', '/templates', 'templates', true], ['contacts', '/contacts', 'contacts', true], ['segments', '/segments', 'segments'],
  ['import', '/import', 'import'], ['events', '/events', 'events', true], ['webhooks', '/webhooks', 'webhooks'],
  ['keys', '/keys', 'api-keys'], ['requests', '/requests', 'requests'], ['explorer', '/explorer/sendOtp', 'explorer'],
  ['analytics', '/analytics/codes', 'analytics', true], ['settings', '/settings', 'settings'],
  ['settings-people', '/settings/people', 'settings', true], ['settings-numbers', '/settings/numbers', 'settings'],
  ['settings-opt-outs', '/settings/opt-outs', 'settings'], ['settings-channels', '/settings/channels', 'settings'],
  ['operator', '/operator', 'operator'], ['operator-numbers', '/operator/numbers', 'operator', true],
  ['operator-system', '/operator/system', 'operator'], ['operator-audit', '/operator/audit', 'operator'], ['me', '/me', 'me'],
  ...(made ? [
    ['conversation', `/inbox/${made.conversation.id}`, 'inbox', true],
    ['broadcast', `/broadcasts/${made.broadcast.broadcast_id}`, 'broadcast', true],
    ['contact', `/contacts/${made.contact.id}`, 'contact'], ['segment', `/segments/${made.segment.id}`, 'segment'],
    ['webhook', `/webhooks/${made.hook.id}`, 'webhook', true], ['code', `/codes/${made.code.request_id}`, 'code', true],
    ['message', `/messages/${made.message.message_id}`, 'message', true], ['number', `/operator/numbers/demo/${made.number.id}`, 'number'],
    ['analytics-broadcasts', '/analytics/broadcasts', 'analytics'],
  ] : []),
];

/** @param {{language?: string, scheme?: 'light' | 'dark', width?: number}} how */
async function take(page, where, prefix, { language = 'en', scheme = 'light', width = 1232 } = {}) {
  await page.emulateMedia({ colorScheme: scheme });
  await page.setViewportSize({ width, height: width < 500 ? 740 : 800 });
  await page.evaluate((it) => localStorage.setItem('language', it), language);
  await page.goto(new URL('/ui/', page.url()).href);
  for (const [name, path, file] of where) {
    await visit(page, path);
    await expect(page.locator(`main.page-${file} h1`)).toBeVisible();
    if (/^\/(settings|operator)(\/[\w-]+)?$/.test(path)) await expect(page.locator(`.tabs a[aria-current=page][href="/ui${path}"]`)).toBeVisible();
    await expect(page.locator('.skeleton')).toHaveCount(0);
    await page.mouse.move(0, 0);
    await page.screenshot({ path: `${FOLDER}/${prefix}-${name}.png`, animations: 'disabled' });
  }
}

test('pictures of the main pages are taken', async ({ browser }) => {
  test.setTimeout(1_200_000);
  mkdirSync(FOLDER, { recursive: true });
  const world = await makeWorld();
  const page = await (await browser.newContext()).newPage();
  await signIn(page, world.link);
  const main = (all) => all.filter(([, , , is]) => is);
  await take(page, main(pages(null)), 'empty');
  const full = pages(await furnish(world));
  await take(page, full, 'light');
  await take(page, main(full), 'dark', { scheme: 'dark' });
  await take(page, main(full), 'narrow', { width: 360 });
  await take(page, main(full), 'ar', { language: 'ar' });
  await take(page, main(full), 'ar-narrow', { language: 'ar', width: 360, scheme: 'dark' });
  await world.end();
});
