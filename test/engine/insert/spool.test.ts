/** The disk that atomic streams take until they are complete (engine/insert/stream/spool.ts). */
import { statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { type Spool, Spools } from '../../../src/engine/insert/stream/spool.js';

const MIB = 1024 * 1024;
const owner = (id: string, quota: number | null = null) => ({ id, quota });

async function contents(spool: Spool): Promise<string> {
  const reader = spool.read();
  let text = '';
  for (let next = await reader.next(); !next.done; next = await reader.next()) text += next.value.toString();
  return text;
}

it('a body is read as often as needed, and frees its space once', async () => {
  const spools = new Spools(tmpdir(), 0);
  const spool = spools.open(owner('a'));
  for (const piece of ['one', '', 'two', 'x'.repeat(MIB)]) await spool.add(Buffer.from(piece));
  for (let time = 0; time < 2; time++) expect(await contents(spool)).toBe(`onetwo${'x'.repeat(MIB)}`);
  expect([spool.bytes, spools.bytes]).toEqual([MIB + 6, MIB + 6]);
  spool.close();
  spool.close();
  expect(spools.bytes).toBe(0);
});

it('bodies of a project together are not larger than its quota, whatever others send', async () => {
  const spools = new Spools(tmpdir(), 0);
  const [one, other, stranger] = [owner('a', 1000), owner('a', 1000), owner('b', 1000)].map((of) =>
    spools.open(of),
  ) as [Spool, Spool, Spool];
  await one.add(Buffer.alloc(600));
  await stranger.add(Buffer.alloc(1000));
  await other.add(Buffer.alloc(400));
  await expect(other.add(Buffer.alloc(1))).rejects.toMatchObject({ code: 'quota_exceeded' });
  other.close();
  await one.add(Buffer.alloc(400));
  for (const spool of [one, stranger]) spool.close();
  expect(spools.bytes).toBe(0);
});

it('twice the reserve of the disk stays free', async () => {
  const { bavail, bsize } = statfsSync(tmpdir());
  const free = bavail * bsize;
  const full = new Spools(tmpdir(), free / 2 + 1024 * MIB).open(owner('a'));
  await expect(full.add(Buffer.alloc(1))).rejects.toMatchObject({ code: 'disk_full' });
  full.close();
  const roomy = new Spools(tmpdir(), free / 4).open(owner('a'));
  await roomy.add(Buffer.alloc(1));
  roomy.close();
});
