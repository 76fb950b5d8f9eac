/** The setting `postgres-bin`: the servers of a data folder run by the programs of Debian instead of the npm package's. */
import { chmod, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Finding } from '../../src/contract/wire/findings.js';
import type { Manifest } from '../../src/backup/manifest.js';
import { readProc } from '../../src/embedded/proc.js';
import { startAddedServer, variableWith } from '../support/added-server.js';
import { copyDataDir } from '../support/prepared-data-dir.js';
import {
  type Ended,
  endEverything,
  firstToken,
  newDataDir,
  newFolder,
  postmasterOf,
  preparedDataDir,
  projectPostmaster,
  runProgram,
  type RunningService,
  startServe,
  superuserOf,
} from '../support/program.js';
import { call } from '../support/service.js';
import { debianMajors, debianPrograms } from '../support/throwaway-postgres.js';

afterAll(endEverything);

const environment = (dataDir: string, bin: string | null) => ({
  env: { CDP_DATA_DIR: dataDir, ...(bin === null ? {} : { CDP_POSTGRES_BIN: bin }) },
});

const serve = (dataDir: string, bin: string | null): Promise<RunningService> =>
  startServe([], environment(dataDir, bin));

/** The refused start of a service. */
const refused = (dataDir: string, bin: string | null): Promise<Ended> =>
  runProgram(['serve', '--port', '0'], environment(dataDir, bin));

async function cdp(dataDir: string, bin: string | null, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runProgram(args, environment(dataDir, bin));
  if (code !== 0) throw new Error(stderr);
  return stdout;
}

/** @returns the rows, or the error */
async function ask(service: RunningService, token: string, sql: string): Promise<unknown> {
  const { body } = await call(service.url, 'POST', '/api/cdp/sql', { token, body: { sql } });
  return body.rows ?? body;
}

async function releaseOf(dataDir: string): Promise<string> {
  const client = new pg.Client(superuserOf(dataDir));
  await client.connect();
  const { rows } = await client.query<{ server_version: string }>('SHOW server_version');
  await client.end();
  return rows[0]?.server_version ?? '';
}

/** By code point. */
const ORDERED = ['Z', 'a', 'z', 'Ä', 'ä', '€', '😀'];

/** A folder with scripts that only print a version. */
async function scripts(version: string, ...names: string[]): Promise<string> {
  const folder = await newFolder();
  for (const name of names) {
    await writeFile(join(folder, name), `#!/bin/sh\necho '${name} (PostgreSQL) ${version}'\n`, { mode: 0o755 });
  }
  return folder;
}

