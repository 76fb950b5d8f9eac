/** What a killed service, a killed Postgres or a crashed machine leaves behind, and how a later start copes with it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exists } from '../../src/files.js';
import { removeLeftovers } from '../../src/embedded/lock-file.js';
import { processes } from '../../src/embedded/proc.js';
import type { ServerFolder } from '../../src/embedded/server-folder.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { makeFolder } from '../support/folder.js';
import {
  endEverything,
  eventually,
  firstToken,
  newDataDir,
  postmasterOf,
  postmastersIn,
  preparedDataDir,
  projectPostmaster,
  runProgram,
  serverOf,
  startServe,
} from '../support/program.js';
import { copyDataDir } from '../support/prepared-data-dir.js';
import { call } from '../support/service.js';
import { controlRows, openStage, processesOf, type Stage, type StageProject } from './stage.js';

afterAll(endEverything);

describe('the next start of a server', () => {
  let stage: Stage;
  let shop: StageProject;
  beforeEach(async () => {
    stage = await openStage({ 'idle-stop-ms': '1000' });
    shop = await stage.project('shop');
    await shop.sql('CREATE TABLE kept AS SELECT 42 AS n');
  });
  afterEach(() => stage.close());

  const lockFiles = () => ['data/postmaster.pid', 'socket/.s.PGSQL.5432.lock'].map((name) => join(shop.folder, name));

  /** Kills the server, and lets its lock files name another process. */
  async function killedWithPid(pid: number): Promise<void> {
    process.kill((await shop.pid()) ?? 0, 'SIGKILL');
    await eventually('its end is noticed', () => Promise.resolve(stage.running() === 0));
    for (const file of lockFiles()) {
      const content = await readFile(file, 'utf8');
      await writeFile(file, content.replace(/^\d+/, String(pid)));
    }
  }

  const findsItsRows = async () => expect((await shop.sql('SELECT n FROM kept')).body.rows).toEqual([{ n: 42 }]);

  /** Whoever runs it: another account's process cannot be signalled, which Postgres takes for a living one. */
  async function owner(): Promise<{ uid: number; gid: number }> {
    const { uid, gid } = await stat(join(shop.folder, 'data'));
    return { uid, gid };
  }

  it('ignores lock files with the PID of another program', async () => {
    const other = spawn('sleep', ['600'], { ...(await owner()), cwd: '/' });
    await killedWithPid(other.pid ?? 0);
    await findsItsRows();
    expect(other.exitCode, 'the other program is left alone').toBeNull();
    other.kill();
  });

  it('ignores lock files with the PID of a zombie', async () => {
    // The shell becomes another program, which never asks for the exit code of its child.
    const parent = spawn('sh', ['-c', 'sleep 600 & echo $!; exec sleep 600'], { ...(await owner()), cwd: '/' });
    const [output] = (await once(parent.stdout, 'data')) as [Buffer];
    const zombie = Number(output.toString());
    const proc = (pid: number, file: string) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '');
    await eventually('the shell is replaced', async () => (await proc(parent.pid ?? 0, 'comm')) === 'sleep\n');
    process.kill(zombie);
    await eventually('its child is a zombie', async () => (await proc(zombie, 'stat')).includes(') Z '));
    await killedWithPid(zombie);
    await findsItsRows();
    parent.kill();
  });

  it('ignores empty lock files', async () => {
    await killedWithPid(0);
    for (const file of lockFiles()) await writeFile(file, '');
    await findsItsRows();
  });
});

describe('an empty lock file', () => {
  it('is left to a postmaster that starts, and else removed', async () => {
    const root = makeFolder('cdp-lock-');
    const folder = { root, data: join(root, 'data'), socketDir: root, clusterName: 'none' } as ServerFolder;
    const lockFile = join(folder.data, 'postmaster.pid');
    await mkdir(folder.data);
    await writeFile(lockFile, '');
    // Its command line is that of a postmaster, which has no content of its lock file for a moment only.
    const starting = spawn('sh', ['-c', 'read end', 'postgres', '-D', folder.data, '-c', 'config_file=none']);
    await once(starting, 'spawn');
    expect([await removeLeftovers(folder), await exists(lockFile)]).toEqual([false, true]);
    starting.stdin.end();
    await once(starting, 'exit');
    expect([await removeLeftovers(folder), await exists(lockFile)]).toEqual([true, false]);
    await rm(root, { recursive: true });
  });
});

describe('the start of the control server', () => {
  it('is retried if the server that blocked it has just ended', async () => {
    const dataDir = await preparedDataDir();
    const control = join(dataDir, 'postgres/control');
    const { uid, gid } = await stat(join(control, 'data'));
    const other = spawn('sleep', ['600'], { uid, gid, cwd: '/' });
    const lockFile = join(control, 'data/postmaster.pid');
    await writeFile(lockFile, `${other.pid}\n`);

    const command = runProgram(['project', 'list', '--data-dir', dataDir]);
    const log = () => readFile(join(control, 'postgres.log'), 'utf8').catch(() => '');
    await eventually('it is refused', async () => (await log()).includes('already exists'));
    await rm(lockFile);
    expect(await command).toMatchObject({ code: 0, stderr: '' });
    other.kill();
  });
});

