/**
 * `cdp backup` and `cdp restore` as programs: what they print and leave behind, killed halfway, on a full disk, and in
 * pipes.
 */
import { execFileSync, spawn } from 'node:child_process';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { findPrograms } from '../../src/backup/logical/client-programs.js';
import { createDatabase, type TestDatabase, type TestServer, testServers } from '../support/postgres.js';
import {
  endEverything,
  eventually,
  firstToken,
  newDataDir,
  preparedDataDir,
  newFolder,
  projectRoot,
  runProgram,
  startProgram,
  startServe,
  type Surroundings,
} from '../support/program.js';
import { call, onServer } from '../support/service.js';
import { strays, watchPlacements } from '../support/strays.js';

const places = { folder: null, path: process.env.PATH ?? '' };
const servers: TestServer[] = [];
for (const server of testServers()) {
  const found = await findPrograms(places, server.major).then(
    () => true,
    () => false,
  );
  if (found) servers.push(server);
}

afterAll(endEverything);

describe.each(servers.map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let control: TestDatabase;
  let operator: Surroundings;
  let folder: string;
  let token: string;

  beforeAll(async () => {
    control = await createDatabase(server);
    folder = await newFolder();
    const { host, port, user, password, database } = control.connection;
    const url = `postgres://${user}:${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
    const dataDir = await newDataDir();
    operator = { env: { DATABASE_URL: url, CDP_SECRET: 's'.repeat(32), CDP_DATA_DIR: dataDir, TMPDIR: folder } };
    await cdp('project', 'create', 'shop');
    ({ token } = JSON.parse(await cdp('token', 'create', '--project', 'shop', '--json')) as { token: string });
    await cdp('project', 'create', 'other');
    await watchPlacements(server, control.name);
    await inProject('shop', 'CREATE TABLE data.t AS SELECT i, md5(i::text) FROM generate_series(1, 20000) i');
    await giveToWriter('shop', 't');
  });
  afterAll(async () => {
    for (const name of await names()) await cdp('project', 'delete', name, '--yes');
    const { rows } = await inControl('SELECT id FROM cdp.instance');
    await onServer(server, (client) => client.query(`DROP DATABASE cdp_template_${String(rows[0]?.id)}`));
    await control.drop();
  });
  afterEach(async () => {
    // No program leaves anything in the folder for temporary files, unless it was killed.
    for (const name of await readdir(folder))
      if (name.startsWith('cdp-')) await rm(join(folder, name), { recursive: true });
  });

  const inControl = (text: string) =>
    onServer(server, (client) => client.query<Record<string, unknown>>(text), control.name);

  async function databaseOf(name: string): Promise<Record<'database_name' | 'writer_role', string>> {
    const { rows } = await inControl(`SELECT database_name, writer_role FROM cdp.projects WHERE name = '${name}'`);
    return rows[0] as Record<'database_name' | 'writer_role', string>;
  }

  const inProject = async (name: string, text: string) =>
    onServer(server, (client) => client.query<Record<string, unknown>>(text), (await databaseOf(name)).database_name);

  const giveToWriter = async (name: string, table: string) =>
    inProject(name, `ALTER TABLE data.${table} OWNER TO ${(await databaseOf(name)).writer_role}`);

  const names = async () =>
    (await inControl('SELECT name FROM cdp.projects ORDER BY 1')).rows.map(({ name }) => String(name));

  async function cdp(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await runProgram(args, operator);
    if (code !== 0) throw new Error(stderr);
    return stdout;
  }

  /** Keeps whoever dumps the project waiting. */
  async function locked<T>(name: string, work: () => Promise<T>): Promise<T> {
    const client = new pg.Client({ ...server.connection, database: (await databaseOf(name)).database_name });
    await client.connect();
    try {
      await client.query('BEGIN; LOCK TABLE _cdp.idempotency_keys IN ACCESS EXCLUSIVE MODE');
      return await work();
    } finally {
      await client.end();
    }
  }

  describe('works:', () => {
    it('saves, deletes and restores while the service runs; the old token works again', async () => {
      const service = await startServe([], operator);
      const file = join(folder, 'shop.cdp');
      const { code, stdout, stderr } = await runProgram(['backup', file, '--project', 'shop'], operator);
      expect([code, stdout]).toEqual([0, `1 project saved in ${file}\n- shop: 1 table, 20000 rows\n`]);
      expect(stderr).toMatch(/^shop: saving\nshop: 1 table, 20000 rows, \d+ bytes\n$/);
      const count = () =>
        call(service.url, 'POST', '/api/cdp/sql', { token, body: { sql: 'SELECT count(*)::int AS n FROM t' } });
      expect((await count()).body.rows).toEqual([{ n: 20_000 }]);
      await cdp('project', 'delete', 'shop', '--yes');
      await expect.poll(async () => (await count()).status).toBe(401);
      expect(await cdp('restore', file)).toBe('Project shop restored: 1 table, 20000 rows\n');
      await expect.poll(async () => (await count()).body.rows).toEqual([{ n: 20_000 }]);
      expect((await service.end()).code).toBe(0);
    });

    it('prints JSON for programs', async () => {
      const file = join(folder, 'json.cdp');
      expect(JSON.parse(await cdp('backup', file, '--json'))).toMatchObject({
        format: 'cdp-backup',
        projects: [{ name: 'other' }, { name: 'shop', tables: [{ name: 't', rows: 20_000 }] }],
        left_out: [],
      });
      const restored = await cdp('restore', file, '--project', 'shop', '--as', 'shop-2', '--json');
      expect(JSON.parse(restored)).toEqual({
        projects: [
          { name: 'shop-2', tables: [{ name: 't', rows: 20_000 }], left_out: [], damage: null, not_archived: null },
        ],
        failed: [],
      });
      await cdp('project', 'delete', 'shop-2', '--yes');
    });

    it('works in pipes, and leaves nothing in the temporary folder', async () => {
      const file = join(folder, 'piped.cdp');
      const start = (args: string[], stdio: ('pipe' | 'ignore')[]) => {
        const env = { PATH: process.env.PATH ?? '', ...operator.env };
        const child = spawn(process.execPath, [join(projectRoot, 'dist/cli/bin.js'), ...args], { env, stdio });
        return { child, code: new Promise((resolve) => child.on('close', resolve)) };
      };
      const saving = start(['backup', '-', '--project', 'shop'], ['ignore', 'pipe', 'ignore']);
      await pipeline(saving.child.stdout as Readable, createWriteStream(file));
      expect(await saving.code).toBe(0);
      const loading = start(['restore', '-', '--project', 'shop', '--as', 'piped'], ['pipe', 'ignore', 'ignore']);
      await pipeline(createReadStream(file), loading.child.stdin as Writable);
      expect(await loading.code).toBe(0);
      expect((await inProject('piped', 'SELECT count(*)::int AS n FROM data.t')).rows).toEqual([{ n: 20_000 }]);
      expect((await readdir(folder)).filter((name) => name.startsWith('cdp-'))).toEqual([]);
      await cdp('project', 'delete', 'piped', '--yes');
    });
  });

  describe('protects:', () => {
    it('a backup killed halfway leaves no file of that name, and the next backup succeeds', async () => {
      const file = join(folder, 'killed.cdp');
      await locked('shop', async () => {
        const running = startProgram(['backup', file], operator);
        await eventually(
          'the first project is through, the second waits',
          async () => (await readdir(folder)).some((name) => name.startsWith('killed.cdp.')) && (await waiting()) > 0,
        );
        await running.end('SIGKILL');
      });
      const [left] = (await readdir(folder)).filter((name) => name.startsWith('killed.'));
      expect(left).toMatch(/^killed\.cdp\..+-\d+-[0-9a-f]{8}\.part$/);
      expect((await stat(join(folder, left ?? ''))).mode & 0o777).toBe(0o600);
      const { stderr } = await runProgram(['restore', join(folder, left ?? '')], operator);
      expect(stderr).toMatch(/cannot be restored\. It (is incomplete|is not a backup|has no)/);
      await cdp('backup', file);
      expect(await strays(server, control.name)).toEqual([]);
    });

    it('a backup ended by SIGTERM halfway leaves nothing', async () => {
      const file = join(folder, 'ended.cdp');
      await locked('shop', async () => {
        const running = startProgram(['backup', file], operator);
        await eventually('it waits for the lock', async () => (await waiting()) > 0);
        const { code, stderr } = await running.end('SIGTERM');
        expect(code).toBe(1);
        expect(stderr).toContain('cdp: Interrupted by SIGTERM; nothing incomplete is left behind');
      });
      expect((await readdir(folder)).filter((name) => name.startsWith('ended.'))).toEqual([]);
      expect(await strays(server, control.name)).toEqual([]);
    });

    const waiting = async () =>
      (
        await onServer(server, (client) =>
          client.query(`SELECT FROM pg_stat_activity WHERE application_name = 'pg_dump' OR application_name LIKE 'cdp backup%'
            AND wait_event_type = 'Lock'`),
        )
      ).rows.length;

    describe('halfway through a restore', () => {
      let file: string;
      beforeAll(async () => {
        await cdp('project', 'create', 'slow');
        const { writer_role: writer } = await databaseOf('slow');
        await inProject(
          'slow',
          `CREATE FUNCTION data.ok(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN true; END $$;
           CREATE TABLE data.t (a int CHECK (data.ok(a))); INSERT INTO data.t VALUES (1);
           CREATE OR REPLACE FUNCTION data.ok(int) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_sleep(30); RETURN true; END $$;
           ALTER FUNCTION data.ok OWNER TO ${writer}; ALTER TABLE data.t OWNER TO ${writer}`,
        );
        file = join(folder, 'slow.cdp');
        await cdp('backup', file, '--project', 'slow');
        await cdp('project', 'delete', 'slow', '--yes');
      });

      const started = async () => {
        const running = startProgram(['restore', file], operator);
        await eventually('it loads the rows', async () => {
          const { rows } = await onServer(server, (client) =>
            client.query(`SELECT FROM pg_stat_activity WHERE query LIKE 'COPY data.t %' AND state = 'active'`),
          );
          return rows.length > 0;
        });
        return running;
      };

      it('kill -9 leaves a partial project that serves nobody, and the next command removes it', async () => {
        await (await started()).end('SIGKILL');
        expect((await inControl(`SELECT status FROM cdp.projects WHERE name = 'slow'`)).rows).toEqual([
          { status: 'creating' },
        ]);
        expect(await cdp('project', 'list')).not.toContain('slow');
        expect(await strays(server, control.name)).toEqual([]);
        expect(await names()).toEqual(['other', 'shop']);
      });

      it('SIGTERM removes the partial project at once', async () => {
        const { code, stderr } = await (await started()).end('SIGTERM');
        expect([code, stderr]).toEqual([1, expect.stringContaining('Interrupted by SIGTERM')]);
        expect(await strays(server, control.name)).toEqual([]);
        expect(await names()).toEqual(['other', 'shop']);
      });
    });

    it('a full disk ends a backup with a message and leaves no file', async () => {
      const disk = join(folder, 'disk');
      await mkdir(disk);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', disk]);
      try {
        const { code, stdout, stderr } = await runProgram(['backup', join(disk, 'full.cdp')], operator);
        expect([code, stdout]).toEqual([1, '']);
        expect(stderr).toMatch(/cdp: ENOSPC: no space left on device/);
        expect(await readdir(disk)).toEqual([]);
      } finally {
        execFileSync('umount', [disk]);
      }
    });

    it('an existing file is not overwritten', async () => {
      const file = join(folder, 'there');
      await writeFile(file, 'mine');
      const { code, stderr } = await runProgram(['backup', file], operator);
      expect([code, stderr]).toEqual([1, `cdp: ${file} already exists; a backup overwrites nothing\n`]);
      expect(await readFile(file, 'utf8')).toBe('mine');
    });
  });
});

describe('with the embedded Postgres and without its programs', () => {
  it('backup and restore say what to install, and change nothing', async () => {
    const dataDir = await preparedDataDir();
    const [folder, programs] = [await newFolder(), await newFolder()];
    for (const name of ['pg_dump', 'pg_restore']) {
      await writeFile(join(programs, name), `#!/bin/sh\necho '${name} (PostgreSQL) 17.6'\n`, { mode: 0o755 });
    }
    const options = ['--format', 'logical', '--data-dir', dataDir, '--postgres-bin', programs];
    const { code, stdout, stderr } = await runProgram(['backup', join(folder, 'file'), ...options]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^cdp: pg_dump and pg_restore of version 18 or later are needed.*postgresql-client-18.*\n$/);
    expect(await readdir(folder)).toEqual([]);
  });
});

