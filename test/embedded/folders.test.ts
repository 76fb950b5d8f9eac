/** Where the embedded servers are, who owns their folders, and which data folders are refused. */
import { chown, lstat, mkdir, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { runsAsRoot, ownAccount, run } from '../../src/embedded/accounts.js';
import { ProjectAccounts } from '../../src/embedded/project-accounts.js';
import { UidRegistry } from '../../src/embedded/uid-registry.js';
import { SYSTEM_FOLDER } from '../../src/embedded/embedded-folder.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import {
  endEverything,
  firstToken,
  newDataDir,
  newFolder,
  postmasterOf,
  programFor,
  projectPostmaster,
  runProgram,
  serverOf,
  startServe,
} from '../support/program.js';
import { copyPreparedDataDir } from '../support/prepared-data-dir.js';
import { call } from '../support/service.js';
import { controlRows, openStage, type Stage, uidRange } from './stage.js';

let stage: Stage | null = null;
afterEach(async () => {
  await stage?.close();
  stage = null;
});
afterAll(endEverything);

const modeOf = async (path: string): Promise<number> => (await lstat(path)).mode & 0o777;

const SETTINGS = [
  'data_checksums',
  'fsync',
  'listen_addresses',
  'dynamic_shared_memory_type',
  'restart_after_crash',
  'wal_segment_size',
];

describe('a server', () => {
  it('sorts by code point, uses page checksums, listens only on a socket and reveals nothing of its sessions', async () => {
    stage = await openStage();
    const shop = await stage.project('shop');
    const shown = `SELECT ${SETTINGS.map((name) => `current_setting('${name}') AS ${name}`).join(', ')}`;
    const [row] = (await shop.sql(shown)).body.rows as Record<string, string>[];
    expect(row).toMatchObject({ data_checksums: 'on', listen_addresses: '', dynamic_shared_memory_type: 'mmap' });
    expect(row).toMatchObject({ restart_after_crash: 'off', wal_segment_size: '1MB' });
    const sorted = await shop.sql("SELECT string_agg(s, '' ORDER BY s) AS s FROM unnest('{a,B,ä,Z}'::text[]) AS s");
    expect(sorted.body.rows).toEqual([{ s: 'BZaä' }]);

    await shop.sql('CREATE TABLE people (email text PRIMARY KEY)');
    const insert = "INSERT INTO people VALUES ('ann@example.org')";
    await shop.sql(insert);
    expect((await shop.sql(insert)).status).toBe(409);
    expect((await shop.sql("SELECT 'ann@example.org'::int")).status).toBe(400);
    await stage.close();
    const log = await readFile(join(shop.folder, 'postgres.log'), 'utf8');
    expect(log).toContain('database system is ready');
    expect(log).not.toMatch(/ann@|people|INSERT/);
  });

  it('has folders that no other user can enter, and a log of mode 600', async () => {
    stage = await openStage();
    const shop = await stage.project('shop');
    await shop.sql('SELECT 1');
    expect(await modeOf(join(shop.folder, 'data'))).toBe(0o700);
    expect(await modeOf(join(shop.folder, 'socket'))).toBe(0o700);
    expect(await modeOf(join(shop.folder, 'postgres.log'))).toBe(0o600);
  });

  it('below a long path with unusual characters has its socket in a private folder under /tmp while it exists', async () => {
    const dataDir = await newDataDir(`it's, a "quoted" \\ öne`, 'x'.repeat(80));
    await mkdir(dirname(dataDir), { recursive: true, mode: 0o711 });
    await copyPreparedDataDir(dataDir);
    stage = await openStage({}, dataDir);
    const shop = await stage.project('shop').catch(() => null);
    // The test's own look into the control database does not know the place of the socket.
    expect(shop).toBeNull();
    const { engine } = stage.service;
    const { id, placement } = await engine.projects.get('shop');
    const { token } = await engine.tokens.create(id);
    const response = await call(stage.service.url, 'POST', '/api/cdp/sql', { token, body: { sql: 'SELECT 1 AS n' } });
    expect(response.body.rows).toEqual([{ n: 1 }]);
    const config = await readFile(join(dataDir, 'postgres/projects', placement.server, 'postgresql.conf'), 'utf8');
    const folder = /unix_socket_directories = '"(\/tmp\/cdp-.*)"'/.exec(config)?.[1] ?? '';
    expect(await modeOf(folder)).toBe(0o700);
    await engine.projects.delete('shop', BY_ITSELF);
    await expect(lstat(folder)).rejects.toThrow('ENOENT');
    await stage.close();
    await rm(join(folder, '../../..'), { recursive: true });
  });
});

describe('refuses', () => {
  it('a data folder of an earlier layout, and names it', async () => {
    const dataDir = await newDataDir();
    await mkdir(join(dataDir, 'postgres/data'), { recursive: true });
    await writeFile(join(dataDir, 'postgres/data/PG_VERSION'), '18\n');
    const serve = ['serve', '--port', '0', '--data-dir', dataDir];
    const { code, stderr } = await runProgram(serve);
    expect(code).toBe(1);
    expect(stderr).toContain(dataDir);
    expect(stderr).toMatch(/made by an earlier version.*`cdp backup`/);
    const byNpm = await runProgram(serve, { env: { npm_command: 'exec' } });
    expect(byNpm.stderr).toContain('`npx cdp-data-engine backup`');
  });

  it('a data folder of another major version of Postgres', async () => {
    const dataDir = await newDataDir();
    await copyPreparedDataDir(dataDir);
    await writeFile(join(dataDir, 'postgres/control/data/PG_VERSION'), '17\n');
    const { code, stderr } = await runProgram(['serve', '--port', '0', '--data-dir', dataDir]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('was made by Postgres 17')]);
    expect(await postmasterOf(dataDir)).toBeUndefined();
  });
});

