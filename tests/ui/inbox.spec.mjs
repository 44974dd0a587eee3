/** The composer: files, pictures, and templates with places of every kind. */
import { expect, guard, signIn, test, visit } from './world.mjs';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
const PHONE = '+15550100601';

/** A conversation with somebody who has just written. */
async function conversation(world) {
  await world.api('POST', '/v1/sandbox/inbound', { from: PHONE, name: 'Grace', text: 'Hello?' });
  return (await world.api('GET', '/v1/conversations?limit=1')).data[0].id;
}

/** What the phone has, the newest first. */
const phone = async (world) => (await world.api('GET', `/v1/sandbox/phones/${encodeURIComponent(PHONE)}/thread`)).data;

test('an agent sends a picture with words, and a file without; pictures are shown', async ({ page, world }) => {
  const wrong = guard(page, world);
  const id = await conversation(world);
  await signIn(page, await world.person('agent'));
  await visit(page, `/inbox/${id}`);
  const thread = page.getByRole('log', { name: 'Thread' });
  await expect(thread).toContainText('Hello?');
  const attach = async (name, mimeType, content) => {
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByRole('button', { name: 'Attach file' }).click()]);
    await chooser.setFiles({ name, mimeType, buffer: content });
  };
  // One that is taken back is not sent.
  await attach('wrong.png', 'image/png', Buffer.from(PIXEL, 'base64'));
  await page.getByRole('button', { name: 'Remove' }).click();
  await expect(page.getByText('wrong.png')).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Send reply' })).toBeDisabled();
  await attach('cat.png', 'image/png', Buffer.from(PIXEL, 'base64'));
  await page.getByRole('textbox', { name: 'Reply' }).fill('Our cat');
  await page.getByRole('button', { name: 'Send reply' }).click();
  await expect(thread.getByRole('img')).toHaveCount(1);
  await expect(thread).toContainText('Our cat');
  await expect(page.getByRole('textbox', { name: 'Reply' })).toHaveValue('');
  await expect.poll(async () => (await phone(world))[0]).toMatchObject({ kind: 'image', text: 'Our cat', media: { mime_type: 'image/png' } });
  await attach('plan.txt', 'text/plain', Buffer.from('a plan'));
  await page.getByRole('button', { name: 'Send reply' }).click();
  await expect.poll(async () => (await phone(world))[0]).toMatchObject({ kind: 'document', media: { filename: 'plan.txt' } });
  // What is refused says why, and stays chosen.
  await attach('run.exe', 'application/x-msdownload', Buffer.from('MZ'));
  await page.getByRole('button', { name: 'Send reply' }).click();
  await expect(page.getByRole('alert')).toBeVisible();
  await expect(page.getByText('run.exe')).toBeVisible();
  expect(wrong).toEqual([]);
});

test('a file whose upload ends in another conversation is not sent there', async ({ page, world }) => {
  const first = await conversation(world);
  const other = '+15550100609';
  await world.api('POST', '/v1/sandbox/inbound', { from: other, name: 'Edith', text: 'And me?' });
  const second = (await world.api('GET', '/v1/conversations?limit=2')).data.find((row) => row.id !== first).id;
  await signIn(page, await world.person('agent'));
  await visit(page, `/inbox/${first}`);
  const attach = async (name) => {
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByRole('button', { name: 'Attach file' }).click()]);
    await chooser.setFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(name) });
  };
  const uploads = [];
  await page.route('**/v1/media?*', (route) => (uploads.length ? route.continue() : uploads.push(route)));
  await attach('of-grace.txt');
  await page.getByRole('button', { name: 'Send reply' }).click();
  await expect.poll(() => uploads.length).toBe(1);
  await page.getByRole('link', { name: /Edith/ }).click();
  await expect(page.getByRole('log', { name: 'Thread' })).toContainText('And me?');
  await attach('of-edith.txt');
  const kept = page.waitForResponse((it) => it.url().includes('/v1/media'));
  await uploads[0].continue();
  await kept;
  await page.getByRole('button', { name: 'Send reply' }).click();
  const thread = async (phone) => (await world.api('GET', `/v1/sandbox/phones/${encodeURIComponent(phone)}/thread`)).data;
  await expect.poll(async () => (await thread(other))[0]).toMatchObject({ kind: 'document', media: { filename: 'of-edith.txt' } });
  expect((await thread(PHONE)).filter((row) => row.kind === 'document')).toEqual([]);
  expect(second).not.toBe(first);
});

test('a conversation that comes up from below keeps every other one in the list', async ({ page, world }) => {
  const phones = Array.from({ length: 70 }, (_, at) => `+155501007${String(at).padStart(2, '0')}`);
  for (const phone of phones) await world.api('POST', '/v1/sandbox/inbound', { from: phone, name: `Guest ${phone}`, text: 'Hello' });
  await signIn(page, await world.person('agent'));
  await visit(page, '/inbox');
  const rows = page.getByRole('link', { name: /Guest/ });
  await expect(rows).toHaveCount(50);
  await page.getByRole('button', { name: 'Show more' }).click();
  await expect(rows).toHaveCount(70);
  // The last row of the first page is moved off it.
  await world.api('POST', '/v1/sandbox/inbound', { from: phones[3], text: 'Still there?' });
  await expect(rows.first()).toContainText(phones[3]);
  await expect(rows).toHaveCount(70);
});

