/** Every operation of the interface as the explorer fills its form in: at one click the sandbox takes it. */
import { expect, test, visit } from './world.mjs';

// A trace of every operation takes longer than they do.
test.use({ trace: 'off' });

/** What is not run here: it does not end, or takes a file. Deleting always waits for somebody to name what goes. */
const NOT_RUN = ['streamEvents', 'uploadMedia'];

/** Whose ids nothing in this sandbox has, so that its form says what is missing. */
const BLANK = [
  'readMedia', 'readMediaContent', 'readArchiveFile', 'drainNode', 'undrainNode', 'moveShard', 'readPortfolio', 'setPortfolio',
];

/** What this sandbox refuses whatever is filled in, and why. */
const REFUSED = {
  updateBroadcast: /the broadcast is/,
  cancelBroadcast: /the broadcast is/,
  pauseBroadcast: /the broadcast is/,
  resumeBroadcast: /the broadcast is/,
  retryBroadcast: /no message of the broadcast has failed|the broadcast is/,
  createTemplate: /there is a template of that name and language already/,
  readCluster: /this server is no node of a cluster/,
  updateMember: /the workspace would have no owner left/,
  checkNumber: /no such `cloud_api` number/,
};

/** What makes things comes before what reads them, what ends them after it, and the clock last. A new template comes after
 * the samples that fit the sandbox's own, and the same one a second time after that. @param {string} id */
const rank = (id) => {
  if (id === 'advanceSandboxClock') return 5;
  if (id === 'createTemplate') return 4;
  if (/^(cancel|pause|change|createSuppression|createOwnTemplate)/.test(id)) return 3;
  return /^(send|create|receive|open|setSms)/.test(id) ? 1 : 2;
};

/** Its form, once the ids are in it. */
async function form(page, { id, path, parameters }) {
  await visit(page, `/explorer/${id}`);
  const operation = page.locator('.operation');
  await expect(operation.locator('code.wrap').first()).toHaveText(path);
  const ids = parameters.filter((it) => it.in === 'path' && it.name !== 'workspace');
  const fields = ids.map((it) => operation.getByRole('textbox', { name: it.name, exact: true }));
  if (!BLANK.includes(id)) for (const field of fields) await expect(field, id).not.toHaveValue('');
  const body = operation.getByRole('textbox', { name: 'Body', exact: true });
  if (await body.count()) await expect(body, id).not.toHaveValue(/"\w+_id": "\w+_01jd3v0x5n8m7k2q4r6s8t0w2y"/);
  return { operation, fields };
}

test('each operation is taken by the sandbox as its form is filled in', async ({ signed: page, world }) => {
  test.slow();
  const { paths } = await (await fetch(`${world.origin}/openapi.json`)).json();
  const all = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).filter(([method]) => /^(get|post|put|patch)$/.test(method))
      .map(([, it]) => ({ id: it.operationId, path, parameters: it.parameters ?? [] })));
  const run = all.filter(({ id, path }) => !/^\/(ui|channels)\//.test(path) && !NOT_RUN.includes(id));
  expect(run.length).toBeGreaterThan(120);
  const wrong = [];
  for (const one of run.sort((a, b) => rank(a.id) - rank(b.id))) {
    const { operation, fields } = await form(page, one);
    await operation.getByRole('button', { name: 'Run' }).click();
    if (BLANK.includes(one.id)) {
      // The browser says it: without the id there is nothing to ask.
      await expect(fields.at(-1)).toHaveJSProperty('validity.valueMissing', true);
      continue;
    }
    const answer = operation.getByRole('region', { name: 'Answer' });
    await expect(answer.locator('.badge'), one.id).toBeVisible();
    const done = (await answer.locator('.badge').textContent()) === 'Done';
    const said = done ? '' : (await answer.textContent()).replace(/\s+/g, ' ');
    if (!done && !REFUSED[one.id]?.test(said)) wrong.push(`${one.id}: ${said}`);
    if (done && REFUSED[one.id]) wrong.push(`${one.id} is taken`);
  }
  expect(wrong).toEqual([]);
});

test('only what a call needs is filled in, and nothing is named for somebody who deletes', async ({ signed: page, world }) => {
  const raw = page.getByRole('textbox', { name: 'Body', exact: true });
  for (const [id, body] of [
    ['sendOtp', { phone: '+15550123456' }],
    ['sendMessage', { to: '+15550123456', type: 'template', template: { name: 'welcome' } }],
    ['createSuppression', { phone: '+15550123456' }],
    ['updateOwnWorkspace', {}],
  ]) {
    await visit(page, `/explorer/${id}`);
    await expect.poll(async () => JSON.parse((await raw.inputValue()) || 'null')).toEqual(body);
  }
  await world.api('POST', '/v1/contacts', { name: 'Ada' });
  await visit(page, '/explorer/readContact');
  const id = page.getByRole('textbox', { name: 'contact_id' });
  await expect(id).toHaveValue(/^con_/);
  await visit(page, '/explorer/deleteContact');
  await expect(page.locator('.operation .method').first()).toHaveText('DELETE');
  await expect(id).toHaveValue('');
});
