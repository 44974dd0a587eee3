/** The inbox shows what a message of each type brings. */
import { expect, guard, signIn, test, visit } from './world.mjs';

const PHONE = '+15550100701';
const HOSTILE = '<img src=x onerror=alert(1)>';

test('what people send of each type is in the thread', async ({ page, world }) => {
  const wrong = guard(page, world);
  const write = (body) => world.api('POST', '/v1/sandbox/inbound', { from: PHONE, name: 'Grace', ...body });
  const { message_id } = await write({ text: 'Hello?' });
  await write({ type: 'location', content: { latitude: 48.85, longitude: 2.35 } });
  await write({ type: 'contacts', content: { contacts: [{ name: { formatted_name: 'Ann' }, phones: [{ phone: '+15550100702' }] }] } });
  await write({ type: 'button', content: { text: 'Stop it', payload: 'p-17' } });
  await write({ type: 'interactive', content: { type: 'list_reply', list_reply: { id: 'row-3', title: 'Three', description: 'The third' } } });
  const form = JSON.stringify({ day: 'Monday', why: HOSTILE });
  await write({ type: 'interactive', content: { type: 'nfm_reply', nfm_reply: { name: 'flow', body: 'Sent', response_json: form } } });
  await write({ type: 'order', content: { catalog_id: 'c-7', product_items: [{ product_retailer_id: 'sku-1', quantity: 2 }] } });
  await write({ type: 'reaction', content: { message_id, emoji: '👍' } });
  await write({ type: 'reaction', content: { message_id } });
  await write({ text: 'Yes', context: { message_id } });
  await write({ text: 'As they say', context: { forwarded: true } });
  await write({ text: 'From the ad', referral: { source_id: 'ad-9', headline: 'Sale', source_url: 'https://ad.example.com', ctwa_clid: 'click-1' } });
  await write({ type: 'poll', content: { question: 'When?' } });
  await write({ type: 'request_welcome' });
  const { id } = (await world.api('GET', '/v1/conversations?limit=1')).data[0];
  await signIn(page, await world.person('agent'));
  await visit(page, `/inbox/${id}`);
  const bubble = (text) => page.getByRole('log', { name: 'Thread' }).locator('.bubble').filter({ hasText: text });
  for (const [line, ...more] of [
    ['48.85, 2.35'],
    ['Ann', '+15550100702'],
    ['Stop it', 'p-17'],
    ['Three', 'row-3', 'The third'],
    ['Sent', 'Monday', HOSTILE],
    ['2 × sku-1', 'c-7'],
    ['👍', 'In reply to: Hello?'],
    ['Reaction removed', 'In reply to: Hello?'],
    ['Yes', 'In reply to: Hello?'],
    ['As they say', 'Forwarded'],
    ['From the ad', 'From an ad', 'ad-9', 'Sale', 'click-1'],
    ['[poll]', 'When?'],
    ['[request_welcome]'],
  ]) {
    await expect(bubble(line).first()).toBeVisible();
    for (const text of more) await expect(bubble(line).filter({ hasText: text }), `${line}: ${text}`).not.toHaveCount(0);
  }
  expect(wrong).toEqual([]);
});
