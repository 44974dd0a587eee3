/** What is changed afterwards: endpoints, scheduled broadcasts, and what is taken back within seconds. */
import { expect, heading, test, visit } from './world.mjs';

const failure = (at, event_id) => ({
  id: `dlv_${at}`, event_id, event_ids: [event_id], forgotten: null, type: 'otp.sent', attempt: 1, status: 500, error: 'status',
  latency_ms: 3, at: `2026-01-31T09:00:0${at}Z`, next_retry_at: null, response: null,
});

test('an endpoint gets another address and other types', async ({ signed: page, world }) => {
  const hook = await world.api('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/hooks', events: ['otp.sent'] });
  await visit(page, `/webhooks/${hook.id}`);
  await page.getByRole('button', { name: 'Edit' }).click();
  const dialog = page.getByRole('dialog', { name: 'Edit endpoint' });
  const address = dialog.getByRole('textbox', { name: 'Address' });
  await expect(address).toHaveValue('http://127.0.0.1:9/hooks');
  await address.fill('ftp://127.0.0.1/hooks');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(dialog.getByRole('alert')).toHaveText(/^Must begin with https/);
  await address.fill('http://127.0.0.1:9/other');
  await dialog.getByRole('checkbox', { name: 'otp.verified' }).check();
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(heading(page, 'http://127.0.0.1:9/other')).toBeVisible();
  expect(await world.api('GET', `/v1/webhooks/${hook.id}`)).toMatchObject({ url: 'http://127.0.0.1:9/other', events: ['otp.sent', 'otp.verified'] });
});

test('what failed can be replayed until it has been, and again once something fails', async ({ signed: page, world }) => {
  const hook = await world.api('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/hooks', events: ['otp.sent'] });
  // The tries are the test's: when they come is not the server's.
  let tries = [];
  await page.route(/\/deliveries\?/, (route) => {
    const failed = new URL(route.request().url()).searchParams.get('status') === 'failed';
    const data = tries.filter((it) => !failed || it.error);
    return route.fulfill({ json: { data, total: data.length, page: 1 } });
  });
  await page.route('**/replay', (route) => route.fulfill({ status: 202, json: { queued: 1 } }));
  const replay = page.getByRole('button', { name: 'Replay failed' });
  const list = page.getByRole('table', { name: 'Deliveries' });
  /** An event has the page look again. */
  const look = () => world.api('POST', '/v1/otp/send', { phone: `+1555010${1000 + tries.length}` });
  await visit(page, `/webhooks/${hook.id}`);
  await expect(page.getByText('No deliveries yet')).toBeVisible();
  await expect(replay).toBeDisabled();
  tries = [failure(1, 'evt_a')];
  await look();
  await replay.click();
  await expect(replay).toBeDisabled();
  await expect(list.getByRole('row')).toHaveCount(2);
  tries = [failure(2, 'evt_b'), ...tries];
  await look();
  await expect(replay).toBeEnabled();
  // It has arrived since.
  tries = [{ ...failure(3, 'evt_b'), status: 204, error: null }, ...tries];
  await look();
  await expect(replay).toBeDisabled();
});

test('a scheduled broadcast gets another name and another time', async ({ signed: page, world }) => {
  const { broadcast_id: id } = await world.api('POST', '/v1/messaging/broadcasts', {
    name: 'Tomorrow', template_name: 'spring_sale', recipients: ['+15550300101'], schedule_at: '2098-01-31T09:30:00Z',
  });
  await visit(page, `/broadcasts/${id}`);
  await page.getByRole('button', { name: 'Edit' }).click();
  const dialog = page.getByRole('dialog', { name: 'Edit broadcast' });
  const start = dialog.getByLabel('Start');
  await expect(start).toHaveValue(/^2098-01-31T\d\d:\d\d$/);
  await dialog.getByRole('textbox', { name: 'Name' }).fill('Next year');
  for (const [value, text] of [['', 'Choose a date and time'], ['2020-06-21T09:00', 'This time is in the past']]) {
    await start.fill(value);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect(dialog.getByRole('alert')).toHaveText(text);
  }
  await start.fill('2099-06-21T09:00');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(heading(page, 'Next year')).toBeVisible();
  const changed = await world.api('GET', `/v1/messaging/broadcasts/${id}`);
  expect([changed.name, changed.schedule_at.slice(0, 9)]).toEqual(['Next year', '2099-06-2']);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel broadcast' }).click();
  await expect(page.getByRole('status', { name: 'Broadcast status' })).toHaveText('Cancelled');
  await expect(page.getByRole('button', { name: 'Edit' })).toHaveCount(0);
});

test('a broadcast that was retried says by which, and is not retried again', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/sandbox/outcomes', { to: '+15550300102', outcome: 'failed', times: 1 });
  const { broadcast_id: id } = await world.api('POST', '/v1/messaging/broadcasts', {
    name: 'Once', template_name: 'spring_sale', recipients: ['+15550300102', '+15550300103'],
  });
  await visit(page, `/broadcasts/${id}`);
  const retry = page.getByRole('button', { name: 'Retry failed' });
  await retry.click();
  await expect(page).not.toHaveURL(new RegExp(id));
  const next = new URL(page.url()).pathname.split('/').at(-1);
  await visit(page, `/broadcasts/${id}`);
  await expect(page.getByRole('link', { name: next })).toBeVisible();
  await expect(retry).toBeDisabled();
});