describe('a failed start of the service', () => {
  it('leaves no process', async () => {
    const stage = await openStage();
    await controlRows(stage.dataDir, 'ALTER TABLE cdp.projects RENAME TO misplaced');
    await stage.close();
    const folder = join(stage.dataDir, 'postgres');
    // A new one is built in the background.
    for (const name of (await readdir(folder)).filter((name) => name.startsWith('template-'))) {
      await rm(join(folder, name), { recursive: true });
    }
    await expect(openStage({}, stage.dataDir)).rejects.toThrow();
    expect(await processesOf(stage.dataDir)).toEqual([]);
  });
});

describe('deleting a project', () => {
  it('whose server was killed leaves no process and no folder', async () => {
    const stage = await openStage();
    const shop = await stage.project('shop');
    await shop.sql('SELECT 1');
    process.kill((await shop.pid()) ?? 0, 'SIGKILL');
    await eventually('its end is noticed', () => Promise.resolve(stage.running() === 0));

    await stage.service.engine.projects.delete('shop', BY_ITSELF);
    expect(await exists(shop.folder)).toBe(false);
    expect(await processesOf(shop.folder, shop.server)).toEqual([]);
    await stage.close();
  });
});

describe('kill -9 of the service', () => {
  it('with running servers: the next service adopts the control server, ends the others, and serves every project', async () => {
    const dataDir = await preparedDataDir();
    const service = await startServe(['--data-dir', dataDir]);
    const token = await firstToken(dataDir);
    const sql = (url: string, text: string) => call(url, 'POST', '/api/cdp/sql', { token, body: { sql: text } });
    await sql(service.url, 'CREATE TABLE kept AS SELECT 42 AS n');
    const id = await serverOf(dataDir);
    // A session that computes does not look whether its postmaster is there.
    const busy = sql(service.url, 'DO $$ BEGIN LOOP END LOOP; END $$').catch(() => null);
    const ours = new RegExp(`^postgres: cdp-${id}-\\w+: writer .* DO$`);
    await eventually('it computes', async () => (await processes()).some(({ command }) => ours.test(command)));
    const control = await postmasterOf(dataDir);
    const first = (await projectPostmaster(dataDir)) ?? 0;
    await service.end('SIGKILL');
    await busy;
    expect(await postmastersIn(dataDir)).toHaveLength(2);

    const second = await startServe(['--data-dir', dataDir]);
    expect(await postmasterOf(dataDir)).toBe(control);
    expect((await sql(second.url, 'SELECT n FROM kept')).body.rows).toEqual([{ n: 42 }]);
    expect(await projectPostmaster(dataDir)).not.toBe(first);

    // Service and postmaster at once: the busy session outlives both.
    const again = sql(second.url, 'DO $$ BEGIN LOOP END LOOP; END $$').catch(() => null);
    await eventually('it computes', async () => (await processes()).some(({ command }) => ours.test(command)));
    const pid = (await projectPostmaster(dataDir)) ?? 0;
    second.process.kill('SIGKILL');
    process.kill(pid, 'SIGKILL');
    await again;
    expect((await processes()).some(({ command }) => ours.test(command))).toBe(true);
    const third = await startServe(['--data-dir', dataDir]);
    expect((await sql(third.url, 'SELECT n FROM kept')).body.rows).toEqual([{ n: 42 }]);
    expect((await processes()).some(({ command }) => ours.test(command))).toBe(false);

    expect((await third.end()).code).toBe(0);
    expect(await processesOf(dataDir, id)).toEqual([]);
  });
});

describe('two data folders', () => {
  it('on one machine, one a copy of the other: recovery in one leaves the processes of the other alone', async () => {
    const stage = await openStage();
    const shop = await stage.project('shop');
    await shop.sql('SELECT 1');
    await stage.close();
    const copied = await newDataDir();
    await copyDataDir(stage.dataDir, copied);

    const first = await openStage({}, stage.dataDir);
    const second = await openStage({}, copied);
    const sql = ({ service }: Stage, text: string) =>
      call(service.url, 'POST', '/api/cdp/sql', { token: shop.token, body: { sql: text } });
    const working = sql(first, 'SELECT pg_sleep(6), 7 AS n');
    await sql(second, 'SELECT 1');
    const victims = [await postmasterOf(copied), await projectPostmaster(copied, 'shop')];
    for (const pid of victims) process.kill(pid ?? 0, 'SIGKILL');
    await eventually('the copy serves again', async () => (await sql(second, 'SELECT 1')).status === 200);
    expect((await working).body).toMatchObject({ rows: [{ n: 7 }] });
    expect(first.log().filter(({ msg }) => /unexpectedly/.test(String(msg)))).toEqual([]);
    await Promise.all([first.close(), second.close()]);
  });
});
