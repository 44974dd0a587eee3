/** What a form sends: what was touched, and nothing else; what it shows and cannot change stays as it is written. */
import { expect, heading, test, visit } from './world.mjs';

/** A call whose body and answer are text: JavaScript would round a number of them. */
async function written({ origin, key }, method, where, body) {
  const headers = { Authorization: `Bearer ${key}`, ...(body ? { 'Content-Type': 'application/json' } : {}) };
  const answer = await fetch(origin + where, { method, headers, body });
  const text = await answer.text();
  expect(answer.ok, text).toBe(true);
  return text;
}

/** Every type of a value, a number that JavaScript rounds, one that it writes in another way, and names that were separators. */
const FIELDS = `{"a:b":"c","city":"Paris","deep":{"a":[1,{"b":"x"}]},"gone":null,"id":9007199254740993,"list":[1,"2"],"note":"one\\ntwo","plan":3,"share":1.0,"vip":true}`;
const contactOf = (name, phone) => `{"name":"${name}","phone":"${phone}","tags":["a,b","vip"],"custom_fields":${FIELDS}}`;

/** The fields of an answer, as they are written. */
const fieldsIn = (text) => /"custom_fields":(\{.*\}),"created_at"/.exec(text)[1];

/** Bodies of the changes that a page makes. */
function changesOf(page) {
  const bodies = [];
  page.on('request', (request) => ['PATCH', 'PUT'].includes(request.method()) && bodies.push(request.postData()));
  return bodies;
}

/** What a dialog shows of a field, the last one of a name. */
async function rowOf(dialog, name) {
  const names = await dialog.getByRole('textbox', { name: /^Name of field/ }).evaluateAll((all) => all.map((it) => it.value));
  const n = names.lastIndexOf(name) + 1;
  expect(n, name).toBeGreaterThan(0);
  return {
    name: dialog.getByRole('textbox', { name: `Name of field ${n}`, exact: true }),
    type: dialog.getByRole('combobox', { name: `Type of field ${n}`, exact: true }),
    value: dialog.getByLabel(`Value of field ${n}`, { exact: true }),
    remove: dialog.getByRole('button', { name: `Remove field ${n}`, exact: true }),
  };
}

/** What is said under a field. */
const faultOf = (page, dialog, name) =>
  dialog.locator('.field').filter({ has: page.getByRole('textbox', { name, exact: true }) }).getByRole('alert');

async function edit(page, what) {
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  return page.getByRole('dialog', { name: `Edit ${what}` });
}

const save = async (dialog) => {
  await dialog.getByRole('button', { name: /^Save/ }).click();
  await expect(dialog).toHaveCount(0);
};

test('a contact that is renamed keeps every custom field and tag, however it is written', async ({ signed: page, world }) => {
  const { id } = JSON.parse(await written(world, 'POST', '/v1/contacts', contactOf('Ada', '+15550100401')));
  const before = await written(world, 'GET', `/v1/contacts/${id}`);
  await visit(page, `/contacts/${id}`);
  // What is shown is what is there.
  for (const text of ['9007199254740993', '{"a":[1,{"b":"x"}]}', '[1,"2"]', 'a,b']) await expect(page.getByRole('main')).toContainText(text);
  const bodies = changesOf(page);
  const dialog = await edit(page, 'contact');
  for (const [name, type, value] of [
    ['a:b', 'text', 'c'], ['note', 'text', 'one\ntwo'], ['plan', 'number', '3'], ['share', 'number', '1.0'],
    ['id', 'number', '9007199254740993'], ['vip', 'boolean', 'true'],
  ]) {
    const row = await rowOf(dialog, name);
    await expect(row.type, name).toHaveValue(type);
    await expect(row.value, name).toHaveValue(value);
  }
  for (const [name, json] of [['deep', '{"a":[1,{"b":"x"}]}'], ['list', '[1,"2"]'], ['gone', 'null']]) {
    const row = await rowOf(dialog, name);
    await expect(row.value, name).toHaveText(json);
    await expect(row.type, name).toHaveCount(0);
  }
  await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('Ada Lovelace');
  await save(dialog);
  await expect(heading(page, 'Ada Lovelace')).toBeVisible();
  expect(bodies).toEqual(['{"name":"Ada Lovelace"}']);
  const after = await written(world, 'GET', `/v1/contacts/${id}`);
  expect(fieldsIn(after)).toBe(fieldsIn(before));
  expect(JSON.parse(after).tags).toEqual(['a,b', 'vip']);
  // Without a touch nothing is sent.
  await save(await edit(page, 'contact'));
  expect(bodies).toHaveLength(1);
});

