/**
 * Which process owns a data folder, as its admin socket shows: services and commands at once, killed ones, other users,
 * long paths.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, lstat, readdir, readFile, readlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runsAsRoot } from '../../src/embedded/accounts.js';
import {
  endEverything,
  eventually,
  newDataDir,
  newFolder,
  postmasterOf,
  preparedDataDir,
  programFor,
  runProgram,
  startProgram,
  startServe,
} from '../support/program.js';
import { call } from '../support/service.js';

let dataDir: string;
let socket: string;
beforeAll(async () => {
  dataDir = await preparedDataDir();
  socket = join(dataDir, 'admin.sock');
  await succeed('project', 'create', 'shop');
});
afterAll(endEverything);

const run = (...args: string[]) => runProgram([...args, '--data-dir', dataDir]);

async function succeed(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(...args);
  expect([code, stderr], args.join(' ')).toEqual([0, '']);
  return stdout;
}

const serve = () => startServe(['--data-dir', dataDir]);

async function nothingIsLeft(): Promise<void> {
  expect(await postmasterOf(dataDir)).toBeUndefined();
  expect((await readdir(dataDir)).filter((name) => name.startsWith('admin.sock'))).toEqual([]);
}

/** Programs in the place of Postgres's that are of the right version and do not come to an end. */
let programs: string;
let marker: string;
beforeEach(async () => {
  programs = await newFolder();
  marker = join(programs, 'pid');
  for (const name of ['pg_dump', 'pg_restore']) {
    const script = `#!/bin/sh
if [ "$1" = --version ]; then echo "${name} (PostgreSQL) 18.4"; exit; fi
echo $$ > ${marker}.new && mv ${marker}.new ${marker}
exec sleep 1000
`;
    await writeFile(join(programs, name), script);
    await chmod(join(programs, name), 0o755);
  }
});

/** A backup that has begun and goes on until it is ended. @returns it, and the process id of its pg_dump */
async function endlessBackup() {
  const file = join(programs, 'file.cdp');
  const command = startProgram([
    'backup',
    file,
    '--format',
    'logical',
    '--postgres-bin',
    programs,
    '--data-dir',
    dataDir,
  ]);
  await eventually('pg_dump runs', () => Promise.resolve(existsSync(marker)));
  return { command, pid: Number(await readFile(marker, 'utf8')) };
}

const partsLeft = async () => (await readdir(programs)).filter((name) => name.startsWith('file.cdp'));

async function isGone(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat === '' || stat.includes(') Z ');
}

describe('next to a running service', () => {
  it('no other user can open the socket, which has mode 600', async () => {
    const service = await serve();
    const { mode } = await lstat(socket);
    expect(mode & 0o777).toBe(0o600);
    if (runsAsRoot()) {
      const stranger = await programFor({ uid: 65_534, gid: 65_534 }, await newFolder());
      const { code, stdout, stderr } = await runProgram(['project', 'list', '--data-dir', dataDir], stranger);
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toContain(`${socket} cannot be opened. Run this as the user of the service, or as root`);
    }
    expect((await service.end()).code).toBe(0);
    await nothingIsLeft();
  });

  it.each(['SIGKILL', 'SIGTERM'] as const)('a backup is aborted if its command gets %s', async (signal) => {
    const service = await serve();
    const { command, pid } = await endlessBackup();
    expect(await partsLeft()).toHaveLength(1);
    const { stderr } = await command.end(signal);
    if (signal === 'SIGTERM') expect(stderr).toContain('cdp: Interrupted by SIGTERM');
    await eventually('pg_dump has ended', () => isGone(pid));
    await eventually('the file is gone', async () => (await partsLeft()).length === 0);
    await succeed('project', 'list');
    expect((await service.end()).code).toBe(0);
    await nothingIsLeft();
  });

  it('a stop aborts a backup after --shutdown-ms, and the command says so', async () => {
    const service = await startServe(['--data-dir', dataDir, '--shutdown-ms', '200']);
    const { command, pid } = await endlessBackup();
    expect((await service.end()).code).toBe(0);
    const { code, stderr } = await command.ended;
    expect([code, stderr]).toEqual([1, expect.stringContaining('The service stopped before it responded')]);
    expect([await isGone(pid), await partsLeft()]).toEqual([true, []]);
    await nothingIsLeft();
  });

  it('a command that arrives during a stop is served by the service, or by itself afterward', async () => {
    for (let round = 0; round < 3; round++) {
      const service = await serve();
      const ending = service.end();
      const commands: Promise<string>[] = [];
      for (let delay = 0; delay < 400; delay += 100) {
        commands.push(succeed('project', 'list'));
        await sleep(100);
      }
      for (const listed of await Promise.all(commands)) expect(listed).toContain('shop');
      expect((await ending).code).toBe(0);
      await nothingIsLeft();
    }
  });
});

