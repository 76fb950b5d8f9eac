/**
 * One project fills the disk: its server is stopped before the reserve is used up. Its neighbor can only be read, and the
 * control database continues.
 */
import { appendFile, mkdir, rm, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { DiskReserve } from '../../src/embedded/disk-reserve.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { smallDisk } from '../faults/support/disk.js';
import { makeFolder } from '../support/folder.js';
import { copyPreparedDataDir } from '../support/prepared-data-dir.js';
import { endEverything, eventually, killEverything } from '../support/program.js';
import { openStage } from './stage.js';

/** Reading it fails, for root as well: ENAMETOOLONG. */
const TOO_LONG = `/${'x'.repeat(300)}`;

afterAll(endEverything);

it('stops the growing project, refuses it for a while and names it in the log; the others continue', async () => {
  const disk = await smallDisk();
  if (disk === null) return console.log('disk reserve: there is no right to mount a disk');
  try {
    await copyPreparedDataDir(disk.dataDir);
    const stage = await openStage({ 'disk-reserve-mib': '100' }, disk.dataDir);
    const [greedy, modest] = [await stage.project('greedy'), await stage.project('modest')];
    const make = 'CREATE TABLE t (s text); ALTER TABLE t ALTER COLUMN s SET STORAGE EXTERNAL';
    await eventually('modest has a table', async () => (await modest.sql(make)).status === 200);
    await eventually('greedy has a table', async () => (await greedy.sql(make)).status === 200);
    const growth = `INSERT INTO t SELECT repeat('x', 1000000) FROM generate_series(1, 4)`;
    const statuses: number[] = [];
    const grew = () => stage.log().filter(({ msg }) => /it grew while the disk was nearly full/.test(String(msg)));
    await eventually('it is stopped', async () => {
      statuses.push((await greedy.sql(growth)).status);
      // A page or two: it grows as well, but is not to blame.
      if (statuses.at(-1) === 200)
        await modest.sql("INSERT INTO t SELECT repeat('x', 2000) FROM generate_series(1, 8)");
      // Slowly enough for a busy machine to see the disk fill.
      await sleep(100);
      return grew().length > 0;
    });
    expect(grew()).toMatchObject([{ project: 'greedy' }]);
    expect(statuses).toContain(200);
    const refused = await greedy.sql('SELECT 1');
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([503, true]);
    expect(refused.text).toContain('was stopped because its data was growing while the disk was nearly full');

    // It keeps its reads, and may free space.
    const pid = await modest.pid();
    const lacksRoom = await modest.sql("INSERT INTO t VALUES ('here')");
    expect([lacksRoom.status, Number(lacksRoom.headers.get('retry-after')) > 0]).toEqual([503, true]);
    expect(lacksRoom.text).toContain('The disk of the service is nearly full: projects can only be read');
    expect((await modest.sql('DELETE FROM t')).status).toBe(200);
    for (let n = 0; n < 10; n++) {
      expect((await modest.sql('SELECT s FROM t')).body.rows).toEqual([]);
      await sleep(200);
    }
    expect(await modest.pid()).toBe(pid);
    expect(grew()).toHaveLength(1);
    await stage.service.engine.projects.setQuota('modest', 1_000_000_000, BY_ITSELF);
    expect((await fetch(`${stage.service.url}/readyz`)).status).toBe(200);
    await stage.service.engine.projects.delete('greedy', BY_ITSELF);
    await eventually(
      'there is room again',
      async () => (await modest.sql("INSERT INTO t VALUES ('here')")).status === 200,
    );
    expect((await modest.sql('SELECT s FROM t')).body.rows).toEqual([{ s: 'here' }]);
    await stage.close();
  } finally {
    await killEverything();
    await disk.close();
  }
});

it('measures the others if the files of one project cannot be read', async () => {
  const folder = makeFolder('cdp-reserve-');
  const unreadable: string[] = [];
  const reserve = new DiskReserve(folder, Infinity, (id) => unreadable.push(id));
  const measure = () =>
    reserve.greatestGrowth([
      { id: 'damaged', folders: [TOO_LONG] },
      { id: 'whole', folders: [folder] },
    ]);
  expect(await measure()).toBeNull();
  expect(reserve.isUsed).toBe(true);
  expect(unreadable).toEqual(['damaged']);
  await rm(folder, { recursive: true });
});

it('only what has grown since the last project was stopped is stopped next', async () => {
  const disk = await smallDisk();
  if (disk === null) return console.log('disk reserve: there is no right to mount a disk');
  try {
    const folder = dirname(disk.dataDir);
    const candidate = (id: string) => ({ id, folders: [join(folder, id)] });
    const [greedy, modest] = [candidate('greedy'), candidate('modest')];
    const grow = async (id: string, mib: number) => {
      await mkdir(join(folder, id), { recursive: true });
      await appendFile(join(folder, id, 'rows'), Buffer.alloc(mib * 1024 * 1024));
    };
    const { bavail, bsize } = await statfs(folder);
    const reserve = new DiskReserve(folder, bavail * bsize - 20 * 1024 * 1024, () => {});
    expect(await reserve.greatestGrowth([greedy, modest])).toBeNull();
    expect(reserve.isUsed).toBe(false);
    await grow('modest', 1);
    await grow('greedy', 30);
    expect(await reserve.greatestGrowth([greedy, modest])).toMatchObject({ id: 'greedy' });
    expect(await reserve.greatestGrowth([modest])).toBeNull();
    // A sixteenth of the reserve is noticeable.
    const noticeable = Math.ceil((bavail * bsize) / 1024 / 1024 / 16);
    await grow('modest', 1);
    expect(await reserve.greatestGrowth([modest])).toBeNull();
    await grow('modest', noticeable);
    expect(await reserve.greatestGrowth([modest])).toMatchObject({ id: 'modest' });
  } finally {
    await disk.close();
  }
});
