/**
 * A server of a project that crashes, hangs or does not start: which projects notice, what the log says, and how it
 * recovers.
 */
import { mkdir, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { processes } from '../../src/embedded/proc.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { sizesOf } from '../../src/engine/projects/choose-server.js';
import { endEverything, eventually, postmasterOf, superuserOfProject } from '../support/program.js';
import { expectFailure } from '../support/service.js';
import { controlRows, openStage, processesOf, type Stage, type StageProject } from './stage.js';

let stage: Stage;
let shop: StageProject;
let neighbour: StageProject;
beforeEach(async () => {
  stage = await openStage();
  [shop, neighbour] = [await stage.project('shop'), await stage.project('neighbour')];
});
afterEach(() => stage.close());
afterAll(endEverything);

const crashes = () => stage.log().filter(({ msg }) => /has ended unexpectedly$/.test(String(msg)));

const unreadable = () => stage.log().filter(({ msg }) => msg === "a project's files cannot be read");

const metricsOf = async ({ service }: Stage): Promise<string> => (await fetch(`${service.url}/metrics`)).text();

const auditedCrashes = () =>
  controlRows(stage.dataDir, `SELECT project, outcome FROM cdp.audit WHERE operation = 'project.crash'`);

/** Ends the backend of a statement that runs in a project. */
async function killBackend(project: string, signal: NodeJS.Signals): Promise<void> {
  const client = new pg.Client(await superuserOfProject(stage.dataDir, project));
  client.on('error', () => {});
  await client.connect();
  const pid = await eventually('the statement runs', async () => {
    const { rows } = await client.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()`,
    );
    return rows[0]?.pid;
  });
  process.kill(pid, signal);
  await client.end().catch(() => {});
}

describe('a crash', () => {
  it('affects only its project, is logged by name, and loses no acknowledged row', async () => {
    await shop.sql('CREATE TABLE kept AS SELECT 42 AS n');
    const untouched = neighbour.sql('SELECT pg_sleep(5), 7 AS n');
    const pid = await shop.pid();
    const broken = shop.sql('SELECT pg_sleep(50)');
    await killBackend('shop', 'SIGSEGV');
    expect((await broken).status).toBe(503);

    await eventually('it is back', async () => (await shop.sql('SELECT 1')).status === 200);
    expect((await shop.sql('SELECT n FROM kept')).body.rows).toEqual([{ n: 42 }]);
    expect(await shop.pid()).not.toBe(pid);
    expect((await untouched).body).toMatchObject({ rows: [{ n: 7 }] });
    await eventually('the log names it', () => Promise.resolve(crashes().length > 0));
    expect(crashes()).toMatchObject([{ project: 'shop', reason: 'client backend was terminated by signal 11' }]);
    await eventually('the audit log names it', async () => (await auditedCrashes()).length > 0);
    expect(await auditedCrashes()).toMatchObject([{ project: 'shop' }]);
  });

  it('that repeats leads to growing pauses, with 503 and Retry-After', async () => {
    const pauses: number[] = [];
    while ((pauses.at(-1) ?? 0) < 1_000) {
      await eventually('it runs', async () => (await shop.sql('SELECT 1')).status === 200);
      const before = crashes().length;
      process.kill((await shop.pid()) ?? 0, 'SIGKILL');
      await eventually('the end is noticed', () => Promise.resolve(crashes().length > before));
      pauses.push(Number(crashes().at(-1)?.pauseMs));
    }
    expect(pauses).toEqual([0, 250, 500, 1_000]);
    const refused = await shop.sql('SELECT 1');
    expectFailure(refused, 503, 'database_unavailable');
    expect(refused.headers.get('retry-after')).toBe('1');
    expect((await neighbour.sql('SELECT 1')).status).toBe(200);
    await eventually('it is back by itself', async () => (await shop.sql('SELECT 1')).status === 200);
  });

  it('of the postmaster leaves no backend running, and the server starts again', async () => {
    await shop.sql('SELECT 1');
    const busy = shop.sql('DO $$ BEGIN LOOP END LOOP; END $$');
    const ours = (command: string) =>
      command.startsWith(`postgres: cdp-${shop.server}-`) && command.includes(': writer ');
    const computes = () => processes().then((all) => all.find(({ command }) => ours(command)));
    const backend = await eventually('it computes', async () => {
      const found = await computes();
      return found?.command.endsWith('DO') === true && found.pid;
    });
    process.kill((await shop.pid()) ?? 0, 'SIGKILL');
    await eventually('the backend is ended', async () => !(await processes()).some(({ pid }) => pid === backend));
    expect((await busy).status).toBe(503);
    expect((await shop.sql('SELECT 1')).status).toBe(200);
  });
});

describe('files that cannot be read', () => {
  it('a log: the crash ends nothing but its project, which starts again once the log is a file', async () => {
    await eventually('it runs', async () => (await shop.sql('SELECT 1')).status === 200);
    const log = join(shop.folder, 'postgres.log');
    await rename(log, `${log}.old`);
    await mkdir(log);
    await eventually('it is reported', () => Promise.resolve(unreadable().length > 0));
    expect(unreadable()).toMatchObject([
      { project: 'shop', level: 50, error: expect.stringContaining('EISDIR') as string },
    ]);
    process.kill((await shop.pid()) ?? 0, 'SIGKILL');
    await eventually('the end is noticed', () => Promise.resolve(crashes().length > 0));
    expect(crashes()).toMatchObject([{ project: 'shop', reason: 'ended by SIGKILL' }]);
    expectFailure(await shop.sql('SELECT 1'), 503, 'database_unavailable');
    await eventually('the neighbor is served', async () => (await neighbour.sql('SELECT 1')).status === 200);
    expect(await metricsOf(stage)).toMatch(/^cdp_projects_not_starting 1$/m);
    expect(await metricsOf(stage)).toMatch(/^cdp_project_crashes_total [2-9]$/m);
    await rmdir(log);
    await eventually('it is back', async () => (await shop.sql('SELECT 1')).status === 200);
    expect(await metricsOf(stage)).toMatch(/^cdp_projects_not_starting 0$/m);
  });

  it('a lock file: the server is not left running, and starts again once it is a file', async () => {
    const lock = join(shop.folder, 'data/postmaster.pid');
    await mkdir(lock);
    expectFailure(await shop.sql('SELECT 1'), 503, 'database_unavailable');
    await eventually('the neighbor is served', async () => (await neighbour.sql('SELECT 1')).status === 200);
    await eventually('none is left', async () => (await processesOf(shop.folder, shop.server)).length === 0);
    await rmdir(lock);
    await eventually('it starts', async () => (await shop.sql('SELECT 1')).status === 200);
  });

  it('a folder: idle servers of other projects are still stopped', async () => {
    const short = await openStage({ 'idle-stop-ms': '1000' });
    const [damaged, whole] = [await short.project('damaged'), await short.project('whole')];
    await eventually('both run', async () => {
      const replies = await Promise.all([damaged.sql('SELECT 1'), whole.sql('SELECT 1')]);
      return replies.every(({ status }) => status === 200);
    });
    const data = join(damaged.folder, 'data');
    await rename(data, `${data}.away`);
    const isDamagedIdle = damaged.sql('SELECT pg_sleep(25)');
    await eventually('the other is stopped', async () => (await whole.pid()) === undefined);
    await rename(`${data}.away`, data);
    await isDamagedIdle;
    await short.close();
  });
});

describe('the size of a project', () => {
  it('is that of its files after a crash', async () => {
    const bytes = async () => {
      const { engine } = stage.service;
      return (
        (await sizesOf(engine.servers, await engine.projects.list())).get((await engine.projects.get('shop')).id) ?? 0
      );
    };
    await eventually('it runs', async () => (await shop.sql('SELECT 1')).status === 200);
    const before = await bytes();
    const grown = await shop.sql(
      `CREATE TABLE big AS SELECT repeat(md5(n::text), 60) AS t FROM generate_series(1, 10000) n`,
    );
    expect(grown.status).toBe(200);
    process.kill((await shop.pid()) ?? 0, 'SIGKILL');
    await eventually('the end is noticed', () => Promise.resolve(crashes().length > 0));
    expect(stage.service.engine.servers.defaultTenancy.runningServers).toBeLessThan(2);
    expect(await bytes()).toBeGreaterThan(before + 2_000_000);
  });
});

describe('a server that does not start', () => {
  it("because of an operator's setting: only its project gets 503, the log says why, and it starts once fixed", async () => {
    const settings = join(shop.folder, 'local.conf');
    await writeFile(settings, 'no_such_setting = 1\n');
    expectFailure(await shop.sql('SELECT 1'), 503, 'database_unavailable');
    await eventually('the log names it', () => Promise.resolve(crashes().length === 1));
    expect(crashes()).toMatchObject([{ project: 'shop' }]);
    expect(String(crashes()[0]?.reason)).toContain('no_such_setting');
    expect((await neighbour.sql('SELECT 1')).status).toBe(200);
    await rm(settings);
    expect((await shop.sql('SELECT 1')).status).toBe(200);
  });

  it('and hangs delays neither other projects nor the end of the service', async () => {
    // A standby replays for ever.
    await writeFile(join(shop.folder, 'data/standby.signal'), '', { mode: 0o644 });
    await writeFile(join(shop.folder, 'local.conf'), "hot_standby = off\nrestore_command = 'false'\n");
    const waiting = shop.sql('SELECT 1');
    await eventually('it recovers', () => shop.pid());
    expect((await neighbour.sql('SELECT 1')).status).toBe(200);
    expectFailure(await waiting, 503, 'database_unavailable');
    expect(await shop.pid()).toBeGreaterThan(0);
    await stage.close();
    expect(await processesOf(stage.dataDir, shop.server, neighbour.server)).toEqual([]);
    expect(crashes()).toEqual([]);
  });

  it('is deleted with its project while it is still starting', async () => {
    await writeFile(join(shop.folder, 'data/standby.signal'), '', { mode: 0o644 });
    await writeFile(join(shop.folder, 'local.conf'), "hot_standby = off\nrestore_command = 'false'\n");
    const waiting = shop.sql('SELECT 1');
    await eventually('it recovers', () => shop.pid());
    await stage.service.engine.projects.delete('shop', BY_ITSELF);
    expect((await waiting).status).toBeGreaterThanOrEqual(400);
    expect(await processesOf(shop.folder, shop.server)).toEqual([]);
  });
});

describe('the control server', () => {
  it('starts again after a kill, and the projects continue meanwhile', async () => {
    await shop.sql('CREATE TABLE kept AS SELECT 42 AS n');
    const going = shop.sql('SELECT pg_sleep(4), n FROM kept');
    const pid = (await postmasterOf(stage.dataDir)) ?? 0;
    process.kill(pid, 'SIGKILL');
    await eventually('it is back', async () => {
      const now = await postmasterOf(stage.dataDir);
      return now !== undefined && now !== pid;
    });
    expect((await going).body).toMatchObject({ rows: [{ n: 42 }] });
    await eventually('new projects can be made', () =>
      stage.project('late').then(
        ({ sql }) => sql('SELECT 1').then(({ status }) => status === 200),
        () => false,
      ),
    );
    expect((await shop.sql('SELECT n FROM kept')).body.rows).toEqual([{ n: 42 }]);
  });
});