describe('after kill -9 of the service', () => {
  it('a command takes over what the service left, and so does the next service', async () => {
    const service = await serve();
    await service.end('SIGKILL');
    expect(existsSync(socket)).toBe(true);
    expect(await succeed('project', 'list')).toContain('shop');
    await nothingIsLeft();

    await (await serve()).end('SIGKILL');
    const next = await serve();
    expect(await succeed('project', 'list')).toContain('shop');
    expect((await next.end()).code).toBe(0);
    await nothingIsLeft();
  });
});

describe('without a service', () => {
  it('a command serves other commands meanwhile, and a service waits for it', async () => {
    const { command } = await endlessBackup();
    const postmaster = await postmasterOf(dataDir);
    expect(await succeed('project', 'list')).toContain('shop');
    expect(await postmasterOf(dataDir)).toBe(postmaster);

    const starting = serve();
    const early = await Promise.race([starting, succeed('project', 'create', 'other')]);
    expect(early).toBe('Project other created\n');
    const { code, stderr } = await command.end('SIGTERM');
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('Interrupted by SIGTERM; nothing incomplete is left behind'),
    ]);
    expect(await partsLeft()).toEqual([]);
    const service = await starting;
    expect((await call(service.url, 'GET', '/readyz')).status).toBe(200);
    expect((await service.end()).code).toBe(0);
    await nothingIsLeft();
  });

  it('a service that has waited too long for a command says what blocks it', async () => {
    const { command } = await endlessBackup();
    const { code, stderr } = await runProgram(['serve', '--port', '0', '--data-dir', dataDir]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^cdp: cdp backup \(process \d+\) is using this data folder\./m);
    await command.end('SIGTERM');
    await nothingIsLeft();
  });

  it('a command names the process that owns the folder and does not respond', async () => {
    const { command } = await endlessBackup();
    execFileSync('rm', [socket]);
    const { code, stdout, stderr } = await run('project', 'list');
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain(`cdp backup (process ${command.process.pid}) is using this data folder`);
    await command.end('SIGTERM');
    await nothingIsLeft();
  });
});

describe('in a folder whose path is too long for a socket', () => {
  it('the socket is in a private temporary folder, which is removed by the service or by the next one', async () => {
    dataDir = await newDataDir('a'.repeat(90));
    socket = join(dataDir, 'admin.sock');
    const first = await serve();
    const target = await readlink(socket);
    expect((await lstat(dirname(target))).mode & 0o777).toBe(0o700);
    expect(await succeed('project', 'list')).toContain('default');
    await first.end('SIGKILL');
    const second = await serve();
    expect(existsSync(dirname(target))).toBe(false);
    expect(await succeed('project', 'list')).toContain('default');
    const other = await readlink(socket);
    expect((await second.end()).code).toBe(0);
    expect(existsSync(dirname(other))).toBe(false);
    expect(await succeed('project', 'list')).toContain('default');
    await nothingIsLeft();
  });
});
