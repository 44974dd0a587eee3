/** Every text of the page is in every language, with the same places, and none is left over. */
import { expect, test } from '@playwright/test';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { APP } from './world.mjs';

/** Texts that the page builds from a word of the interface, so that no call names them. */
const BUILT = `Home|Phone|Codes|Messages|Inbox|Broadcasts|Templates|Contacts|Segments|Import|Events|Webhooks|API keys|Requests|API explorer|Analytics|Settings|Operator|Messaging|Audience|Developers|Manage|My account|Sign in|Join|New broadcast|Import contacts
Owner|Admin|Marketer|Agent|Analyst|Developer|Live|Reconnecting|Offline
Pending|Held|Active|Invalidated|Verified|Expired|Failed|Queued|Sent|Delivered|Read|Unknown|Suppressed|Cancelled|Completed|Approved|Rejected|Paused|Disabled|Scheduled|Running|Started|Open|Resolved|Stopped|Slow|Parked|Received|Unavailable|Lost|Text|Template|Otp|Utility|Marketing|Authentication|In appeal|Limit exceeded|Word|Api|Channel|Refusal|Mine|Unassigned|Unread|Already used|Unknown request|Message|Conversation|Broadcast|Contact|Segment|Webhook|Event|API key|Code|Single|Sending|Sandbox|Created|Updated|Opened|Deleted|Merged|Opted out|Opted in|Resumed|User|Key|Admin token|System|Anonymous|Gone|Failing|Administrator|Ok|Idle|Restarting|Probe|Would refuse|Green|Yellow|Red|Declined|Pending review|Available without review|Standard|High|Coexistence|Request|File|Number|People|Audit log|At most once|At least once|Timeout|Blocked address|Invalid url|Connection failed|Connection lost|Response too large|Abusive content|Incorrect category|Invalid format|Promotional|Scam|Tag content mismatch|Cloud api|Channel refused|Not sent in time|Image|Video|Document|Audio|Sticker|Location|Reaction|Interactive`.split(/[|\n]/);

function used() {
  const keys = new Set(BUILT);
  for (const file of readdirSync(APP, { recursive: true })) {
    if (!file.endsWith('.js')) continue;
    const source = readFileSync(path.join(APP, file), 'utf8');
    for (const match of source.matchAll(/\btv?\(\s*'((?:[^'\\]|\\.)*)'/g)) keys.add(match[1]);
    if (file.endsWith('channel-errors.js')) for (const match of source.matchAll(/^\s+\d+: '((?:[^'\\]|\\.)*)'/gm)) keys.add(match[1]);
  }
  return keys;
}

const words = (language) => JSON.parse(readFileSync(path.join(APP, 'words', `${language}.json`), 'utf8'));
const places = (text) => [...text.matchAll(/\{\w+\}/g)].map((m) => m[0]).sort().join(' ');
const forms = (word) => (typeof word === 'string' ? [word] : Object.values(word));

for (const language of ['es', 'pt-BR', 'de', 'ar']) {
  test(`${language} has every text`, () => {
    const keys = used();
    const all = words(language);
    expect([...keys].filter((key) => !(key in all))).toEqual([]);
    expect(Object.keys(all).filter((key) => !keys.has(key))).toEqual([]);
    expect(Object.entries(all).filter(([key, word]) => forms(word).some((form) => places(form) !== places(key))).map(([key]) => key)).toEqual([]);
    expect(Object.entries(all).filter(([key, word]) => forms(word).includes(key) && key.split(' ').length > 3).map(([key]) => key)).toEqual([]);
  });
}

test('English has its plurals, and better words for those of the interface', () => {
  const [keys, built] = [used(), new Set(BUILT)];
  for (const [key, word] of Object.entries(words('en'))) {
    expect(keys.has(key), key).toBe(true);
    if (typeof word === 'string') expect(built.has(key) || / \(\w+\)$/.test(key), key).toBe(true);
    else expect(Object.keys(word), key).toEqual(['one', 'other']);
  }
});
