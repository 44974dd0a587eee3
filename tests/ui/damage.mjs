/** Damages the journal of one workspace as a faulty program would: all checksums are right. */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';

const [HEAD, FRAME_HEAD] = [80, 20];

/** CRC-32C, which seals the entries of the log. */
function crc32c(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let i = 0; i < 8; i++) sum = (sum >>> 1) ^ (sum & 1 ? 0x82f63b78 : 0);
  }
  return ~sum >>> 0;
}

/**
 * Makes no event of the workspace's last one, in a stopped server's data; what was written after it is lost.
 * `actors/log/src/entry.rs` and `actors/store/src/log/frame.rs` say how they lie there.
 */
export function damage(directory, workspace) {
  const name = readdirSync(path.join(directory, 'log')).filter((it) => it.endsWith('.log')).sort().at(-1);
  const file = path.join(directory, 'log', name);
  const log = readFileSync(file);
  const section = Buffer.from(`${String.fromCharCode(workspace.length)}${workspace}`);
  let found = null;
  for (let at = log.indexOf('PRLG'); at >= 0 && log.toString('latin1', at, at + 4) === 'PRLG'; at += HEAD + 8 + log.readUInt32BE(at + 60)) {
    const frame = log.subarray(at + HEAD + 4, at + HEAD + 4 + log.readUInt32BE(at + HEAD));
    if (frame.subarray(FRAME_HEAD, FRAME_HEAD + section.length).equals(section)) found = { at, frame };
  }
  if (!found) throw new Error(`${file} has no events of ${workspace}`);
  const { at, frame } = found;
  frame[FRAME_HEAD + section.length + 4] = 0xff;
  frame.writeUInt32BE(crc32(frame.subarray(FRAME_HEAD), crc32(frame.subarray(0, 16))), 16);
  const end = at + HEAD + log.readUInt32BE(at + 60);
  log.writeUInt32BE(crc32c(log.subarray(at, end)), end);
  log.fill(0, end + 8);
  writeFileSync(file, log);
}
