/** Files on a phone of the sandbox: one that its owner sends, and one that is sent to it. */
import { expect, guard, test, visit } from './world.mjs';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
const PHONE = '+15550123456';

test('a file goes from a phone and to it, and both are shown', async ({ signed: page, world }) => {
  const wrong = guard(page, world);
  await visit(page, '/phone');
  const log = page.getByRole('log', { name: 'Messages on this phone' });
  const file = page.getByLabel('Attach file as customer', { exact: true });
  const picture = { name: 'cat.png', mimeType: 'image/png', buffer: Buffer.from(PIXEL, 'base64') };
  // One that is taken back is not sent.
  await file.setInputFiles(picture);
  await page.getByRole('button', { name: 'Remove' }).click();
  await expect(page.getByText('cat.png')).toHaveCount(0);
  await file.setInputFiles(picture);
  await page.getByRole('textbox', { name: 'Message as customer' }).fill('Look');
  await page.getByRole('button', { name: 'Send as customer' }).click();
  await expect(log).toContainText('Look');
  await expect(log).toContainText('cat.png');
  await expect(log.getByRole('img', { name: 'cat.png' })).toBeVisible();
  const thread = `/v1/sandbox/phones/${encodeURIComponent(PHONE)}/thread`;
  const [{ kind, media }] = (await world.api('GET', thread)).data;
  expect([kind, media.size]).toEqual(['image', Buffer.from(PIXEL, 'base64').length]);
  const image = { media_id: media.media_id, caption: 'Ours' };
  await world.api('POST', '/v1/messaging/send', { to: PHONE, type: 'image', image });
  await expect(log).toContainText('Ours');
  await expect(log.getByRole('img', { name: 'cat.png' })).toHaveCount(2);
  const text = { name: 'plan.txt', mimeType: 'text/plain', buffer: Buffer.from('a plan') };
  await file.setInputFiles(text);
  await page.getByRole('button', { name: 'Send as customer' }).click();
  await expect(log).toContainText('plan.txt');
  await expect(log).toContainText('6 byte');
  expect(wrong).toEqual([]);
});

test('what a phone shows can fail', async ({ signed: page, world }) => {
  await world.api('POST', '/v1/otp/send', { phone: PHONE });
  const log = page.getByRole('log', { name: 'Messages on this phone' });
  await log.getByRole('button', { name: 'Mark failed' }).click();
  await expect(log).toContainText('Failed');
  await expect(log.getByRole('button', { name: 'Mark delivered' })).toHaveCount(0);
  const [code] = (await world.api('GET', '/v1/otp')).data;
  await expect.poll(async () => (await world.api('GET', `/v1/otp/${code.request_id}`)).delivery_status).toBe('failed');
});

test('a picture is let go with the page that shows it', async ({ signed: page, world }) => {
  const wrong = guard(page, world);
  await page.addInitScript(() => {
    const { createObjectURL: make, revokeObjectURL: free } = URL;
    const kept = new Set();
    URL.createObjectURL = (of) => {
      const address = make.call(URL, of);
      kept.add(address);
      return address;
    };
    URL.revokeObjectURL = (address) => {
      kept.delete(address);
      free.call(URL, address);
    };
    Object.assign(window, { kept });
  });
  const kept = () => page.evaluate(() => /** @type {any} */ (window).kept.size);
  await page.reload();
  await visit(page, '/phone');
  const log = page.getByRole('log', { name: 'Messages on this phone' });
  const content = { name: 'dog.png', mimeType: 'image/png', buffer: Buffer.from(PIXEL, 'base64') };
  await page.getByLabel('Attach file as customer', { exact: true }).setInputFiles(content);
  await page.getByRole('button', { name: 'Send as customer' }).click();
  const picture = log.getByRole('img', { name: 'dog.png' });
  await expect(picture).toBeVisible();
  await expect.poll(() => picture.evaluate((it) => /** @type {any} */ (it).naturalWidth)).toBeGreaterThan(0);
  await expect.poll(kept).toBeGreaterThan(0);
  await visit(page, '/codes');
  await expect.poll(kept).toBe(0);
  await page.goBack();
  await expect(picture).toBeVisible();
  expect(wrong).toEqual([]);
});
