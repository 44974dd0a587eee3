/** People of a workspace: invites, joining, roles, and the authenticator. */
import { createHmac } from 'node:crypto';
import { expect, heading, HOSTILE, signIn, test, visit } from './world.mjs';

const PASSWORD = 'correct horse battery staple';

test('somebody is invited, has another role and is removed', async ({ signed: page, world }) => {
  await world.person('agent', 'grace@example.com');
  const members = async () => (await world.api('GET', '/admin/v1/workspaces/demo/members')).data;
  await visit(page, '/settings/people');
  await page.getByRole('button', { name: 'Invite' }).click();
  const dialog = page.getByRole('dialog', { name: 'Invite' });
  await dialog.getByRole('textbox', { name: 'E-mail' }).fill('bob@example.com');
  await dialog.getByRole('combobox', { name: 'Role' }).selectOption('marketer');
  await dialog.getByRole('button', { name: 'Create invite' }).click();
  await expect(dialog.getByRole('textbox', { name: 'Invite link' })).toHaveValue(/\/ui\/join#invite=[\w-]+$/);
  await dialog.getByRole('button', { name: 'Done' }).click();
  const waiting = page.getByRole('table', { name: 'Invites' }).getByRole('row', { name: /bob@example.com/ });
  await expect(waiting).toContainText('Marketer');
  await waiting.getByRole('button', { name: 'Revoke invite' }).click();
  await expect(waiting).toHaveCount(0);
  expect((await world.api('GET', '/admin/v1/workspaces/demo/invites')).data).toEqual([]);
  const grace = page.getByRole('table', { name: 'Members' }).getByRole('row', { name: /grace@example.com/ });
  await grace.getByRole('combobox').selectOption('analyst');
  await expect.poll(async () => (await members()).find((it) => it.email === 'grace@example.com').role).toBe('analyst');
  await grace.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await expect(grace).toHaveCount(0);
  expect((await members()).map((it) => it.email)).toEqual(['owner@localhost']);
});

test('an invite is taken once with a name and a password, and its token leaves the address', async ({ page, world, browser }) => {
  const { url } = await world.api('POST', '/admin/v1/workspaces/demo/invites', { email: 'bob@example.com', role: 'agent' });
  await page.goto(url);
  await expect(heading(page, 'Join')).toBeVisible();
  expect(page.url()).not.toContain('invite=');
  await page.getByRole('textbox', { name: 'Name' }).fill(HOSTILE);
  await page.getByLabel('Password').fill('too short');
  await page.getByRole('button', { name: 'Join' }).click();
  await expect(page.getByRole('alert')).toContainText('12');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Join' }).click();
  await expect(heading(page, 'Home')).toBeVisible();
  await expect(page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Inbox' })).toBeVisible();
  expect(await page.evaluate((it) => JSON.stringify({ ...localStorage }).includes(it), PASSWORD)).toBe(false);
  const members = (await world.api('GET', '/admin/v1/workspaces/demo/members')).data;
  expect(members.find((it) => it.email === 'bob@example.com')).toMatchObject({ name: HOSTILE, role: 'agent' });

  const thief = await (await browser.newContext()).newPage();
  await thief.goto(url);
  await thief.getByRole('textbox', { name: 'Name' }).fill('Mallory');
  await thief.getByLabel('Password').fill(PASSWORD);
  await thief.getByRole('button', { name: 'Join' }).click();
  await expect(thief.getByRole('alert')).toBeVisible();
  await expect(heading(thief, 'Join')).toBeVisible();
});

/** What an authenticator shows (RFC 6238) so many steps of 30 s from now. */
function digits(secret, steps = 0) {
  const bits = [...secret].map((it) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(it).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((it) => Number.parseInt(it, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const hash = createHmac('sha1', key).update(step).digest();
  const found = hash.readUInt32BE(hash[19] & 15) & 0x7fffffff;
  return String(found % 1_000_000).padStart(6, '0');
}

test('an authenticator is switched on, and asked for at the next sign-in', async ({ signed: page }) => {
  await visit(page, '/me');
  await page.getByLabel('New password').fill(PASSWORD);
  await page.getByRole('button', { name: /password/i }).click();
  await expect(page.getByLabel('New password')).toHaveValue('');
  await page.getByRole('button', { name: 'Set up' }).click();
  const dialog = page.getByRole('dialog', { name: 'Authenticator' });
  const secret = await dialog.getByRole('textbox', { name: 'Secret' }).inputValue();
  expect(secret).toMatch(/^[A-Z2-7]{32}$/);
  const code = dialog.getByRole('textbox', { name: 'Authenticator code' });
  const first = digits(secret);
  await code.fill(first === '000000' ? '111111' : '000000');
  await dialog.getByRole('button', { name: 'Turn on' }).click();
  await expect(dialog.getByRole('alert')).toBeVisible();
  await code.fill(first);
  await dialog.getByRole('button', { name: 'Turn on' }).click();
  await expect(dialog.getByRole('button', { name: 'Done' })).toBeVisible();
  const recovery = (await dialog.textContent()).match(/[a-z0-9]{4,}(-[a-z0-9]{4,})+/gi) ?? [];
  expect(recovery.length).toBeGreaterThanOrEqual(10);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Account' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await expect(heading(page, 'Sign in')).toBeVisible();
  await page.getByRole('textbox', { name: 'E-mail' }).fill('owner@localhost');
  await page.getByLabel('Password').fill(PASSWORD);
  const enter = page.getByRole('button', { name: 'Sign in', exact: true });
  await enter.click();
  const asked = page.getByRole('textbox', { name: 'Authenticator code' });
  await expect(asked).toBeFocused();
  await expect(page.getByRole('alert')).toHaveCount(0);
  // A step that was taken is not taken again; the next one is.
  await asked.fill(first);
  await enter.click();
  await expect(page.getByRole('alert')).toBeVisible();
  await asked.fill(digits(secret, 1));
  await enter.click();
  // Back where they were.
  await expect(heading(page, 'My account')).toBeVisible();
});

test('an admin token may do all in the workspace that is shown, and confirms itself', async ({ page, world }) => {
  await page.goto(`${world.origin}/ui/sign-in`);
  await page.getByText('Use an admin token').click();
  await page.getByLabel('Admin token').fill(world.admin);
  await page.getByRole('button', { name: 'Sign in with token' }).click();
  await expect(page.getByRole('status', { name: 'Connection' })).toHaveText('Live');
  const menu = page.getByRole('navigation', { name: 'Main' });
  for (const name of ['Codes', 'Inbox', 'API keys', 'Operator']) await expect(menu.getByRole('link', { name, exact: true })).toBeVisible();
  await menu.getByRole('link', { name: 'Contacts' }).click();
  await expect(page.getByRole('button', { name: 'New contact' }).first()).toBeVisible();

  let asked = 0;
  await page.route('**/admin/v1/workspaces/demo/keys', async (route) => {
    if (route.request().method() !== 'POST' || asked++) return route.fallback();
    return route.fulfill({ status: 403, contentType: 'application/json', body: JSON.stringify({ code: 'FORBIDDEN', message: 'sign in again', reason: 'step_up_required' }) });
  });
  await visit(page, '/keys');
  await page.getByRole('button', { name: 'New key' }).first().click();
  await page.getByRole('dialog', { name: 'New key' }).getByRole('textbox', { name: 'Name' }).fill('by token');
  await page.getByRole('dialog', { name: 'New key' }).getByRole('button', { name: 'Create key' }).click();
  const confirm = page.getByRole('dialog', { name: 'Confirm it is you' });
  await confirm.getByLabel('Admin token').fill(world.admin);
  await confirm.getByRole('button', { name: 'Confirm' }).click();
  await expect(page.getByRole('textbox', { name: 'API key' })).toHaveValue(/^pr_/);
});

test('somebody in two workspaces may do in each what their role there allows', async ({ page, world }) => {
  await world.api('POST', '/admin/v1/workspaces', { id: 'other', name: 'Other' });
  await world.person('agent', 'ada@example.com');
  const { url } = await world.api('POST', '/admin/v1/users/link', { email: 'ada@example.com', workspace: 'other', role: 'analyst' });
  await signIn(page, url);
  const menu = page.getByRole('navigation', { name: 'Main' });
  const select = page.getByRole('combobox', { name: 'Workspace' });
  await select.selectOption('demo');
  await expect(menu.getByRole('link', { name: 'Inbox' })).toBeVisible();
  await select.selectOption('other');
  await expect(menu.getByRole('link', { name: 'Inbox' })).toHaveCount(0);
  await expect(menu.getByRole('link', { name: 'Analytics' })).toBeVisible();
});