describe.each(debianMajors())('by the programs of Postgres %i', (major) => {
  const bin = debianPrograms(major);
  let made: string;
  let token: string;

  beforeAll(async () => {
    made = await newDataDir();
    const service = await serve(made, bin);
    token = await firstToken(made);
    await ask(service, token, `CREATE TABLE t AS SELECT x FROM unnest(ARRAY['😀', 'ä', 'a', 'Ä', 'z', '€', 'Z']) x`);
    expect((await service.end()).code).toBe(0);
  });

  /** A copy of the data folder that {@link bin} has made. */
  async function copy(): Promise<string> {
    const dataDir = await newDataDir();
    await copyDataDir(made, dataDir);
    return dataDir;
  }

  describe('works:', () => {
    it('all servers run by them, and text is ordered, raised and matched as by the embedded 18', async () => {
      const dataDir = await copy();
      const service = await serve(dataDir, bin);
      expect(await releaseOf(dataDir)).toMatch(new RegExp(`^${major}\\.`));
      const facts = `SELECT current_setting('server_version_num')::int / 10000 AS major,
        array_agg(x ORDER BY x) AS ordered, upper('äß') AS upper, bool_and('Ä' ~* 'ä' AND 'Ä' ILIKE 'ä' AND 'ä' ~ '\\w') AS matched FROM t`;
      expect(await ask(service, token, facts)).toEqual([{ major, ordered: ORDERED, upper: 'Äß', matched: true }]);
      expect((await service.end()).code).toBe(0);
    });

    it("a project's server that was killed recovers with the next request", async () => {
      const dataDir = await copy();
      const service = await serve(dataDir, bin);
      await ask(service, token, `INSERT INTO t VALUES ('acknowledged')`);
      process.kill((await projectPostmaster(dataDir)) ?? 0, 'SIGKILL');
      await expect
        .poll(() => ask(service, token, `SELECT count(*)::int AS n FROM t WHERE x = 'acknowledged'`))
        .toEqual([{ n: 1 }]);
      expect((await service.end()).code).toBe(0);
    });

    it('a physical backup is restored, also to a moment after it', async () => {
      const dataDir = await copy();
      const service = await serve(dataDir, bin);
      await cdp(dataDir, bin, 'project', 'archive', 'default', 'on');
      const file = join(await newFolder(), 'file.cdp');
      const { projects } = JSON.parse(await cdp(dataDir, bin, 'backup', file, '--json')) as Manifest;
      expect(projects).toMatchObject([
        major >= 17
          ? { postgres: major, locale_provider: 'builtin', locale: 'C.UTF-8' }
          : { postgres: major, locale_provider: 'libc', locale: 'C, LC_CTYPE C.UTF-8' },
      ]);
      await ask(service, token, `INSERT INTO t VALUES ('before')`);
      const [row] = (await ask(service, token, 'SELECT clock_timestamp() AS at')) as { at: string }[];
      // A commit within the same microsecond would count as before.
      await sleep(5);
      await ask(service, token, `INSERT INTO t VALUES ('after')`);
      for (const [name, ...at] of [['as-saved'], ['at-moment', '--at', new Date(row?.at ?? '').toISOString()]]) {
        await cdp(dataDir, bin, 'restore', file, '--project', 'default', '--as', name ?? '', ...at);
      }
      const added = async (name: string) => {
        const { token: theirs } = JSON.parse(
          await cdp(dataDir, bin, 'token', 'create', '--project', name, '--json'),
        ) as { token: string };
        return ask(service, theirs, `SELECT x FROM t WHERE x IN ('before', 'after') ORDER BY x`);
      };
      expect([await added('as-saved'), await added('at-moment')]).toEqual([[], [{ x: 'before' }]]);
      expect((await service.end()).code).toBe(0);
    });

    it('a logical backup and its restore need no other programs', async () => {
      const dataDir = await copy();
      const file = join(await newFolder(), 'file.cdp');
      const saved = JSON.parse(await cdp(dataDir, bin, 'backup', file, '--format', 'logical', '--json')) as Manifest;
      expect(saved.projects).toMatchObject([{ postgres: major, pg_dump: major }]);
      const restored = await cdp(dataDir, bin, 'restore', file, '--project', 'default', '--as', 'copy');
      expect(restored).toBe('Project copy restored: 1 table, 7 rows\n');
    });

    it('a project moves to a server of 18, and not back', async () => {
      const [dataDir, other] = [await copy(), await startAddedServer(18)];
      const variable = variableWith(other.url);
      const { env } = environment(dataDir, bin);
      const service = await startServe([], { env: { ...env, [variable]: other.url } });
      await cdp(dataDir, bin, 'server', 'add', 'next', '--url-env', variable);
      await cdp(dataDir, bin, 'project', 'move', 'default', '--to', 'next');
      const facts = `SELECT current_setting('server_version_num')::int / 10000 AS major, array_agg(x ORDER BY x) AS ordered FROM t`;
      expect(await ask(service, token, facts)).toEqual([{ major: 18, ordered: ORDERED }]);
      const back = await runProgram(['project', 'move', 'default', '--to', 'default'], environment(dataDir, bin));
      expect([back.code, back.stderr]).toEqual([
        2,
        expect.stringContaining(`it lives on Postgres 18, and the target is ${major}`),
      ]);
      expect((await service.end()).code).toBe(0);
      await other.close();
    });

    it('a folder with only client programs leaves the servers to the npm package', async () => {
      const folder = await newFolder();
      for (const name of ['pg_dump', 'pg_restore']) await symlink(join(bin, name), join(folder, name));
      const dataDir = await preparedDataDir();
      const service = await serve(dataDir, folder);
      expect(await releaseOf(dataDir)).toMatch(/^18\./);
      expect((await service.end()).code).toBe(0);
    });

    it('an update of the same version replaces the control server that a killed service left; cdp doctor tells', async () => {
      const dataDir = await copy();
      const before = await serve(dataDir, bin);
      const release = await releaseOf(dataDir);
      const left = await postmasterOf(dataDir);
      await before.end('SIGKILL');
      const [folder, next] = [await newFolder(), release.replace(/.(?=\)$)/, '#')];
      expect(next).not.toBe(release);
      const install = async (name: string): Promise<void> => {
        const program = (await readFile(join(bin, name), 'latin1')).replaceAll(release, next);
        await writeFile(join(folder, 'new'), program, 'latin1');
        await chmod(join(folder, 'new'), 0o755);
        await rename(join(folder, 'new'), join(folder, name));
      };
      for (const name of ['initdb', 'postgres']) await install(name);

      const service = await serve(dataDir, folder);
      expect(await releaseOf(dataDir)).toBe(next);
      const control = (await postmasterOf(dataDir)) ?? 0;
      expect(control).not.toBe(left);
      expect(await ask(service, token, 'SELECT count(*)::int AS n FROM t')).toEqual([{ n: 7 }]);
      await cdp(dataDir, folder, 'project', 'create', 'new');
      const found = async (): Promise<Finding[]> => {
        const report = JSON.parse(await cdp(dataDir, folder, 'doctor', '--json')) as { findings: Finding[] };
        return report.findings.filter(({ subject }) => ['Postgres', 'programs', 'libraries'].includes(subject));
      };
      // Root in a container may not see what a process of another user has loaded.
      const isVisible = (await readProc(`${control}/maps`)) !== '';
      const libraries = (finding: object) => (isVisible ? [{ subject: 'libraries', ...finding }] : []);
      const programs = [
        { subject: 'Postgres', health: 'ok', found: next },
        { subject: 'programs', health: 'ok', found: folder },
      ];
      const versions = expect.stringMatching(/^OpenSSL \d+\.\d+\.\d+\w*, ICU \d+\.\d+$/) as string;
      expect(await found()).toMatchObject([...programs, ...libraries({ health: 'ok', found: versions })]);
      await install('postgres');
      expect(await found()).toMatchObject([
        ...programs,
        ...libraries({ health: 'warning', found: 'replaced while in use: postgres' }),
      ]);
      expect((await service.end()).code).toBe(0);
    });
  });

  describe('refuses', () => {
    it('data folders of another major, with the way out, and leaves them as they are', async () => {
      const advice = (of: number) => `Set postgres-bin to a folder with Postgres ${of}`;
      const [theirs, ours] = [await copy(), await preparedDataDir()];
      for (const [dataDir, wrong, right, of] of [
        [theirs, null, bin, major],
        [ours, bin, null, 18],
      ] as const) {
        const { code, stderr } = await refused(dataDir, wrong);
        expect([code, stderr]).toEqual([
          1,
          expect.stringContaining(`was made by Postgres ${of}, and the programs in `),
        ]);
        expect(stderr).toContain(advice(of));
        expect((await (await serve(dataDir, right)).end()).code).toBe(0);
      }
    });

    it('a physical backup of the embedded 18, and the other way round', async () => {
      const [theirs, ours] = [await copy(), await preparedDataDir()];
      expect((await (await serve(ours, null)).end()).code).toBe(0);
      for (const [from, fromBin, of, to, toBin, here] of [
        [theirs, bin, major, ours, null, 18],
        [ours, null, 18, theirs, bin, major],
      ] as const) {
        const file = join(await newFolder(), 'file.cdp');
        await cdp(from, fromBin, 'backup', file);
        const restore = ['restore', file, '--project', 'default', '--as', 'other'];
        const { code, stderr } = await runProgram(restore, environment(to, toBin));
        expect([code, stderr]).toEqual([
          2,
          expect.stringMatching(`with Postgres ${of}, and this is .* with Postgres ${here}`),
        ]);
        expect(await cdp(to, toBin, 'project', 'list')).not.toContain('other');
      }
    });

    it('to archive without the module for it, and says what to install', async () => {
      const dataDir = await copy();
      await writeFile(join(dataDir, 'postgres/local.conf'), `dynamic_library_path = '/nowhere'\n`);
      const service = await serve(dataDir, bin);
      const archive = (on: string) => runProgram(['project', 'archive', 'default', on], environment(dataDir, bin));
      const { code, stderr } = await archive('on');
      expect([code, stderr]).toEqual([2, expect.stringMatching(/lacks the module basic_archive.*postgresql-contrib/s)]);
      expect(await cdp(dataDir, bin, 'project', 'list')).toMatch(/^default .* off /m);
      expect(await ask(service, token, 'SELECT count(*)::int AS n FROM t')).toEqual([{ n: 7 }]);
      expect((await service.end()).code).toBe(0);
    });
  });
});

