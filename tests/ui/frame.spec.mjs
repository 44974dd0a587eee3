/** What lies around every page: landmarks, focus, keys, dialogs, tabs and the state of the connection. */
import { expect, heading, limit, test, visit } from './world.mjs';

test('the frame has its landmarks, names and order', async ({ signed: page, world }) => {
  await page.goto(`${world.origin}/ui/codes`);
  await expect(heading(page, 'Codes')).toBeVisible();
  await expect(page.getByRole('banner')).toBeVisible();
  const menu = page.getByRole('navigation', { name: 'Main' });
  await expect(menu).toBeVisible();
  await expect(page.getByRole('main')).toBeVisible();
  await expect(page.getByRole('combobox', { name: 'Workspace' })).toBeVisible();
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  await page.locator('body').press('Tab');
  await expect(page.getByRole('link', { name: 'Skip to content' })).toBeFocused();
  await menu.getByRole('link', { name: 'Webhooks' }).click();
  await expect(heading(page, 'Webhooks')).toBeFocused();
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('dialog', { name: 'Search' })).toBeVisible();
  await page.keyboard.type('segm');
  await page.keyboard.press('Enter');
  await expect(heading(page, 'Segments')).toBeFocused();
  await page.keyboard.press('g');
  await page.keyboard.press('i');
  await expect(heading(page, 'Inbox')).toBeVisible();
  await page.goBack();
  await expect(heading(page, 'Segments')).toBeVisible();
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toBeVisible();
  await page.keyboard.press('Escape');
  const calls = page.getByRole('button', { name: 'API', exact: true });
  await calls.click();
  await expect(page.getByRole('dialog', { name: 'API calls' })).toContainText('$POSTRIDER_API_KEY');
  await page.keyboard.press('Escape');
  await expect(calls).toBeFocused();
  await page.getByRole('button', { name: 'Account' }).click();
  await expect(page.getByRole('menuitem', { name: 'My account' })).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await expect(page.getByRole('menuitem', { name: 'Sign out' })).toBeFocused();
});

test('single keys move, open, search and go; in a field they are letters', async ({ signed: page, world }) => {
  for (const n of [1, 2, 3]) await world.api('POST', '/v1/otp/send', { phone: `+1555010020${n}` });
  await visit(page, '/codes');
  const rows = page.getByRole('table', { name: 'Codes' }).getByRole('row');
  await expect(rows).toHaveCount(4);
  await page.keyboard.press('j');
  await expect(rows.nth(1).getByRole('link')).toBeFocused();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await expect(rows.nth(3).getByRole('link')).toBeFocused();
  await page.keyboard.press('k');
  await expect(rows.nth(2).getByRole('link')).toBeFocused();
  await page.keyboard.press('.');
  await expect(page.getByRole('dialog', { name: 'API calls' })).toBeVisible();
  await page.keyboard.press('Escape');
  await page.keyboard.press('/');
  const field = page.getByRole('searchbox', { name: 'Phone' });
  await expect(field).toBeFocused();
  await page.keyboard.type('jka.');
  await expect(field).toHaveValue('jka.');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await field.fill('');
  await field.blur();
  await expect(rows).toHaveCount(4);
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await expect(heading(page, 'Code to +15550100203')).toBeVisible();
  for (const [key, title] of [['h', 'Home'], ['p', 'Phone'], ['c', 'Codes'], ['i', 'Inbox'], ['b', 'Broadcasts'], ['o', 'Contacts']]) {
    // The second key counts within two seconds, which a busy machine may miss.
    await expect(async () => {
      await page.keyboard.press('g');
      await page.keyboard.press(key);
      await expect(heading(page, title)).toBeVisible({ timeout: 5000 });
    }).toPass();
  }
  await world.api('POST', '/v1/sandbox/inbound', { from: '+15550100210', name: 'Grace', text: 'Hi' });
  const { id } = (await world.api('GET', '/v1/conversations?limit=1')).data[0];
  await visit(page, `/inbox/${id}`);
  await expect(page.getByRole('button', { name: 'Assign to me' })).toBeVisible();
  await page.keyboard.press('a');
  await expect(page.getByRole('button', { name: 'Assign to me' })).toHaveCount(0);
  await page.keyboard.press('r');
  await expect(page.getByRole('textbox', { name: 'Reply' })).toBeFocused();
  await page.getByRole('textbox', { name: 'Reply' }).blur();
  await page.keyboard.press('e');
  await expect(page.getByRole('button', { name: 'Reopen' })).toBeVisible();
  await page.evaluate(() => localStorage.setItem('single-keys', 'off'));
  await page.keyboard.press('g');
  await page.keyboard.press('h');
  await expect(heading(page, 'Inbox')).toBeVisible();
});