test('why a template was rejected is said', async ({ signed: page }) => {
  await page.route(/\/v1\/messaging\/templates\?/, async (route) => {
    const answer = await (await route.fetch()).json();
    Object.assign(answer.data.find((it) => it.name === 'welcome'), { status: 'rejected', rejected_reason: 'invalid_format' });
    await route.fulfill({ json: answer });
  });
  await visit(page, '/templates');
  const card = page.getByRole('list', { name: 'Templates' }).getByRole('listitem').filter({ hasText: 'welcome' });
  await expect(card).toContainText('Reason: Invalid format');
  await expect(page.getByText('Reason:')).toHaveCount(1);
});

/** The notice that says what happened, with a way back. */
const undo = (page, said) => page.locator('.notice').filter({ hasText: said }).getByRole('button', { name: 'Undo' }).click();

test('in the inbox what was assigned, resolved or opened again is taken back', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/sandbox/inbound', { from: '+15550100371', name: 'Grace', text: 'Hello?' });
  const { id } = (await world.api('GET', '/v1/conversations?limit=1')).data[0];
  const now = async () => {
    const { status, assigned_to } = await world.api('GET', `/v1/conversations/${id}`);
    return [status, assigned_to];
  };
  await visit(page, `/inbox/${id}`);
  await page.getByRole('button', { name: 'Assign to me' }).click();
  await undo(page, 'Assigned to');
  await expect(page.getByRole('button', { name: 'Assign to me' })).toBeVisible();
  await expect.poll(now).toEqual(['open', null]);
  await page.getByRole('button', { name: 'Resolve' }).click();
  await expect.poll(now).toEqual(['resolved', null]);
  await page.getByRole('button', { name: 'Reopen' }).click();
  await undo(page, 'Opened');
  await expect.poll(now).toEqual(['resolved', null]);
  await expect(page.getByRole('button', { name: 'Reopen' })).toBeVisible();
});

test('the answer for a conversation that was left changes nothing of the one that is open', async ({ signed: page, world }) => {
  for (const [from, name] of [['+15550100372', 'Grace'], ['+15550100373', 'Edith']]) {
    await world.api('POST', '/v1/sandbox/inbound', { from, name, text: 'Hello?' });
  }
  await visit(page, '/inbox');
  await page.getByRole('link', { name: /Grace/ }).click();
  await expect(page.getByRole('log', { name: 'Thread' })).toContainText('Hello?');
  let held;
  await page.route('**/v1/conversations/*', (route) => (route.request().method() === 'PATCH' ? (held = route) : route.continue()));
  await page.getByRole('button', { name: 'Resolve' }).click();
  await expect.poll(() => Boolean(held)).toBe(true);
  await page.getByRole('link', { name: /Edith/ }).click();
  await expect(page.getByRole('button', { name: 'Resolve' })).toBeVisible();
  const answered = page.waitForResponse((it) => it.request().method() === 'PATCH');
  await held.continue();
  await answered;
  await expect(page.locator('.notice').filter({ hasText: 'Resolved' })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Resolve' })).toBeVisible();
  await expect(page.getByRole('link', { name: /Edith/ })).toHaveCount(1);
});

test('a tag is taken back from those who did not have it, and an opt-out and an endpoint are put back', async ({ signed: page, world }) => {
  for (const [name, tags] of [['Ada', ['gold']], ['Bo', []]]) await world.api('POST', '/v1/contacts', { name, phone: `+155501003${name.length}1`, tags });
  await visit(page, '/contacts');
  for (const name of ['Ada', 'Bo']) await page.getByRole('checkbox', { name: `Select ${name}` }).check();
  const bar = page.getByRole('toolbar', { name: 'Selected contacts' });
  await bar.getByRole('button', { name: 'Delete' }).click();
  await expect(page.getByRole('dialog')).toContainText(/Ada and Bo|Bo and Ada/);
  await page.getByRole('dialog').getByRole('button', { name: 'Keep' }).click();
  await bar.getByRole('button', { name: 'Add tag' }).click();
  const dialog = page.getByRole('dialog', { name: 'Add tag' });
  await dialog.getByLabel('Tag').fill('gold');
  await dialog.getByRole('button', { name: 'Add tag' }).click();
  const gold = async () => (await world.api('GET', '/v1/contacts?tags_all=gold')).data.map((it) => it.name).sort();
  await expect.poll(gold).toEqual(['Ada', 'Bo']);
  await undo(page, 'Applied to');
  await expect.poll(gold).toEqual(['Ada']);

  await world.api('POST', '/v1/suppressions', { phone: '+15550100372', reason: 'asked to' });
  await visit(page, '/settings/opt-outs');
  await page.getByRole('row', { name: /0372/ }).getByRole('button', { name: 'Remove opt-out' }).click();
  await undo(page, 'Opt-out removed');
  await expect(page.getByRole('row', { name: /0372/ })).toContainText('asked to');

  const hook = await world.api('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/hooks', events: ['otp.sent'] });
  await visit(page, `/webhooks/${hook.id}`);
  await page.getByRole('button', { name: 'Disable' }).click();
  await undo(page, 'Disabled');
  await expect(page.getByRole('button', { name: 'Disable' })).toBeVisible();
  expect((await world.api('GET', `/v1/webhooks/${hook.id}`)).enabled).toBe(true);
});

test('a sentence of another language has its time', async ({ signed: page, world }) => {
  await world.api('GET', '/v1/contacts');
  await page.evaluate(() => localStorage.setItem('language', 'de'));
  await page.goto(`${world.origin}/ui/keys`);
  const row = page.getByRole('row').filter({ has: page.getByRole('button', { name: 'Widerrufen' }) }).first();
  await expect(row).not.toContainText('Nie');
  await row.getByRole('button', { name: 'Widerrufen' }).click();
  await expect(page.getByRole('dialog')).toContainText(/Zuletzt verwendet: .*\d/);
});