describe('the project that the first start created', () => {
  async function started() {
    const dataDir = await preparedDataDir();
    const operator = { env: { CDP_DATA_DIR: dataDir, TMPDIR: await newFolder() } };
    const service = await startServe([], operator);
    const token = await firstToken(dataDir);
    const sql = (text: string, of = token) =>
      call(service.url, 'POST', '/api/cdp/sql', { token: of, body: { sql: text } });
    return { operator, service, token, sql };
  }

  it('is replaced by a restore of all projects if it has not been used, and otherwise kept', async () => {
    const source = await started();
    expect((await source.sql('CREATE TABLE t AS SELECT 42 AS n')).status).toBe(200);
    const file = join(await newFolder(), 'all.cdp');
    expect((await runProgram(['backup', file], source.operator)).code).toBe(0);
    await source.service.end();

    const target = await started();
    const one = await runProgram(['restore', file, '--project', 'default'], target.operator);
    expect([one.code, one.stderr]).toEqual([1, expect.stringContaining('already exists: "default"')]);
    const all = await runProgram(['restore', file], target.operator);
    expect([all.code, all.stdout]).toEqual([0, 'Project default restored\n']);
    expect(all.stderr).toContain(
      'default: removed; the first start of the service had created it, and nobody had used it\n',
    );
    await expect.poll(async () => (await target.sql('SELECT 1')).status, { timeout: 10_000 }).toBe(401);
    expect((await target.sql('SELECT n FROM t', source.token)).body.rows).toEqual([{ n: 42 }]);
    const again = await runProgram(['restore', file], target.operator);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('already exists: "default"')]);
    await target.service.end();

    const used = await started();
    expect((await used.sql('CREATE TABLE mine (a int)')).status).toBe(200);
    const refused = await runProgram(['restore', file], used.operator);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('already exists: "default"')]);
    expect((await used.sql('SELECT a FROM mine')).body.rows).toEqual([]);
    await used.service.end();
  });
});
