/** The page's types, against what the server says of its interface: a renamed field is an error. */
import { execFileSync } from 'node:child_process';
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import openapi, { astToString } from 'openapi-typescript';
import { APP, expect, test } from './world.mjs';

test('tsc finds nothing', async ({ world }) => {
  const description = await (await fetch(`${world.origin}/openapi.json`)).json();
  writeFileSync('openapi.d.ts', astToString(await openapi(description)));
  rmSync('app', { recursive: true, force: true });
  cpSync(APP, 'app', { recursive: true });
  let said = '';
  try {
    execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.'], { encoding: 'utf8' });
  } catch (error) {
    said = error.stdout || String(error);
  }
  expect(said).toBe('');
});
