/** People of a workspace: invites, joining, roles, and the authenticator. */
import { expect, heading, signIn, test, visit } from './world.mjs';
import { AT, member, paged, REAL, standIn } from './stand-in.mjs';

const PASSWORD = 'correct horse battery staple';

test('somebody is invited, has another role and is removed', async ({ signed: page, world }) => {
  test.skip(REAL && !world.has('/admin/v1/workspaces/{workspace}/invites'), 'the server has no invites yet');
  const url = `${world.origin}/ui/join#invite=tokentokentoken`;
  const invites = [];
  let role = 'agent';
  let members = [member()];
  const server = await standIn(page, {
    'GET /admin/v1/workspaces/demo/members': () => paged(members.map((it) => ({ ...it, role }))),
    'PATCH /admin/v1/workspaces/demo/members/*': (body) => ((role = body.role), member({ role })),
    'DELETE /admin/v1/workspaces/demo/members/*': () => ((members = []), [204]),
    'GET /admin/v1/workspaces/demo/invites': () => paged(invites),
    'POST /admin/v1/workspaces/demo/invites': (body) => {
      const made = { id: 'inv_1', email: body.email, role: body.role, expires_at: AT };
      invites.push(made);
      return [201, { ...made, url }];
    },
    'DELETE /admin/v1/workspaces/demo/invites/*': () => (invites.pop(), [204]),
  });
  if (REAL) await world.person('agent', 'grace@example.com');
  await visit(page, '/settings/people');
  await page.getByRole('button', { name: 'Invite' }).click();
  const dialog = page.getByRole('dialog', { name: 'Invite' });
  await dialog.getByRole('textbox', { name: 'E-mail' }).fill('bob@example.com');
  await dialog.getByRole('combobox', { name: 'Role' }).selectOption('marketer');
  await dialog.getByRole('button', { name: 'Create invite' }).click();
  await expect(dialog.getByRole('textbox', { name: 'Invite link' })).toHaveValue(/\/ui\/join#invite=[\w-]+$/);
  await dialog.getByRole('button', { name: 'Done' }).click();
  const waiting = page.getByRole('table', { name: 'Invites' }).getByRole('row', { name: /bob@example.com/ });
  await expect(waiting).toContainText('marketer');
  await waiting.getByRole('button', { name: 'Withdraw' }).click();
  await expect(waiting).toHaveCount(0);
  const grace = page.getByRole('table', { name: 'Members' }).getByRole('row', { name: /grace@example.com/ });
  await grace.getByRole('combobox').selectOption('analyst');
  await expect.poll(() => server.called('PATCH', /\/members\//).at(-1)?.body).toEqual({ role: 'analyst' });
  await grace.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await expect(grace).toHaveCount(0);
});

test('an invite is taken with a name and a password, and its token leaves the address', async ({ page, world }) => {
  test.skip(REAL && !world.has('/ui/api/join'), 'the server has no invites yet');
  let url = `${world.origin}/ui/join#invite=tokentokentoken`;
  if (REAL) {
    url = (await world.api('POST', '/admin/v1/workspaces/demo/invites', { email: 'bob@example.com', role: 'agent' })).url;
  } else {
    // Where the joining is answered here, the session of another agent stands for the new one's.
    await signIn(page, await world.person('agent'));
  }
  const me = {
    principal: { kind: 'user', id: 'usr_1', name: 'Bob', email: 'bob@example.com' }, workspace: { id: 'demo', name: 'Demo' }, role: 'agent',
    operator: false, permissions: ['inbox:read', 'contacts:read'], workspaces: [{ id: 'demo', name: 'Demo', role: 'agent' }], sandbox: true,
    now: new Date().toISOString(), offset_seconds: 0, elevated_until: null, features: { oidc: false, email: false }, version: '0.1.0',
  };
  const server = await standIn(page, {
    'POST /ui/api/join': (body) => (body.password.length < 12 ? [400, { code: 'VALIDATION_ERROR', message: '`password` must have 12 to 256 characters' }] : me),
  });
  await page.goto(url);
  await expect(heading(page, 'Join')).toBeVisible();
  expect(page.url()).not.toContain('invite=');
  await page.getByRole('textbox', { name: 'Name' }).fill('Bob');
  await page.getByLabel('Password').fill('too short');
  await page.getByRole('button', { name: 'Join' }).click();
  await expect(page.getByRole('alert')).toContainText('12');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Join' }).click();
  await expect(heading(page, 'Home')).toBeVisible();
  await expect(page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Inbox' })).toBeVisible();
  expect(server.called('POST', /join/).at(-1).body).toMatchObject({ name: 'Bob', password: PASSWORD });
  expect(await page.evaluate((it) => JSON.stringify({ ...localStorage }).includes(it), PASSWORD)).toBe(false);
});

test('an authenticator is switched on, and asked for at the next sign-in', async ({ signed: page, world }) => {
  test.skip(REAL, 'a real one needs the digits of its secret');
  const codes = [...Array(10).keys()].map((i) => `recovery-${i}`);
  await standIn(page, {
    'POST /ui/api/totp': () => ({ secret: 'JBSWY3DPEHPK3PXP', uri: 'otpauth://totp/Postrider:owner@localhost?secret=JBSWY3DPEHPK3PXP&issuer=Postrider' }),
    'PUT /ui/api/totp': (body) => (body.code === '123456' ? { recovery_codes: codes } : [400, { code: 'VALIDATION_ERROR', message: '`code` is wrong' }]),
    'POST /ui/api/session': (body) => [401, { code: 'UNAUTHORIZED', message: 'this does not sign anybody in', ...(body.totp ? {} : { reason: 'totp_required' }) }],
  });
  await visit(page, '/me');
  await page.getByRole('button', { name: 'Set up' }).click();
  const dialog = page.getByRole('dialog', { name: 'Authenticator' });
  await expect(dialog.getByRole('textbox', { name: 'Secret' })).toHaveValue('JBSWY3DPEHPK3PXP');
  const code = dialog.getByRole('textbox', { name: 'Authenticator code' });
  await code.fill('000000');
  await dialog.getByRole('button', { name: 'Switch on' }).click();
  await expect(dialog.getByRole('alert')).toContainText('wrong');
  await code.fill('123456');
  await dialog.getByRole('button', { name: 'Switch on' }).click();
  await expect(dialog).toContainText('recovery-9');
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Account' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await expect(heading(page, 'Sign in')).toBeVisible();
  await page.getByRole('textbox', { name: 'E-mail' }).fill('owner@localhost');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  const asked = page.getByRole('textbox', { name: 'Authenticator code' });
  await expect(asked).toBeFocused();
  await expect(page.getByRole('alert')).toHaveCount(0);
  await asked.fill('111111');
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await expect(page.getByRole('alert')).toContainText('does not sign anybody in');
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
