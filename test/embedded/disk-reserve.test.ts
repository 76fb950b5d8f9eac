/**
 * One project fills the disk: its server is stopped before the reserve is used up. Its neighbor, if it does not grow, and
 * the control database continue.
 */
import { appendFile, mkdir, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { DiskReserve } from '../../src/embedded/disk-reserve.js';
import { BY_ITSELF } from '../../src/engine/audit/audit.js';
import { smallDisk } from '../faults/support/disk.js';
import { copyPreparedDataDir } from '../support/prepared-data-dir.js';
import { endEverything, eventually, killEverything } from '../support/program.js';
import { openStage } from './stage.js';

afterAll(endEverything);

it('stops the growing project, refuses it for a while and names it in the log; the others continue', async () => {
  const disk = await smallDisk();
  if (disk === null) return console.log('disk reserve: there is no right to mount a disk');
  try {
    await copyPreparedDataDir(disk.dataDir);
    const stage = await openStage({ 'disk-reserve-mib': '100' }, disk.dataDir);
    const [greedy, modest] = [await stage.project('greedy'), await stage.project('modest')];
    await modest.sql('CREATE TABLE t (s text)');
    await greedy.sql('CREATE TABLE t (s text); ALTER TABLE t ALTER COLUMN s SET STORAGE EXTERNAL');
    const growth = `INSERT INTO t SELECT repeat('x', 1000000) FROM generate_series(1, 4)`;
    const statuses: number[] = [];
    const grew = () => stage.log().filter(({ msg }) => /it grew while the disk was nearly full/.test(String(msg)));
    await eventually('it is stopped', async () => {
      statuses.push((await greedy.sql(growth)).status);
      // Slowly enough for a busy machine to see the disk fill.
      await sleep(100);
      return grew().length > 0;
    });
    expect(grew()).toMatchObject([{ project: 'greedy' }]);
    expect(statuses).toContain(200);
    const refused = await greedy.sql('SELECT 1');
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([503, true]);
    expect(refused.text).toContain('was stopped because its data was growing while the disk was nearly full');

    // It would be stopped next if it grew now.
    expect((await modest.sql('SELECT s FROM t')).body.rows).toEqual([]);
    await stage.service.engine.projects.setQuota('modest', 1_000_000_000, BY_ITSELF);
    expect((await fetch(`${stage.service.url}/readyz`)).status).toBe(200);
    await stage.service.engine.deleteProject('greedy', BY_ITSELF);
    expect((await modest.sql("INSERT INTO t VALUES ('here')")).status).toBe(200);
    expect((await modest.sql('SELECT s FROM t')).body.rows).toEqual([{ s: 'here' }]);
    await stage.close();
  } finally {
    await killEverything();
    await disk.close();
  }
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
    const reserve = new DiskReserve(folder, bavail * bsize - 20 * 1024 * 1024);
    expect(await reserve.greatestGrowth([greedy, modest])).toBeNull();
    await grow('modest', 1);
    await grow('greedy', 30);
    expect(await reserve.greatestGrowth([greedy, modest])).toMatchObject({ id: 'greedy' });
    expect(await reserve.greatestGrowth([modest])).toBeNull();
    await grow('modest', 1);
    expect(await reserve.greatestGrowth([modest])).toMatchObject({ id: 'modest', bytes: 1024 * 1024 });
  } finally {
    await disk.close();
  }
});
