/**
 * A project fills the disk: below the reserve, all projects can only be read and freed, by every way in, and nobody's reads
 * fail. A server that still grows is stopped below half of the reserve. The control database continues.
 */
import { execFile } from 'node:child_process';
import { appendFile, mkdir, rm, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterAll, expect, it } from 'vitest';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { bytesIn, DiskReserve } from '../../src/embedded/disk-reserve.js';
import { examineDisk } from '../../src/engine/doctor/machine-findings.js';
import { isOnReadOnlyDisk } from '../../src/files.js';
import { smallDisk } from '../faults/support/disk.js';
import { errorOf, refusedLogin } from '../postgres-port/connect.js';
import { makeFolder } from '../support/folder.js';
import { copyPreparedDataDir } from '../support/prepared-data-dir.js';
import { endEverything, eventually, killEverything } from '../support/program.js';
import { call, type TestResponse } from '../support/service.js';
import { openStage, type Stage, type StageProject } from './stage.js';

/** Reading it fails, for root as well: ENAMETOOLONG. */
const TOO_LONG = `/${'x'.repeat(300)}`;

const MIB = 1024 * 1024;

/** Half of it is more than what the writers of these tests store until a busy machine notices. */
const RESERVE_MIB = 400;

const SETTINGS = { 'disk-reserve-mib': String(RESERVE_MIB), 'max-wal-size-mib': '64', 'pg-port': '0' };

afterAll(endEverything);

/** Another program takes the disk, but for so much. */
async function leave(mib: number, folder: string): Promise<void> {
  const free = async () => {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  };
  while ((await free()) > mib * MIB) await appendFile(join(folder, 'ballast'), Buffer.alloc(MIB));
}

async function onDisk(work: (stage: Stage, folder: string) => Promise<void>): Promise<void> {
  const disk = await smallDisk(3 * RESERVE_MIB);
  if (disk === null) return console.log('disk reserve: there is no right to mount a disk');
  try {
    await copyPreparedDataDir(disk.dataDir);
    const stage = await openStage(SETTINGS, disk.dataDir);
    await work(stage, dirname(disk.dataDir));
    await stage.close();
  } finally {
    await killEverything();
    await disk.close();
  }
}

const api = ({ service }: Stage, { token }: StageProject, method: string, path: string, body: unknown) =>
  call(service.url, method, `/api/cdp${path}`, { token, body });

const loginAs = ({ service }: Stage, { name, token }: StageProject, user: string): pg.ClientConfig => ({
  ...{ host: '127.0.0.1', port: service.postgresPort ?? 0 },
  ...{ user, database: name, password: token },
});