test('of custom fields those that were touched change, in the type that was chosen', async ({ signed: page, world }) => {
  const { id } = JSON.parse(await written(world, 'POST', '/v1/contacts', contactOf('Ada', '+15550100402')));
  await visit(page, `/contacts/${id}`);
  const dialog = await edit(page, 'contact');
  const add = async (name, type, value) => {
    await dialog.getByRole('button', { name: 'Add field' }).click();
    await expect(dialog.getByRole('textbox', { name: /^Name of field/ }).last()).toBeFocused();
    await page.keyboard.type(name);
    const row = await rowOf(dialog, name);
    if (type) await row.type.selectOption({ label: type });
    if (type === 'Yes or no') await expect(row.value).toHaveRole('combobox');
    if (type === 'Yes or no') await row.value.selectOption({ label: value });
    else await row.value.fill(value);
    return row;
  };
  await (await rowOf(dialog, 'city')).value.fill('Rome');
  await (await rowOf(dialog, 'plan')).value.fill('4');
  await (await rowOf(dialog, 'vip')).value.selectOption({ label: 'No' });
  await (await rowOf(dialog, 'a:b')).name.fill('a=b');
  await (await rowOf(dialog, 'list')).remove.click();
  await (await rowOf(dialog, 'note')).value.press('Control+End');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('three');
  await add('code', '', '3');
  await add('long', 'Numeric', '9007199254740995');
  await add('ok', 'Yes or no', 'No');
  const wrong = await add('city', 'Numeric', '1,5');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(dialog.getByRole('alert')).toHaveText(['Another field already has this name', 'Enter a number, such as 3 or -2.5']);
  await wrong.name.fill('rate');
  await wrong.value.fill('1.5');
  await save(dialog);
  const after = fieldsIn(await written(world, 'GET', `/v1/contacts/${id}`));
  for (const piece of ['"id":9007199254740993', '"long":9007199254740995', '"share":1.0']) expect(after).toContain(piece);
  const { id: _, long: __, ...rest } = JSON.parse(after);
  expect(rest).toEqual({
    'a=b': 'c', city: 'Rome', code: '3', deep: { a: [1, { b: 'x' }] }, gone: null, note: 'one\ntwo\nthree', ok: false, plan: 4, rate: 1.5,
    share: 1, vip: false,
  });
});

test('a tag may have a comma, and what others change meanwhile stays', async ({ signed: page, world }) => {
  const { id } = JSON.parse(await written(world, 'POST', '/v1/contacts', contactOf('Ada', '+15550100403')));
  await visit(page, `/contacts/${id}`);
  const bodies = changesOf(page);
  const dialog = await edit(page, 'contact');
  await dialog.getByRole('button', { name: 'Remove vip' }).click();
  const tags = dialog.getByRole('textbox', { name: 'Tags' });
  await expect(tags).toBeFocused();
  await tags.fill('x, y');
  await tags.press('Enter');
  await expect(dialog.getByRole('button', { name: 'Remove x, y' })).toBeVisible();
  // What is typed and not added yet is meant, too.
  await tags.fill('gold');
  await (await rowOf(dialog, 'city')).value.fill('Rome');
  await world.api('PATCH', `/v1/contacts/${id}`, { name: 'Ada', tags: ['a,b', 'vip', 'new'], custom_fields: { city: 'Paris', since: 2012 } });
  await save(dialog);
  const { tags: now, custom_fields: fields } = await world.api('GET', `/v1/contacts/${id}`);
  expect([now, fields]).toEqual([['a,b', 'new', 'x, y', 'gold'], { city: 'Rome', since: 2012 }]);
  expect(Object.keys(JSON.parse(bodies[0]))).toEqual(['name', 'tags', 'custom_fields']);
});

test('a refusal stands under its field', async ({ signed: page, world }) => {
  const [one, two] = ['+15550100404', '+15550100405'];
  await world.api('POST', '/v1/contacts', { name: 'Bo', phone: two });
  const { id } = await world.api('POST', '/v1/contacts', { name: 'Ada', phone: one });
  await visit(page, `/contacts/${id}`);
  const dialog = await edit(page, 'contact');
  const refused = async (name, value, said) => {
    const input = dialog.getByRole('textbox', { name, exact: true });
    const before = await input.inputValue();
    await input.fill(value);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect(faultOf(page, dialog, name)).toContainText(said);
    await input.fill(before);
  };
  await refused('Phone', '12', 'Must be in E.164');
  await refused('Phone', two, 'another contact');
  await refused('E-mail', 'nobody', 'Must be an e-mail address');
  await refused('Tags', 'x'.repeat(65), 'Must be at most 50 texts of 1 to 64 characters');
});

