/** Which archived segments of the write-ahead log are old enough to remove. */
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { removeOldSegments } from '../../../src/backup/physical/wal-archive.js';

const DAY_S = 86_400;

/** Segments of a server by their age in days. */
async function archived(all: string, server: string, ages: readonly number[]): Promise<void> {
  await mkdir(join(all, server));
  for (const [i, age] of ages.entries()) {
    const path = join(all, server, i.toString(16).toUpperCase().padStart(24, '0'));
    await writeFile(path, '');
    const time = Date.now() / 1_000 - age * DAY_S;
    await utimes(path, time, time);
  }
}

it('counts from the newest segment, so that a clock set forward removes nothing of a server that archives', async () => {
  const all = await mkdtemp(join(tmpdir(), 'cdp-archive-'));
  onTestFinished(() => rm(all, { recursive: true }));
  await archived(all, 'quiet', [120, 110, 101, 100]);
  await archived(all, 'gone', [120, 5]);
  await archived(all, 'long-gone', [120, 100]);
  await removeOldSegments(all, 14, (server) => Promise.resolve(server === 'quiet'));
  const left = async (server: string) => (await readdir(join(all, server))).map((name) => Number(`0x${name}`)).sort();
  expect(await left('quiet')).toEqual([1, 2, 3]);
  expect(await left('gone')).toEqual([1]);
  expect((await readdir(all)).sort()).toEqual(['gone', 'quiet']);
});
