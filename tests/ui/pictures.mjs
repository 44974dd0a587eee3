/** The pictures of README, made from a server that has something to show. */
import { chromium } from '@playwright/test';
import { statSync } from 'node:fs';
import path from 'node:path';
import { makeWorld, visit } from './world.mjs';

const MOST = 120_000;
const folder = process.argv[2];
const world = await makeWorld();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1232, height: 670 }, colorScheme: 'light', locale: 'en-US' });

async function take(name) {
  const file = path.join(folder, `${name}.png`);
  await page.mouse.move(0, 0);
  await page.screenshot({ path: file, animations: 'disabled' });
  const { size } = statSync(file);
  console.log(`${name}.png has ${size} bytes`);
  if (size > MOST) throw new Error(`${name}.png is larger than ${MOST} bytes`);
}

const people = ['Ada Lovelace', 'Grace Hopper', 'Alan Turing', 'Katherine Johnson', 'Edsger Dijkstra'];
const asked = ['Where is my order?', 'Thank you!', 'Can I still change the address?', 'Do you ship to Norway?', 'It has arrived.'];
for (const [i, name] of people.entries()) {
  await world.api('POST', '/v1/sandbox/inbound', { from: `+1555010010${i}`, name, text: asked[i] });
}

await page.goto(world.link);
await page.getByRole('button', { name: 'Send code' }).click();
await page.waitForFunction(() => document.querySelector('[role=status][aria-label=Code]')?.textContent);
await page.getByRole('button', { name: 'Verify' }).click();
await page.getByRole('status', { name: 'Verification' }).filter({ hasText: 'Verified' }).waitFor();
await take('phone');

const recipients = [...Array(400).keys()].map((i) => `+1555030${1000 + i}`);
for (const [count, outcome] of [[9, 'failed'], [3, 'lost']]) {
  for (const to of recipients.splice(0, count)) await world.api('POST', '/v1/sandbox/outcomes', { to, outcome, times: 1 });
}
const all = [...Array(400).keys()].map((i) => `+1555030${1000 + i}`);
const { broadcast_id: id } = await world.api('POST', '/v1/messaging/broadcasts', {
  name: 'Spring sale', template_name: 'spring_sale', recipients: all,
});
await visit(page, `/broadcasts/${id}`);
await page.getByRole('status', { name: 'Broadcast status' }).filter({ hasText: 'Completed' }).waitFor();
await take('broadcast');

await browser.close();
await world.end();