if (runsAsRoot()) {
  describe('run by root', () => {
    it('each project, including the first, has its own user ID from the range, and none can read the files of another', async () => {
      const [first, last] = uidRange(3);
      stage = await openStage({ 'project-uids': `${first}-${last}` });
      const [a, b] = [await stage.project('a'), await stage.project('b')];
      expect([(await a.sql('SELECT 1')).status, (await b.sql('SELECT 1')).status]).toEqual([200, 200]);
      const uids = await Promise.all([a, b].map(async ({ folder }) => (await lstat(join(folder, 'data'))).uid));
      expect(new Set(uids).size).toBe(2);
      for (const uid of uids) expect(first <= uid && uid <= last).toBe(true);
      for (const { pid, folder } of [a, b]) {
        const status = await readFile(`/proc/${await pid()}/status`, 'utf8');
        expect(/^Uid:\s+(\d+)/m.exec(status)?.[1]).toBe(String((await lstat(join(folder, 'data'))).uid));
      }
      const own = (await lstat(join(a.folder, 'data'))).uid;
      const as = { uid: own, gid: own };
      const reads = async (path: string) => (await run(as, '/bin/sh', ['-c', 'ls "$1" >/dev/null', 'sh', path])).code;
      expect(await reads(join(a.folder, 'data'))).toBe(0);
      for (const path of ['data', 'socket']) expect(await reads(join(b.folder, path)), path).not.toBe(0);
      expect(await reads(join(stage.dataDir, 'postgres/control/data'))).not.toBe(0);
      const secret = await run(as, '/bin/sh', ['-c', 'cat "$1"', 'sh', join(b.folder, 'postgres.log')]);
      expect(secret.code).not.toBe(0);

      await expect(stage.project('c'), 'the range is used up').rejects.toThrow();
      expect(await controlRows(stage.dataDir, 'SELECT 1 FROM cdp.projects WHERE name = $$c$$')).toEqual([]);
      await stage.service.engine.projects.delete('a', BY_ITSELF);
      const { folder } = await stage.project('d');
      expect((await lstat(join(folder, 'data'))).uid).toBe(own);
    });

    it('servers created at the same moment get different user IDs', async () => {
      const folder = await newFolder();
      const range = { first: 52_000, last: 52_009 };
      const accounts = new ProjectAccounts(range, folder, new UidRegistry(join(folder, 'registry')));
      const taken = await Promise.all(['a', 'b', 'c'].map((server) => accounts.take(server)));
      expect(taken.map(({ uid }) => uid).sort()).toEqual([52_000, 52_001, 52_002]);
    });

    it('the servers of an ordinary user stay with that user', async () => {
      const nobody = { uid: 65_534, gid: 65_534 };
      const dataDir = await newDataDir();
      await chown(dirname(dataDir), nobody.uid, nobody.gid);
      const first = await startServe(['--data-dir', dataDir], await programFor(nobody, await newFolder()));
      const token = await firstToken(dataDir);
      const ask = (url: string) =>
        call(url, 'POST', '/api/cdp/sql', { token, body: { sql: 'SELECT 1 AS n' } }).then(({ body }) => body.rows);
      expect(await ask(first.url)).toEqual([{ n: 1 }]);
      expect((await first.end()).code).toBe(0);

      const asRoot = await startServe(['--data-dir', dataDir]);
      expect(await ask(asRoot.url)).toEqual([{ n: 1 }]);
      const pid = await projectPostmaster(dataDir);
      expect(/^Uid:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]).toBe('65534');
      const data = join(dataDir, 'postgres/projects', await serverOf(dataDir), 'data');
      expect((await lstat(data)).uid).toBe(nobody.uid);
      expect((await asRoot.end()).code).toBe(0);
    });

    it('a data folder that only root can enter is served from an accessible place, and is not changed', async () => {
      const dataDir = await newDataDir('private');
      await mkdir(dirname(dataDir), { mode: 0o700 });
      const service = await startServe(['--data-dir', dataDir]);
      const token = await firstToken(dataDir);
      const response = await call(service.url, 'POST', '/api/cdp/sql', { token, body: { sql: 'SELECT 1 AS n' } });
      expect(response.body.rows).toEqual([{ n: 1 }]);
      const link = join(dataDir, 'postgres');
      const { stdout } = await service.end();
      expect((await lstat(link)).isSymbolicLink()).toBe(true);
      expect(stdout).toContain(SYSTEM_FOLDER);
      expect(await modeOf(dirname(dataDir))).toBe(0o700);
      await rm(await realpath(link), { recursive: true });
    });
  });
}

it('a program such as initdb is in its own process group, which Ctrl-C in the terminal does not reach', async () => {
  const { output } = await run(ownAccount(), '/bin/sh', ['-c', 'echo $$; cut -d " " -f 5 /proc/$$/stat']);
  const [pid, group] = output.trim().split('\n');
  expect(group).toBe(pid);
});