test('a reply is in the thread before the server has answered, once, and back in its field if it is refused', async ({ signed: page, world }) => {
  const id = await conversation(world);
  await visit(page, `/inbox/${id}`);
  const thread = page.getByRole('log', { name: 'Thread' });
  const reply = page.getByRole('textbox', { name: 'Reply' });
  await expect(thread).toContainText('Hello?');
  const sent = async () => (await world.api('GET', `/v1/conversations/${id}/messages`)).data.filter((it) => it.direction === 'out');
  let answer;
  const held = new Promise((done) => (answer = done));
  const messages = `**/v1/conversations/${id}/messages`;
  await page.route(messages, async (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    await held;
    return route.continue();
  });
  await reply.fill('On its way');
  await reply.press('Enter');
  const own = thread.locator('.bubble.out');
  await expect(own).toContainText('On its way');
  await expect(own).toContainText('Queued');
  expect(await sent()).toEqual([]);
  answer();
  await expect(own).toContainText('Sent');
  await expect(own).toHaveCount(1);
  expect((await sent()).map((it) => it.text)).toEqual(['On its way']);
  await page.unroute(messages);
  await page.route(messages, (route) => (route.request().method() === 'POST'
    ? route.fulfill({ status: 422, json: { code: 'UNPROCESSABLE', message: 'the customer has left' } }) : route.fallback()));
  await reply.fill('Are you there?');
  await reply.press('Enter');
  await expect(page.getByRole('alert')).toContainText('the customer has left');
  await expect(own).toHaveCount(1);
  await expect(reply).toHaveValue('Are you there?');
});

test('in a closed window the language of a template is chosen, and each of its places has a field', async ({ signed: page, world }) => {
  const template = (language, components) => world.api('POST', '/admin/v1/workspaces/demo/templates', {
    name: 'a_notice', language, category: 'utility', status: 'approved', components,
  });
  await template('de', [{ type: 'BODY', text: 'Hallo {{1}}' }]);
  await template('en', [
    { type: 'HEADER', format: 'TEXT', text: 'Order {{1}}' },
    { type: 'BODY', text: 'Dear {{first_name}}, it comes on {{day}}.' },
    { type: 'FOOTER', text: 'The shop' },
    { type: 'BUTTONS', buttons: [{ type: 'URL', text: 'Track', url: 'https://shop.example.com/{{1}}' }, { type: 'QUICK_REPLY', text: 'Thanks' }] },
  ]);
  const id = await conversation(world);
  await world.api('POST', '/v1/sandbox/clock', { advance_seconds: 86_500 });
  await visit(page, `/inbox/${id}`);
  const choice = page.getByRole('combobox', { name: 'Template' });
  await choice.selectOption({ label: 'a_notice (de)' });
  await page.getByRole('textbox', { name: '{{1}}', exact: true }).fill('Grace');
  await page.getByRole('button', { name: 'Send template' }).click();
  await expect.poll(async () => (await phone(world))[0].text).toBe('Hallo Grace');
  await choice.selectOption({ label: 'a_notice (en)' });
  for (const [name, value] of [['Header {{1}}', '17'], ['{{first_name}}', 'Grace'], ['{{day}}', 'Monday'], ['Button Track', 'o17']]) {
    await page.getByRole('textbox', { name, exact: true }).fill(value);
  }
  await page.getByRole('button', { name: 'Send template' }).click();
  const text = 'Order 17\nDear Grace, it comes on Monday.\nThe shop';
  await expect.poll(async () => (await phone(world))[0].text).toBe(text);
  await expect(page.getByRole('log', { name: 'Thread' })).toContainText('Dear Grace, it comes on Monday.');

  // A broadcast fills the same places: those of the text from each contact.
  await world.api('POST', '/v1/contacts', { name: 'Ada', phone: '+15550100602', tags: ['named'], custom_fields: { city: 'Rome' } });
  const segment = await world.api('POST', '/v1/segments', { name: 'Named', filter: { tags_any: ['named'] } });
  await visit(page, `/broadcasts/new?segment=${segment.id}`);
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('With names');
  await page.getByRole('combobox', { name: 'Template' }).selectOption({ label: 'a_notice (en)' });
  await page.getByRole('textbox', { name: 'Header {{1}}', exact: true }).fill('18');
  await page.getByRole('textbox', { name: 'Button Track', exact: true }).fill('o18');
  await page.getByRole('combobox', { name: '{{first_name}}' }).selectOption('name');
  await page.getByRole('textbox', { name: 'Text for {{day}}' }).fill('Tuesday');
  await expect(page.getByRole('region', { name: 'Preview' })).toContainText('Dear Ada, it comes on Tuesday.');
  await page.getByRole('radio', { name: 'Later' }).check();
  await page.getByLabel('Date and time').fill('2099-06-21T09:00');
  await page.getByRole('button', { name: 'Send broadcast' }).click();
  await page.getByRole('dialog', { name: 'Send broadcast?' }).getByRole('button', { name: 'Schedule' }).click();
  await expect(page.getByRole('status', { name: 'Broadcast status' })).toHaveText('Scheduled');
  // What the server would refuse cannot be pressed.
  await expect(page.getByRole('button', { name: 'Pause' })).toBeDisabled();
  await expect(page.getByRole('button', { name: 'Resume' })).toBeDisabled();
  await expect(page.getByRole('button', { name: 'Cancel' })).toBeEnabled();
});