describe('refuses to start, and creates no database, with a folder', () => {
  const NEEDED = 'servers need initdb and postgres, logical backups pg_dump and pg_restore';
  const ALL = ['initdb', 'postgres', 'pg_dump', 'pg_restore'];

  it.each([
    ['without programs', () => newFolder(), `which has no programs of Postgres: ${NEEDED}`],
    ['that does not exist', () => Promise.resolve('/nowhere/bin'), `which has no programs of Postgres: ${NEEDED}`],
    [
      'without initdb',
      () => scripts('18.4', 'postgres', 'pg_dump', 'pg_restore'),
      `which has only postgres, pg_dump, pg_restore: ${NEEDED}`,
    ],
    ['without pg_restore', () => scripts('18.4', 'pg_dump'), `which has only pg_dump: ${NEEDED}`],
    ['of a major that is too old', () => scripts('14.19', ...ALL), 'which has Postgres 14.19: servers need 15 to 18'],
    [
      'of a major that is too new',
      () => scripts('19beta1 (Debian 19~beta1-1)', ...ALL),
      'which has Postgres 19beta1 (Debian 19~beta1-1): servers need 15 to 18',
    ],
    ['of other programs', () => scripts('', ...ALL), 'cannot run: postgres (PostgreSQL)'],
  ])('%s', async (_what, make, message) => {
    const [dataDir, bin] = [await newDataDir(), await make()];
    const { code, stderr } = await refused(dataDir, bin);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`cdp: The setting postgres-bin is ${bin}, `)]);
    expect(stderr).toContain(message);
    expect(await postmasterOf(dataDir)).toBeUndefined();
    await expect(readFile(join(dataDir, 'postgres/control/data/PG_VERSION'))).rejects.toThrow('ENOENT');
  });
});