test('an id that is pasted leads to its page', async ({ signed: page, world }) => {
  const contact = await world.api('POST', '/v1/contacts', { name: 'Pasted', phone: '+15550100220' });
  const [number] = (await world.api('GET', '/admin/v1/workspaces/demo/numbers')).data;
  const request = await page.evaluate(async () => {
    const answer = await fetch('/v1/requests', { headers: { 'Postrider-Workspace': 'demo' } });
    return (await answer.json()).data[0].request_id;
  });
  const paste = async (text) => {
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search pages, contacts or IDs' }).fill(text);
    await expect(page.getByRole('listbox', { name: 'Search results' }).getByRole('option')).toHaveCount(1);
    await page.keyboard.press('Enter');
  };
  await paste(contact.id);
  await expect(heading(page, 'Pasted')).toBeVisible();
  await paste(number.id);
  await expect(page.getByRole('status', { name: 'Number state' })).toBeVisible();
  await paste(request);
  await expect(page.getByRole('table', { name: 'Requests' }).getByRole('row')).toHaveCount(2);
  for (const [id, title] of [['usr_01jd3v0x5n8m7k2q4r6s8t0w2y', 'Settings'], ['aud_01jd3v0x5n8m7k2q4r6s8t0w2y', 'Operator'], ['inv_01jd3v0x5n8m7k2q4r6s8t0w2y', 'Settings']]) {
    await paste(id);
    await expect(heading(page, title)).toBeVisible();
  }
  const upload = await page.evaluate(async () => {
    const headers = { 'Postrider-Workspace': 'demo', 'Content-Type': 'text/plain' };
    return (await fetch('/v1/media?filename=plan.txt', { method: 'POST', headers, body: 'a plan' })).json();
  });
  await paste(upload.media_id);
  await expect(page.getByRole('dialog', { name: 'File' })).toContainText('plan.txt');
});

test('eight tabs share one stream, and signing out in one ends all', async ({ signed: page, world, context }) => {
  const tabs = [page];
  await page.goto(`${world.origin}/ui/events`);
  const ready = [];
  while (tabs.length < 8) {
    const tab = await context.newPage();
    tabs.push(tab);
    await tab.goto(`${world.origin}/ui/events`);
    ready.push(await tab.evaluate(() => new Promise((done) => {
      const live = () => document.querySelector('[role=status][aria-label=Connection]')?.textContent.includes('Live');
      const look = () => (live() ? done(Math.round(performance.now())) : requestAnimationFrame(look));
      look();
    })));
  }
  console.log(`tabs after the first are live after ${ready.join(', ')} ms`);
  expect(Math.max(...ready)).toBeLessThan(limit(10_000));
  for (const tab of tabs) await expect(tab.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  const leaders = () => Promise.all(tabs.map((tab) => tab.evaluate(async () => {
    const { held } = await navigator.locks.query();
    return held.filter((lock) => lock.name.startsWith('live:')).length;
  })));
  expect(new Set(await leaders())).toEqual(new Set([1]));
  const rows = (tab) => tab.getByRole('table', { name: 'Events' });
  await world.api('POST', '/v1/otp/send', { phone: '+15550100071' });
  for (const tab of tabs) await expect(rows(tab)).toContainText('+15550100071');

  // The tab that opened first holds the stream. What happens while the next takes over is not lost.
  const closed = Date.now();
  await tabs.shift().close();
  const held = () => tabs[0].evaluate(async () => (await navigator.locks.query()).held.filter((it) => it.name.startsWith('live:')).length);
  while ((await held()) !== 1) expect(Date.now() - closed).toBeLessThan(60_000);
  const taken = Date.now() - closed;
  console.log(`the next tab leads ${taken} ms after the first is closed`);
  expect(taken).toBeLessThan(limit(20_000));
  const numbers = [...Array(8).keys()].map((i) => `+1555020001${i}`);
  for (const from of numbers) await world.api('POST', '/v1/sandbox/inbound', { from, text: 'hi' });
  for (const tab of [tabs[0], tabs[6]]) {
    for (const from of numbers) {
      await expect(rows(tab).getByRole('row').filter({ hasText: 'message.received' }).filter({ hasText: from })).toHaveCount(1);
    }
  }
  await tabs[1].getByRole('button', { name: 'Account' }).click();
  const out = tabs.map((tab) => tab.evaluate(() => new Promise((done) => {
    const look = () => document.querySelector('h1')?.textContent === 'Sign in' && done(Date.now());
    new MutationObserver(look).observe(document.body, { childList: true, characterData: true, subtree: true });
  })));
  const clicked = tabs[1].evaluate(() => new Promise((done) => addEventListener('click', () => done(Date.now()), { capture: true, once: true })));
  await tabs[1].getByRole('menuitem', { name: 'Sign out' }).click();
  const at = await clicked;
  const ended = (await Promise.all(out)).map((it) => it - at);
  console.log(`signed out in one tab, all are after ${Math.max(...ended)} ms`);
  expect(Math.max(...ended)).toBeLessThan(limit(10_000));
  for (const tab of tabs) await expect(heading(tab, 'Sign in')).toBeVisible();
});

test('a server that is killed and started again loses nothing on the screen', async ({ signed: page, world }) => {
  await page.goto(`${world.origin}/ui/inbox`);
  await world.api('POST', '/v1/sandbox/inbound', { from: '+15550100081', name: 'Before', text: 'one' });
  const list = page.getByRole('list', { name: 'Conversations' });
  await expect(list.getByRole('link', { name: 'Before' })).toBeVisible();
  await page.evaluate(() => (globalThis.stayed = true));
  await world.kill();
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Reconnecting');
  await world.restart();
  await world.api('POST', '/v1/sandbox/inbound', { from: '+15550100082', name: 'While away', text: 'two' });
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  await expect(list.getByRole('link', { name: 'While away' })).toBeVisible();
  await expect(list.getByRole('link', { name: 'Before' })).toHaveCount(1);
  expect(await page.evaluate(() => globalThis.stayed)).toBe(true);
});