test('a segment that is renamed keeps its filter, and of a filter what was touched changes', async ({ signed: page, world }) => {
  const filter = '{"tags_any":["a,b","vip"],"custom_fields":{"a=b":"c","id":9007199254740993,"plan":3},"custom_fields_exist":["x,y"]}';
  const { id } = JSON.parse(await written(world, 'POST', '/v1/segments', `{"name":"Gold","filter":${filter}}`));
  await written(world, 'POST', '/v1/contacts',
    '{"name":"Ada","tags":["a,b"],"custom_fields":{"a=b":"c","id":9007199254740993,"plan":3,"x,y":1}}');
  const filterOf = async () => /"filter":(\{.*\}),"created_at"/.exec(await written(world, 'GET', `/v1/segments/${id}`))[1];
  const before = await filterOf();
  await visit(page, `/segments/${id}`);
  await expect(page.getByRole('main')).toContainText('id = 9007199254740993');
  const bodies = changesOf(page);
  let dialog = await edit(page, 'segment');
  // The count is of the filter as it is written.
  await expect(dialog.getByRole('status', { name: 'Contacts in segment' })).toHaveText('1 contact');
  await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('Gold customers');
  await save(dialog);
  await expect(heading(page, 'Gold customers')).toBeVisible();
  expect(bodies).toEqual(['{"name":"Gold customers"}']);
  expect(await filterOf()).toBe(before);

  dialog = await edit(page, 'segment');
  await dialog.getByRole('button', { name: 'Remove vip' }).click();
  await dialog.getByRole('textbox', { name: 'None of these tags' }).fill('gone, away');
  await (await rowOf(dialog, 'a=b')).value.fill('d = e');
  await save(dialog);
  await expect.poll(async () => JSON.parse(await filterOf()).tags_none).toEqual(['gone, away']);
  expect(Object.keys(JSON.parse(bodies[1]))).toEqual(['filter']);
  const after = await filterOf();
  expect(after).toContain('"id":9007199254740993');
  expect(JSON.parse(after)).toMatchObject({ tags_any: ['a,b'], custom_fields: { 'a=b': 'd = e', plan: 3 }, custom_fields_exist: ['x,y'] });
});

test('a list asks for what its filter says, and so does what is done to all that were found', async ({ signed: page, world }) => {
  for (const [name, tags] of [['Ada', ['a']], ['Bo', ['b']], ['Cy', ['a,b']]]) await world.api('POST', '/v1/contacts', { name, tags });
  const found = page.getByRole('status', { name: 'Contacts found' });
  // A field without a value asks for nothing, in the list and in a change.
  await visit(page, '/contacts?field=city&tags_any=a,b');
  await expect(found).toHaveText('2 contacts');
  await page.getByRole('checkbox', { name: 'Select Ada' }).check();
  const bar = page.getByRole('toolbar', { name: 'Selected contacts' });
  await bar.getByRole('button', { name: 'Select all 2' }).click();
  await bar.getByRole('button', { name: 'Remove tag' }).click();
  const asked = page.waitForRequest(/\/v1\/contacts\/bulk$/);
  const dialog = page.getByRole('dialog', { name: 'Remove tag' });
  await dialog.getByLabel('Tag').fill('a,b');
  await dialog.getByRole('button', { name: 'Remove tag' }).click();
  expect((await asked).postDataJSON()).toEqual({ filter: { tags_any: ['a', 'b'] }, remove_tags: ['a,b'] });

  await page.getByRole('button', { name: 'Filter' }).click();
  const filter = page.getByRole('dialog', { name: 'Filter' });
  await filter.getByRole('combobox', { name: 'All of these tags' }).fill('a,b');
  await filter.getByRole('button', { name: 'Show' }).click();
  await expect(filter.getByRole('alert')).toHaveText(['This filter does not support tags with commas. Use a segment instead.', 'Missing']);
  await filter.getByRole('textbox', { name: 'Custom field' }).fill('');
  await filter.getByRole('combobox', { name: 'All of these tags' }).fill('a');
  await filter.getByRole('button', { name: 'Show' }).click();
  await expect(found).toHaveText('1 contact');
});