async function session(stage: Stage, project: StageProject, user: string): Promise<pg.Client> {
  const client = new pg.Client(loginAs(stage, project, user));
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function prepared(stage: Stage, name: string): Promise<StageProject> {
  const project = await stage.project(name);
  const made = await project.sql(`
    CREATE TABLE data.t (s text); ALTER TABLE data.t ALTER COLUMN s SET STORAGE EXTERNAL;
    CREATE TABLE data.spare (s text); INSERT INTO data.spare VALUES ('a'), ('b');
    CREATE FUNCTION data.hidden() RETURNS int LANGUAGE plpgsql AS
      $$ BEGIN INSERT INTO data.t VALUES ('hidden'); RETURN 1; END $$`);
  expect(made.status, made.text).toBe(200);
  return project;
}

/** Many rows, slowly enough for a busy machine to see the disk fill: a few MiB a second. */
const LOAD = `DO $$ BEGIN FOR i IN 1..2000 LOOP
  INSERT INTO data.t SELECT repeat('x', 100000); PERFORM pg_sleep(0.025); END LOOP; END $$`;

/** Runs a read again and again. @returns a function that ends it, and gives the failures */
function reading(read: () => Promise<unknown>): () => Promise<{ count: number; failures: unknown[] }> {
  let isOver = false;
  const failures: unknown[] = [];
  const loop = (async () => {
    let count = 0;
    for (; !isOver; count++) {
      await read().catch((error: unknown) => failures.push(error));
      await sleep(20);
    }
    return count;
  })();
  return async () => {
    isOver = true;
    return { count: await loop, failures };
  };
}

async function mustSucceed(response: Promise<TestResponse>): Promise<void> {
  const { status, text } = await response;
  if (status !== 200) throw new Error(`${status} ${text}`);
}

/** Refused, because the disk is nearly full, with all that says so. */
function expectRefused({ status, body, headers, text }: TestResponse): void {
  expect([status, body.error], text).toEqual([503, 'disk_full']);
  expect(headers.get('retry-after')).toBe('10');
  expect(headers.get('x-read-only')).toBe('disk');
}

const metric = async ({ service }: Stage, name: string): Promise<number> =>
  Number(new RegExp(`^${name} (.*)$`, 'm').exec(await (await fetch(`${service.url}/metrics`)).text())?.[1]);

const readiness = async ({ service }: Stage): Promise<unknown> => (await fetch(`${service.url}/readyz`)).json();

it('while the disk is nearly full, writes are refused by every way in, and no read fails; then writes work again', async () => {
  await onDisk(async (stage, folder) => {
    const [filler, other] = [await prepared(stage, 'filler'), await prepared(stage, 'other')];
    const pids = await Promise.all([filler, other].map(({ pid }) => pid()));
    const [loader, idle] = [await session(stage, filler, 'writer'), await session(stage, other, 'writer')];
    const ofReaders = await Promise.all([filler, other].map((project) => session(stage, project, 'reader')));
    const reads = [filler, other].flatMap((project, i) => [
      reading(() => mustSucceed(project.sql('SELECT count(*) FROM data.t'))),
      reading(() => mustSucceed(api(stage, project, 'GET', '/schema', undefined))),
      reading(() => (ofReaders[i] as pg.Client).query('SELECT count(*) FROM data.t')),
    ]);
    expect(await metric(stage, 'cdp_disk_read_only')).toBe(0);
    await leave(RESERVE_MIB + 40, folder);

    const long = { timeout_ms: 60_000 };
    const loads = [
      api(stage, filler, 'POST', '/sql', { sql: LOAD, ...long }),
      errorOf(loader.query(LOAD)),
      api(stage, filler, 'POST', '/sql', { sql: `SELECT pg_sleep(20), count(*) FROM data.t`, ...long }),
    ] as const;
    const batch = { method: 'POST', path: '/data/t', body: [{ s: 'x'.repeat(100_000) }] };
    const insert = (project: StageProject) => api(stage, project, batch.method, batch.path, batch.body);
    let refused = await insert(filler);
    await eventually('batches are refused', async () => {
      refused = await insert(filler);
      return refused.status !== 201;
    });
    expectRefused(refused);
    expect(refused.text).toContain('The disk of the service is nearly full: projects can only be read');

    // What was running has ended, and what only reads goes on.
    const [ofSql, ofSession] = [await loads[0], await loads[1]];
    expect([ofSql.status, ofSql.body.error], ofSql.text).toEqual([503, 'disk_full']);
    expect(ofSession.code).toBe('53100');
    expect(await metric(stage, 'cdp_statements_canceled_total{reason="disk"}')).toBe(1);

    for (const project of [filler, other]) {
      expectRefused(await insert(project));
      for (const text of [
        `INSERT INTO data.t VALUES ('here')`,
        'CREATE TABLE data.more (n int)',
        'SELECT * INTO data.more FROM data.t',
        'SELECT data.hidden()',
        'DO $$ BEGIN PERFORM data.hidden(); END $$',
        'SET default_transaction_read_only = off; SELECT data.hidden()',
      ]) {
        expectRefused(await project.sql(text));
      }
      expect(await refusedLogin(loginAs(stage, project, 'writer'))).toBe('53100');
      const read = await project.sql('SELECT s FROM data.spare');
      expect([read.status, read.headers.get('x-read-only')]).toEqual([200, 'disk']);
      expect((await project.sql(`DELETE FROM data.spare WHERE s = 'a'`)).status).toBe(200);
    }
    // A session that was open before: one that is used ends.
    await eventually('the open session ends', () => {
      const inserted = idle.query(`INSERT INTO data.t VALUES ('here')`);
      return inserted.then(
        () => false,
        () => true,
      );
    });
    await expect.poll(() => stage.service.engine.sessions?.ended.get('disk_full')).toBe(2);
    expect(await errorOf(stage.service.engine.projects.create('more'))).toMatchObject({ code: 'disk_full' });

    // It is told.
    expect(await metric(stage, 'cdp_disk_read_only')).toBe(1);
    expect(await readiness(stage)).toMatchObject({ message: 'degraded', disk: 'read-only' });
    const finding = await examineDisk(stage.dataDir, RESERVE_MIB * MIB);
    expect(finding).toMatchObject({ health: 'problem' });
    expect(JSON.stringify(finding)).toContain('projects can only be read');
    expect((await loads[2]).status, 'a long read as writer').toBe(200);

    expect((await filler.sql('TRUNCATE data.t')).status).toBe(200);
    await rm(join(folder, 'ballast'));
    await eventually('writes work again', async () => (await insert(filler)).status === 201);
    expect((await other.sql(`INSERT INTO data.t VALUES ('here')`)).headers.get('x-read-only')).toBeNull();
    await (await session(stage, filler, 'writer')).end();
    expect(await readiness(stage)).toMatchObject({ message: 'ready' });
    expect(await metric(stage, 'cdp_disk_read_only')).toBe(0);
    for (const end of reads) {
      const { count, failures } = await end();
      expect(failures).toEqual([]);
      expect(count).toBeGreaterThan(10);
    }
    // Nothing was restarted for it.
    expect(await Promise.all([filler, other].map(({ pid }) => pid()))).toEqual(pids);
    expect(stage.log().filter(({ level }) => Number(level) >= 50)).toMatchObject([{ msg: /the disk is nearly full/ }]);
    await Promise.all([loader, idle, ...ofReaders].map((client) => client.end().catch(() => {})));
  });
});

it('stops a server that still grows below half of the reserve, for a while, and lets it only drop until there is room', async () => {
  await onDisk(async (stage, folder) => {
    const [greedy, modest] = [await prepared(stage, 'greedy'), await prepared(stage, 'modest')];
    await greedy.sql(`
      CREATE FUNCTION data.grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..10000 LOOP
        INSERT INTO data.t SELECT repeat('x', 1000000); PERFORM pg_sleep(0.02); END LOOP; RETURN OLD; END $$;
      CREATE TRIGGER grow AFTER DELETE ON data.spare FOR EACH STATEMENT EXECUTE FUNCTION data.grow()`);
    await leave(RESERVE_MIB - 10, folder);
    await eventually('projects can only be read', async () => (await metric(stage, 'cdp_disk_read_only')) === 1);
    const deleted = await api(stage, greedy, 'POST', '/sql', { sql: 'DELETE FROM data.spare', timeout_ms: 60_000 });
    expect(deleted.status, deleted.text).toBe(503);
    const grew = () => stage.log().filter(({ msg }) => /it grew while/.test(String(msg)));
    expect(grew()).toMatchObject([{ project: 'greedy' }]);
    const refused = await greedy.sql('SELECT 1');
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([503, true]);
    expect(refused.text).toContain('was stopped because its data was growing while the disk was nearly full');
    // What the list says is what is on the disk, while it is stopped too.
    const files = await bytesIn(join(greedy.folder, 'data'), 'base/5');
    expect(files).toBeGreaterThan(RESERVE_MIB * MIB * 0.3);
    const { token } = await stage.service.engine.tokens.create(null);
    const list = await call(stage.service.url, 'GET', '/api/cdp/admin/projects', { token });
    const sizes = new Map(
      (list.body.projects as { name: string; size_bytes: number }[]).map((one) => [one.name, one.size_bytes]),
    );
    expect(sizes.get('greedy')).toBe(files);

    // Its neighbor keeps its reads, and may free space.
    const pid = await modest.pid();
    expectRefused(await modest.sql(`INSERT INTO data.t VALUES ('here')`));
    expect((await modest.sql('DELETE FROM data.spare')).status).toBe(200);
    expect((await modest.sql('TRUNCATE data.spare')).status).toBe(200);
    await stage.service.engine.projects.setQuota('modest', 1_000_000_000, BY_ITSELF);

    // After the pause it reads and drops, but runs no code of its own.
    await eventually('it reads again', async () => (await greedy.sql('SELECT 1')).status === 200);
    for (const again of [await greedy.sql('DELETE FROM data.spare'), await greedy.sql('TRUNCATE data.spare')]) {
      expectRefused(again);
      expect(again.text).toContain('this project has grown all the same');
    }
    expectRefused(await api(stage, greedy, 'DELETE', '/data/spare?by=s', [{ s: 'b' }]));
    expect((await greedy.sql('DROP TABLE data.t')).status).toBe(200);
    expect(grew()).toHaveLength(1);
    expect(await modest.pid()).toBe(pid);
    await rm(join(folder, 'ballast'));
    await eventually(
      'writes work again',
      async () => (await modest.sql(`INSERT INTO data.t VALUES ('here')`)).status === 200,
    );
    expect((await greedy.sql('TRUNCATE data.spare')).status).toBe(200);
  });
});

it('says that the file system is read-only, as Linux makes that of a damaged disk', async () => {
  const disk = await smallDisk();
  if (disk === null) return console.log('disk reserve: there is no right to mount a disk');
  const folder = dirname(disk.dataDir);
  try {
    expect(await isOnReadOnlyDisk(folder)).toBe(false);
    await promisify(execFile)('mount', ['-o', 'remount,ro', folder]);
    expect(await isOnReadOnlyDisk(folder)).toBe(true);
    expect(await examineDisk(folder, 0)).toMatchObject({ health: 'problem', found: 'its file system is read-only' });
  } finally {
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

it('only what has grown below half of the reserve, and since the last project was stopped, is stopped next', async () => {
  const disk = await smallDisk();
  if (disk === null) return console.log('disk reserve: there is no right to mount a disk');
  try {
    const folder = dirname(disk.dataDir);
    const candidate = (id: string) => ({ id, folders: [join(folder, id)] });
    const [early, greedy, modest] = [candidate('early'), candidate('greedy'), candidate('modest')];
    const grow = async (id: string, mib: number) => {
      await mkdir(join(folder, id), { recursive: true });
      await appendFile(join(folder, id, 'rows'), Buffer.alloc(mib * MIB));
    };
    const { bavail, bsize } = await statfs(folder);
    const free = bavail * bsize;
    // Below half of it after 40 MiB.
    const reserve = new DiskReserve(folder, 2 * (free - 40 * MIB), () => {});
    expect(await reserve.greatestGrowth([early, greedy, modest])).toBeNull();
    expect(reserve.isUsed).toBe(true);
    await grow('early', 39);
    expect(await reserve.greatestGrowth([early, greedy, modest])).toBeNull();
    await grow('modest', 1);
    // A sixteenth of the reserve is noticeable.
    const noticeable = Math.ceil((2 * (free - 40 * MIB)) / MIB / 16);
    await grow('greedy', noticeable);
    expect(await reserve.greatestGrowth([early, greedy, modest])).toMatchObject({ id: 'greedy' });
    expect(await reserve.greatestGrowth([early, modest])).toBeNull();
    await grow('modest', 1);
    expect(await reserve.greatestGrowth([early, modest])).toBeNull();
    await grow('modest', noticeable);
    expect(await reserve.greatestGrowth([early, modest])).toMatchObject({ id: 'modest' });
  } finally {
    await disk.close();
  }
});