test('an endpoint, a key and a broadcast that are renamed keep the rest, also what others changed meanwhile', async ({ signed: page, world }) => {
  const bodies = changesOf(page);
  const hook = await world.api('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/hooks', events: ['otp.sent'] });
  await visit(page, `/webhooks/${hook.id}`);
  let dialog = await edit(page, 'endpoint');
  await dialog.getByRole('textbox', { name: 'Address' }).fill('http://127.0.0.1:9/other');
  await world.api('PATCH', `/v1/webhooks/${hook.id}`, { events: ['otp.verified'] });
  await save(dialog);
  await expect(heading(page, 'http://127.0.0.1:9/other')).toBeVisible();
  expect((await world.api('GET', `/v1/webhooks/${hook.id}`)).events).toEqual(['otp.verified']);

  const keys = '/admin/v1/workspaces/demo/keys';
  const { id } = await world.api('POST', keys, { name: 'shop', scopes: ['contacts:read'], limits: { key_requests_per_hour: 500 }, expires_at: '2099-01-31T09:30:15Z' });
  const key = async () => (await world.api('GET', keys)).data.find((it) => it.id === id);
  const old = await key();
  await visit(page, '/keys');
  await page.getByRole('row', { name: /shop/ }).getByRole('button', { name: 'Edit' }).click();
  dialog = page.getByRole('dialog', { name: 'Edit key' });
  await dialog.getByRole('textbox', { name: 'Requests per hour' }).fill('many');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(faultOf(page, dialog, 'Requests per hour')).toContainText('Must be a whole number');
  await dialog.getByRole('textbox', { name: 'Requests per hour' }).fill('500');
  await dialog.getByRole('textbox', { name: 'Name' }).fill('the shop');
  await save(dialog);
  expect(await key()).toEqual({ ...old, name: 'the shop' });

  const { broadcast_id } = await world.api('POST', '/v1/messaging/broadcasts', {
    name: 'Tomorrow', template_name: 'spring_sale', recipients: ['+15550300101'], schedule_at: '2098-01-31T09:30:15Z',
  });
  await visit(page, `/broadcasts/${broadcast_id}`);
  await expect(heading(page, 'Tomorrow')).toBeVisible();
  dialog = await edit(page, 'broadcast');
  await dialog.getByRole('textbox', { name: 'Name' }).fill('Next year');
  await save(dialog);
  await expect(heading(page, 'Next year')).toBeVisible();
  expect(bodies.map((it) => JSON.parse(it))).toEqual([
    { url: 'http://127.0.0.1:9/other' }, { limits: { key_requests_per_hour: 'many' } }, { name: 'the shop' }, { name: 'Next year' },
  ]);
});

test('the bar of a cancelled broadcast is as full as it was sent', async ({ signed: page, world }) => {
  const [{ id }] = (await world.api('GET', '/admin/v1/workspaces/demo/numbers')).data;
  await world.api('PATCH', `/admin/v1/workspaces/demo/numbers/${id}`, { messages_per_second: 20 });
  await world.api('PUT', '/v1/sandbox/settings', { auto_deliver: 'delivered' });
  const recipients = [...Array(1200).keys()].map((i) => `+1555${5_000_000 + i}`);
  for (const to of recipients.slice(0, 5)) await world.api('POST', '/v1/sandbox/outcomes', { to, outcome: 'failed', times: 1 });
  const { broadcast_id } = await world.api('POST', '/v1/messaging/broadcasts', { name: 'Sale', template_name: 'spring_sale', recipients });
  const one = () => world.api('GET', `/v1/messaging/broadcasts/${broadcast_id}`);
  await expect.poll(async () => (await one()).counts.pending).toBeLessThan(1180);
  await world.api('POST', `/v1/messaging/broadcasts/${broadcast_id}/cancel`);
  await expect.poll(async () => (await one()).counts.pending).toBe(0);
  // Nothing is reported any more that changes the counts.
  await expect.poll(async () => (await one()).counts.sent).toBe(0);
  const { counts } = await one();
  expect(counts.cancelled).toBeGreaterThan(0);
  const [number, went] = [(n) => n.toLocaleString('en'), 1200 - counts.cancelled];
  await visit(page, '/broadcasts');
  const row = page.getByRole('row', { name: /Sale/ });
  await expect(row).toContainText(`${number(went)} of 1,200`);
  const bar = row.getByRole('img');
  await expect(bar).toHaveAttribute('aria-label',
    `Delivered: ${number(counts.delivered + counts.read)} · Sent: 0 · Failed: 5 · Not sent: ${number(counts.cancelled)}`);
  const filled = await bar.evaluate((it) => [...it.children].reduce((sum, { offsetWidth }) => sum + offsetWidth, 0) / it.clientWidth);
  expect(Math.abs(filled - went / 1200)).toBeLessThan(0.05);
  await visit(page, `/broadcasts/${broadcast_id}`);
  const progress = page.getByRole('progressbar', { name: 'Progress' });
  await expect(progress).toHaveAttribute('aria-valuenow', String(went));
  await expect(page.getByRole('main')).toContainText(`${number(went)} of 1,200`);
});
