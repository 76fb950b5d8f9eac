/**
 * Backup and restore with Postgres's own programs, on every server of the test run that has matching programs on the
 * machine.
 */
import { limitsOf } from '../../src/engine/access/append-keys.js';
import { mkdtempSync, rmSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { copyFile, open, readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { messageOf } from '../../src/contract/errors.js';
import { backup } from '../../src/backup/backup.js';
import { restore, type RestoreOptions } from '../../src/backup/restore.js';
import { findPrograms } from '../../src/backup/logical/client-programs.js';
import type pg from 'pg';
import type { Placement } from '../../src/tenancy/placement.js';
import { VERSION } from '../../src/version.js';
import { describeAccess, makeAccess, rowsSeen } from '../support/access.js';
import { description, EVERYTHING, ROWS } from '../support/everything.js';
import { makeFolder } from '../support/folder.js';
import { clearAway, dropDatabase, embeddedServer, type TestServer, testServers } from '../support/postgres.js';
import { strays, watchPlacements } from '../support/strays.js';
import {
  call,
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestService,
} from '../support/service.js';

const programSearch = { folder: null, path: process.env.PATH ?? '' };
const signal = new AbortController().signal;
const silent = () => undefined;

const folder = makeFolder('cdp-backup-');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type SaveOptions = { projectName?: string; signal?: AbortSignal; jobs?: number };

const save = (service: TestService, name: string, more: SaveOptions = {}) =>
  backup(service.engine.backupServices(BY_ITSELF), {
    file: join(folder, name),
    projectName: null,
    programSearch,
    form: null,
    jobs: 1,
    signal,
    progress: silent,
    ...more,
  });

const load = (service: TestService, name: string, more: Partial<RestoreOptions> = {}) =>
  restore(service.engine.backupServices(BY_ITSELF), {
    file: join(folder, name),
    projectName: null,
    as: null,
    at: null,
    missing: false,
    placementRequest: {},
    programSearch,
    signal,
    progress: silent,
    ...more,
  });

/** A copy of the good backup with another manifest. */
async function repacked(name: string, change: (text: string) => string): Promise<string> {
  const place = mkdtempSync(join(folder, 'repack-'));
  execFileSync('tar', ['-xf', join(folder, 'all.cdp'), '-C', place]);
  const manifest = join(place, 'manifest.json');
  await writeFile(manifest, change(await readFile(manifest, 'utf8')));
  const names = ['projects/full.dump', 'projects/full.list', 'projects/small.dump', 'projects/small.list'];
  const members = [...names, 'control.json', 'manifest.json'];
  execFileSync('sh', ['-c', `sha256sum ${members.join(' ')} > SHA256SUMS`], { cwd: place });
  execFileSync('tar', ['--format=ustar', '-cf', join(folder, name), ...members, 'SHA256SUMS'], { cwd: place });
  return name;
}

/** A copy of the good backup with other contents of one member. */
async function altered(name: string, member: string, change: (content: Buffer) => Buffer): Promise<string> {
  const place = mkdtempSync(join(folder, 'alter-'));
  execFileSync('tar', ['-xf', join(folder, 'all.cdp'), '-C', place]);
  await writeFile(join(place, member), change(await readFile(join(place, member))));
  const members = execFileSync('tar', ['-tf', join(folder, 'all.cdp')])
    .toString()
    .split('\n')
    .slice(0, -2);
  execFileSync('sh', ['-c', `sha256sum ${members.join(' ')} > SHA256SUMS`], { cwd: place });
  execFileSync('tar', ['--format=ustar', '-cf', join(folder, name), ...members, 'SHA256SUMS'], { cwd: place });
  return name;
}

/** The backup as earlier versions made it, whose dump alone has policies and rights. */
function asEarlier(name: string, project: string): string {
  const place = mkdtempSync(join(folder, 'earlier-'));
  execFileSync('tar', ['-xf', join(folder, name), '-C', place]);
  const members = [`projects/${project}.dump`, `projects/${project}.list`, 'control.json', 'manifest.json'];
  execFileSync('sh', ['-c', `sha256sum ${members.join(' ')} > SHA256SUMS`], { cwd: place });
  execFileSync('tar', ['--format=ustar', '-cf', join(folder, `earlier-${name}`), ...members, 'SHA256SUMS'], {
    cwd: place,
  });
  return `earlier-${name}`;
}

/** A refusal leaves the projects as they were, and nothing else of the installation's on the server. */
const inventory = async ({ engine, server, database }: TestService) => ({
  projects: await engine.projects.list(),
  strays: await strays(server, database),
});

async function startWatched(server: TestServer): Promise<TestService> {
  const service = await startTestService({}, server);
  await watchPlacements(server, service.database);
  return service;
}

async function describeProject(service: TestService, name: string) {
  const { placement } = await service.engine.projects.get(name);
  return onServer(service.server, description, placement.database);
}

const servers: TestServer[] = [];
for (const server of testServers()) {
  const found = await findPrograms(programSearch, server.major).then(
    () => true,
    () => false,
  );
  if (found) servers.push(server);
}

describe.each(servers.map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let source: TestService;
  let target: TestService;
  let full: TestProject;
  let small: TestProject;
  let keyed: Record<string, string>;

  beforeAll(async () => {
    [source, target] = await Promise.all([startWatched(server), startWatched(server)]);
    full = await source.project('full');
    for (const text of EVERYTHING) await full.rows(text);
    await full.table('customers', { email: 'TEXT' });
    keyed = { 'idempotency-key': 'k-1' };
    const response = await full.call('POST', '/api/cdp/data/customers', { body: [{ email: 'a' }], headers: keyed });
    expect(response.status).toBe(201);
    small = await source.project('small');
    await small.table('t', { a: 'TEXT' });
    await source.engine.projects.setActive('small', false, BY_ITSELF);
    await source.engine.projects.setQuota('small', 123_456_789, BY_ITSELF);
    await source.engine.projects.setOwnSchemas('small', false, BY_ITSELF);
    await save(source, 'all.cdp');
  });
  afterAll(async () => {
    await Promise.all([source.close(), target.close()]);
  });

  describe('works:', () => {
    it('a project with one of everything comes back equal; its tokens, status and Idempotency-Keys still work', async () => {
      expect(await target.engine.control.isFirstStart()).toBe(true);
      const { projects, failed } = await load(target, 'all.cdp');
      expect(failed).toEqual([]);
      // No first project is created beside those of the backup.
      expect(await target.engine.control.isFirstStart()).toBe(false);
      expect(projects.map(({ name, left_out: leftOut }) => [name, leftOut])).toEqual([
        ['full', []],
        ['small', []],
      ]);
      expect(projects[0]?.tables).toContainEqual({ name: 'big', rows: ROWS });
      expect(projects[0]?.tables).toContainEqual({ name: 'drizzle.migrations', rows: 2 });
      expect(await describeProject(target, 'full')).toEqual(await describeProject(source, 'full'));

      const [before, after] = await Promise.all([source, target].map(({ engine }) => engine.projects.get('full')));
      expect(after).toMatchObject({ status: 'active', createdAt: before?.createdAt });
      expect(after?.placement.database).not.toBe(before?.placement.database);
      expect(await target.engine.projects.get('small')).toMatchObject({ status: 'inactive', quotaBytes: 123_456_789 });
      expect(after?.quotaBytes).toBeNull();
      expect(
        [after, await target.engine.projects.get('small')].map((project) => project?.placement.ownSchemas),
      ).toEqual([true, false]);
      expectFailure(await target.call('GET', '/api/cdp/schema', { token: small.token }), 403, 'cdp_inactive');

      const repeat = { token: full.token, body: [{ email: 'a' }], headers: keyed };
      const repeated = await target.call('POST', '/api/cdp/data/customers', repeat);
      expect([repeated.status, repeated.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
      const inserted = await target.call('POST', '/api/cdp/data/customers', { ...repeat, headers: {} });
      expect(inserted.status).toBe(201);
      const read = { token: full.token, body: { sql: 'SELECT count(*)::int AS n FROM customers', read_only: true } };
      expect((await target.call('POST', '/api/cdp/sql', read)).body.rows).toEqual([{ n: 2 }]);
      expect((await target.engine.projects.repair('full', BY_ITSELF)).repaired).toEqual([]);
    });

    it('restores one of several projects under another name and without its tokens, next to the original', async () => {
      const { projects } = await load(source, 'all.cdp', { projectName: 'full', as: 'copy' });
      expect(projects.map(({ name }) => name)).toEqual(['copy']);
      expect(await describeProject(source, 'copy')).toEqual(await describeProject(source, 'full'));
      const { id } = await source.engine.projects.get('copy');
      expect(await source.engine.tokens.list(id)).toEqual([]);
      await source.engine.projects.delete('copy', BY_ITSELF);
    });

    it('leaves nothing to repair, also for a project that may not create schemas', async () => {
      const { engine } = target;
      for (const name of ['full', 'small']) {
        expect(await engine.projects.examine(await engine.projects.get(name)), name).toEqual([]);
      }
    });

    it('restores names with spaces, quotes, semicolons and line breaks', async () => {
      const names = ['a b', 'DATA', 'x; "y"\n-- z', "it's", 'TABLE DATA'].map(
        (name) => `"${name.replaceAll('"', '""')}"`,
      );
      const odd = names[2] ?? '';
      const project = await source.project('names');
      await project.rows('CREATE SCHEMA other');
      for (const schema of ['data', 'other']) {
        for (const table of names) {
          await project.rows(`CREATE TABLE ${schema}.${table} (n int); INSERT INTO ${schema}.${table} VALUES (1)`);
        }
        await project.rows(`CREATE POLICY ${odd} ON ${schema}.${odd} USING (true);
          COMMENT ON POLICY ${odd} ON ${schema}.${odd} IS 'p';
          CREATE MATERIALIZED VIEW ${schema}.${odd.replace('x', 'v')} AS SELECT n FROM ${schema}.${odd}`);
      }
      await save(source, 'names.cdp', { projectName: 'names' });
      const before = await describeProject(source, 'names');
      for (const file of ['names.cdp', asEarlier('names.cdp', 'names')]) {
        const { projects } = await load(target, file, { projectName: 'names', as: 'names-new' });
        expect(projects).toMatchObject([{ left_out: [] }]);
        expect(await describeProject(target, 'names-new')).toEqual(before);
        await target.engine.projects.delete('names-new', BY_ITSELF);
      }
      await source.engine.projects.delete('names', BY_ITSELF);
    });

    it('restores the quarantine of a dump whose version had it as a table', async () => {
      const project = await source.project('old-quarantine');
      await project.table('t', { n: 'INTEGER' });
      await project.call('POST', '/api/cdp/data/t?on_error=quarantine', { body: [{ n: 1 }, { n: 'x' }, { n: 'y' }] });
      const records =
        'SELECT id, quarantined_at, table_name, record, errors, idempotency_key FROM _cdp.quarantine ORDER BY 1';
      const before = await project.rows(records);
      expect(before).toHaveLength(2);
      const { placement } = await source.engine.projects.get('old-quarantine');
      await onServer(
        server,
        (client) =>
          client.query(`DROP VIEW _cdp.quarantine; DROP FUNCTION _cdp.insert_quarantined(), _cdp.may_read(name, text);
            ALTER TABLE _cdp.quarantined RENAME TO quarantine; GRANT SELECT ON _cdp.quarantine TO PUBLIC`),
        placement.database,
      );
      const { databaseSetup: databases } = source.engine.backupServices(BY_ITSELF);
      const untouched = vi.spyOn(databases, 'restoreRights').mockResolvedValue([] as never);
      await save(source, 'old-quarantine.cdp', { projectName: 'old-quarantine' });
      untouched.mockRestore();
      const list = execFileSync('tar', ['-xOf', join(folder, 'old-quarantine.cdp'), 'projects/old-quarantine.list']);
      expect(list.toString()).toMatch(/TABLE DATA _cdp quarantine /);
      await load(target, 'old-quarantine.cdp', { projectName: 'old-quarantine' });
      const restored = await target.found('old-quarantine');
      expect(await restored.rows(records)).toEqual(before);
      expect(await restored.rows('SELECT count(*) AS n FROM _cdp.quarantined')).toEqual([{ n: 2 }]);
      await source.engine.projects.delete('old-quarantine', BY_ITSELF);
    });

    it('restores only the missing projects of several, and nothing if none is missing', async () => {
      const service = await startWatched(server);
      try {
        await load(service, 'all.cdp', { projectName: 'small' });
        const before = await service.engine.projects.get('small');
        const { projects } = await load(service, 'all.cdp', { missing: true });
        expect(projects.map(({ name }) => name)).toEqual(['full']);
        expect(await service.engine.projects.get('small')).toEqual(before);
        expect(await load(service, 'all.cdp', { missing: true })).toEqual({ projects: [], failed: [] });
      } finally {
        await service.close();
      }
    });

    it('restores a backup of format 1, which contains only dumps', async () => {
      const name = await repacked('first.cdp', (text) => {
        const { projects, ...manifest } = JSON.parse(text) as { projects: Record<string, unknown>[] };
        const { postgres, pg_dump } = projects[0] as { postgres: number; pg_dump: number };
        for (const project of projects) {
          expect(project.kind).toBe('logical');
          for (const key of ['kind', 'postgres', 'pg_dump']) delete project[key];
        }
        return JSON.stringify({ ...manifest, format_version: 1, postgres, pg_dump, projects });
      });
      const { projects } = await load(target, name, { projectName: 'full', as: 'first' });
      expect(projects[0]?.tables).toContainEqual({ name: 'big', rows: ROWS });
      await target.engine.projects.delete('first', BY_ITSELF);
    });

    it('a revoked token stays revoked, and a token keeps its scope, limits and expiry', async () => {
      const project = await source.project('tokens');
      const { tokens } = source.engine;
      const limited = await tokens.create(project.id, { scopes: ['sql:read'], expiresAt: new Date(Date.now() + 9e6) });
      const scopes = ['data:append'] as const;
      await tokens.create(project.id, { scopes, limits: limitsOf(scopes, { tables: ['a'], rows_per_day: 5 }) });
      const revoked = await tokens.create(project.id);
      await tokens.revoke(revoked.details.id, {}, BY_ITSELF);
      const listed = await tokens.list(project.id);
      await save(source, 'tokens.cdp', { projectName: 'tokens' });
      await load(target, 'tokens.cdp');
      const { id } = await target.engine.projects.get('tokens');
      const restored = await target.engine.tokens.list(id);
      const byId = (rows: typeof restored) => Object.fromEntries(rows.map((token) => [token.id, token]));
      expect(byId(restored.map((token) => ({ ...token, projectId: project.id })))).toEqual(byId(listed));
      const ask = (token: string) => target.call('POST', '/api/cdp/sql', { token, body: { sql: 'SELECT 1 AS n' } });
      expect((await ask(limited.token)).status).toBe(200);
      expectFailure(await ask(revoked.token), 401, 'unauthorized');
    });

    it('writes a file of mode 600 that tar and sha256sum can read, and that contains no passwords or tokens', async () => {
      const file = join(folder, 'all.cdp');
      expect((await stat(file)).mode & 0o777).toBe(0o600);
      const unpacked = mkdtempSync(join(folder, 'unpacked-'));
      execFileSync('tar', ['-xf', file, '-C', unpacked]);
      expect(execFileSync('sha256sum', ['-c', 'SHA256SUMS'], { cwd: unpacked }).toString()).toContain('full.dump: OK');
      expect(await readdir(join(unpacked, 'projects'))).toEqual(
        ['full', 'small'].flatMap((name) => [`${name}.access`, `${name}.dump`, `${name}.list`]),
      );
      const manifest = JSON.parse(await readFile(join(unpacked, 'manifest.json'), 'utf8')) as object;
      const kind = { kind: 'logical', postgres: server.major };
      expect(manifest).toMatchObject({
        format: 'cdp-backup',
        format_version: 2,
        program_version: VERSION,
        projects: [kind, kind],
        left_out: [],
      });
      const bytes = await readFile(file);
      const { writer, reader } = (await source.engine.projects.get('full')).placement;
      const tenancy = source.engine.servers.defaultTenancy;
      for (const secret of [full.token, tenancy.password(writer), tenancy.password(reader), 'SCRAM-SHA-256']) {
        expect(bytes.includes(secret)).toBe(false);
      }
    });

    it('writes an audit log entry for each saved or restored project', async () => {
      const entries = async ({ engine, database }: TestService, operation: string) => {
        await engine.audit.flush();
        const { rows } = await onServer(
          server,
          (client) =>
            client.query<{ project: string }>('SELECT project FROM cdp.audit WHERE operation = $1', [operation]),
          database,
        );
        return rows.map(({ project }) => project);
      };
      expect(await entries(source, 'project.backup')).toEqual(expect.arrayContaining(['full', 'small', 'tokens']));
      expect(await entries(target, 'project.restore')).toEqual(expect.arrayContaining(['full', 'small', 'tokens']));
    });

    it('leaves no roles behind', async () => {
      expect(await inventory(source)).toMatchObject({ strays: [] });
    });

    it('saves one moment, keys and rows together, while records are inserted', async () => {
      const project = await source.project('busy');
      await project.table('t', { n: 'INTEGER' });
      let stop = false;
      const writer = (async () => {
        for (let n = 0; !stop; n++) {
          const headers = { 'idempotency-key': `key-${n}` };
          await project.call('POST', '/api/cdp/data/t', { body: [{ n }], headers });
        }
      })();
      await save(source, 'busy.cdp', { projectName: 'busy' });
      stop = true;
      await writer;
      await load(target, 'busy.cdp');
      const { placement } = await target.engine.projects.get('busy');
      const { rows } = await onServer(
        server,
        (client) =>
          client.query(
            `SELECT (SELECT count(*) FROM data.t) AS rows, (SELECT count(*) FROM _cdp.idempotency_keys) AS keys`,
          ),
        placement.database,
      );
      expect((rows[0] as { rows: string }).rows).toBe((rows[0] as { keys: string }).keys);
    });
  });

  describe('refuses, and changes nothing:', () => {
    async function refused(work: () => Promise<unknown>, message: RegExp, service = target) {
      const before = await inventory(service);
      await expect(work()).rejects.toThrow(message);
      expect(before.strays).toEqual([]);
      expect(await inventory(service)).toEqual(before);
    }

    /** A copy of the good backup, spoilt. */
    async function spoilt(name: string, spoil: (file: string) => Promise<unknown>): Promise<string> {
      await copyFile(join(folder, 'all.cdp'), join(folder, name));
      await spoil(join(folder, name));
      return name;
    }

    it('a project that already exists', () =>
      refused(() => load(source, 'all.cdp'), /already exists: "full", "small"/, source));

    it('tokens that already belong to another project', async () => {
      const service = await startWatched(server);
      try {
        await load(service, 'all.cdp', { projectName: 'small' });
        await service.engine.projects.delete('small', BY_ITSELF);
        const { id } = await service.engine.projects.create('other');
        const [token] = (await source.engine.control.tokens.ofProject(small.id)) as [never];
        await service.engine.control.tokens.insert({ ...(token as object), projectId: id } as never, null);
        await refused(() => load(service, 'all.cdp', { projectName: 'small' }), /Tokens of the backup belong/, service);
      } finally {
        await service.close();
      }
    });

    it('a project that the backup does not contain', () =>
      refused(
        () => load(target, 'all.cdp', { projectName: 'nobody' }),
        /no project "nobody".*it contains full, small/,
      ));

    it('a new name without a project, and an invalid name', async () => {
      await refused(() => load(target, 'all.cdp', { as: 'x' }), /--as renames one project/);
      await refused(() => load(target, 'all.cdp', { projectName: 'small', as: 'X y' }), /not a valid project name/);
    });

    it('a file that is cut off at any place', async () => {
      const { size } = await stat(join(folder, 'all.cdp'));
      for (const at of [0, 100, 512, 5_000, Math.floor(size / 2), size - 1_024, size - 512, size - 1]) {
        const name = await spoilt('cut.cdp', (file) => truncate(file, at));
        await refused(() => load(target, name), /cut\.cdp cannot be restored\. It (is incomplete|is not a backup)/);
      }
    });

    it('a file with one wrong byte at any place', async () => {
      const { size } = await stat(join(folder, 'all.cdp'));
      for (const part of [0.0001, 0.2, 0.5, 0.8, 0.99]) {
        const name = await spoilt('bit.cdp', async (file) => {
          const handle = await open(file, 'r+');
          const at = Math.floor(size * part);
          const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, at);
          buffer[0] = (buffer[0] ?? 0) ^ 0x10;
          await handle.write(buffer, 0, 1, at);
          await handle.close();
        });
        await refused(() => load(target, name, { as: null }), /It (is damaged|has no|is not|is incomplete)|already/);
      }
    });

    it('a file that is not a backup', async () => {
      await writeFile(join(folder, 'text'), 'not a backup\n'.repeat(1_000));
      await refused(() => load(target, 'text'), /It is not a backup of cdp/);
      execFileSync('tar', ['-cf', join(folder, 'foreign.tar'), '-C', '/etc', 'passwd']);
      await refused(() => load(target, 'foreign.tar'), /It (is not a backup of cdp|has no SHA256SUMS)/);
      await refused(() => load(target, 'missing'), /ENOENT/);
    });

    it('a backup of a newer format, a newer server or a newer program', async () => {
      const newer = await repacked('newer.cdp', (text) => text.replace('"format_version": 2', '"format_version": 3'));
      await refused(() => load(target, newer), /format 3, and this program supports 2: use a newer one/);
      const later = await repacked('later.cdp', (text) => text.replace(/"postgres": \d+/g, '"postgres": 99'));
      const fresh = { projectName: 'small', as: 'fresh' };
      await refused(() => load(target, later, fresh), /made on Postgres 99, and this is/);
      const schema = await repacked('schema.cdp', (text) =>
        text.replace(/"schema_version": \d+/, '"schema_version": 99'),
      );
      await refused(() => load(target, schema, fresh), /made by a newer program/);
    });

    it('a project with extensions that new projects would not have', async () => {
      const name = await repacked('ext.cdp', (text) => text.replaceAll('"extensions": []', '"extensions": ["hstore"]'));
      await refused(
        () => load(target, name, { projectName: 'small', as: 'fresh' }),
        /extensions .*hstore.*CDP_EXTENSIONS/,
      );
    });

    it('row counts that differ from the manifest, and removes the project again', async () => {
      const name = await repacked('rows.cdp', (text) => text.replace(`"rows": ${ROWS}`, `"rows": ${ROWS + 1}`));
      await refused(
        () => load(target, name, { projectName: 'full', as: 'fresh' }),
        /do not have the same number of rows/,
      );
    });

    it('a dump that fails halfway: removes that project again, and restores the others', async () => {
      const bad = await source.project('bad');
      await bad.rows('CREATE TABLE allowed (a int); INSERT INTO allowed VALUES (1)');
      await bad.rows(`CREATE FUNCTION ok(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN true; END $$`);
      await bad.rows('CREATE TABLE t (a int CHECK (ok(a))); INSERT INTO t VALUES (1)');
      await bad.rows(
        `CREATE OR REPLACE FUNCTION ok(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN false; END $$`,
      );
      await source.project('good');
      await save(source, 'bad.cdp');
      const service = await startWatched(server);
      try {
        const { projects, failed } = await load(service, 'bad.cdp');
        expect(projects.map(({ name }) => name)).toContain('good');
        expect(failed).toEqual([
          { name: 'bad', reason: expect.stringContaining('violates check constraint') as string },
        ]);
        expect((await service.engine.projects.list()).map(({ name }) => name)).not.toContain('bad');
        await refused(() => load(service, 'bad.cdp', { projectName: 'bad' }), /violates check constraint/, service);
      } finally {
        await service.close();
        await source.engine.projects.delete('bad', BY_ITSELF);
        await source.engine.projects.delete('good', BY_ITSELF);
      }
    });

    it("a schema that an operator has given a name of the service's, rather than leave it out", async () => {
      await source.project('spaced');
      const { database, writer } = (await source.engine.projects.get('spaced')).placement;
      const create = `CREATE SCHEMA "_cdp b" AUTHORIZATION ${writer} CREATE VIEW v AS SELECT 1 AS n`;
      await onServer(server, (client) => client.query(create), database);
      await save(source, 'spaced.cdp', { projectName: 'spaced' });
      await source.engine.projects.delete('spaced', BY_ITSELF);
      const loading = () =>
        load(target, 'spaced.cdp').catch((error: unknown) => Promise.reject(new Error(messageOf(error))));
      await refused(loading, /a schema cannot be called "_cdp b"/);
    });

    it('a dump of a later minor release with something that this server does not know, and says which it is', async () => {
      const name = await altered('minor.cdp', 'projects/small.dump', (dump) => {
        const versions = dump.toString('latin1').match(/1[5-8]\.\d+ \(Debian/g) ?? [];
        expect(versions.length).toBeGreaterThan(0);
        const later = dump.toString('latin1').replace(/(1[5-8])\.\d\d(?= \(Debian)/g, '$1.99');
        return Buffer.from(later.replace('CREATE TABLE data.t (', 'CREATE TABLX data.t ('), 'latin1');
      });
      const wanted = { projectName: 'small', as: 'fresh' };
      await refused(
        () => load(target, name, wanted),
        new RegExp(
          `TABLX.* The dump was made by pg_dump \\S+ on Postgres ${server.major}\\.99\\. This server is Postgres ${server.major}\\.\\d+, .*update it`,
          's',
        ),
      );
    });

    it('to overwrite an existing file', async () => {
      const before = await readFile(join(folder, 'tokens.cdp'));
      await refused(() => save(source, 'tokens.cdp'), /already exists; a backup overwrites nothing/, source);
      expect(await readFile(join(folder, 'tokens.cdp'))).toEqual(before);
    });
  });

  describe('protects:', () => {
    it.each([1, 3])(
      'leaves out and names a project that cannot be dumped, and saves the others: %i at a time',
      async (jobs) => {
        const stubborn = await source.project('stubborn');
        await stubborn.rows('CREATE TABLE t (a int); REVOKE ALL ON t FROM CURRENT_USER');
        const { projects, left_out: leftOut } = await save(source, `others-${jobs}.cdp`, { jobs });
        expect(projects.map(({ name }) => name)).toContain('full');
        expect(leftOut).toEqual([{ name: 'stubborn', reason: expect.stringContaining('permission denied') as string }]);
        await expect(save(source, 'one.cdp', { projectName: 'stubborn' })).rejects.toThrow(/permission denied/);
        expect((await readdir(folder)).filter((name) => name.startsWith('one.'))).toEqual([]);
        const as = `small-${jobs}`;
        expect((await load(target, `others-${jobs}.cdp`, { projectName: 'small', as })).projects).toHaveLength(1);
        await source.engine.projects.delete('stubborn', BY_ITSELF);
      },
    );

    it.each([
      ['a check', 'CREATE TABLE t (a int CHECK (who(a))); INSERT INTO t VALUES (1)'],
      ['an index', 'CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE INDEX ON t (who(a))'],
      ['a view that is filled', 'CREATE MATERIALIZED VIEW t AS SELECT who(1)'],
    ])('runs code of the project as its writer in a restore, and never in a backup: %s', async (_what, using) => {
      const sly = await source.project('sly');
      const who = (body: string) =>
        sly.rows(`CREATE OR REPLACE FUNCTION who(a int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
        AS $$ BEGIN ${body} RETURN true; END $$`);
      await who('');
      await sly.rows(using);
      await who(`RAISE EXCEPTION 'ran as % of %', current_user, session_user;`);
      await save(source, `sly-${using.length}.cdp`, { projectName: 'sly' });
      await source.engine.projects.delete('sly', BY_ITSELF);
      await expect(load(source, `sly-${using.length}.cdp`)).rejects.toThrow(/ran as (w_[0-9a-f]{20}) of \1/);
    });

    it.each([
      ['sleeps', 'PERFORM pg_sleep(100000);'],
      ['raises an error', `RAISE EXCEPTION E'\\x1b]0;OWNED\\x07';`],
    ])(
      'counts rows exactly without running code that the planner of a count would run, which %s',
      async (_what, body) => {
        const sly = await source.project('sly-count');
        await sly.rows(`CREATE FUNCTION trap(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
        $$ BEGIN IF current_user LIKE 'b\\_%' THEN ${body} END IF; RETURN $1; END $$`);
        await sly.rows(`CREATE TABLE t (pad text, a int, twice int GENERATED ALWAYS AS (a * 2) STORED);
        CREATE INDEX ON t (a) WHERE trap(1) = 1; CREATE STATISTICS s ON (trap(a)), a FROM t;
        INSERT INTO t (a) SELECT generate_series(1, 1000); DELETE FROM t WHERE a > 900;
        CREATE TABLE child () INHERITS (t); INSERT INTO child (a) VALUES (1), (2);
        CREATE TABLE wide (a text); INSERT INTO wide VALUES ('x'), (NULL);
        CREATE TABLE none (); INSERT INTO none DEFAULT VALUES`);
        const tables = Object.entries({ child: 2, none: 1, t: 900, wide: 2 }).map(([name, rows]) => ({ name, rows }));
        const file = `sly-count-${body.length}.cdp`;
        const { projects, left_out: leftOut } = await save(source, file);
        expect(leftOut).toEqual([]);
        expect(projects).toContainEqual(expect.objectContaining({ name: 'sly-count', tables }));
        await source.engine.projects.delete('sly-count', BY_ITSELF);
        expect((await load(source, file, { projectName: 'sly-count' })).projects[0]?.tables).toEqual(tables);
        await source.engine.projects.delete('sly-count', BY_ITSELF);
      },
    );

    /** Aborts as soon as a query is seen that `condition` describes, and expects the work to end by this. */
    async function abortedAt(condition: string, work: (signal: AbortSignal) => Promise<unknown>) {
      const controller = new AbortController();
      const ended = expect(work(controller.signal)).rejects.toThrow('by the operator');
      await vi.waitFor(
        async () => {
          const text = `SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND ${condition}`;
          expect((await onServer(server, (client) => client.query(text))).rows).not.toEqual([]);
        },
        { timeout: 60_000 },
      );
      controller.abort(new Error('ended by the operator'));
      await ended;
    }

    it.each([1, 3])(
      'ends a backup that waits for a lock as soon as the operator aborts it: %i at a time',
      async (jobs) => {
        const project = await source.project('held');
        await project.rows('CREATE TABLE t (a int)');
        const { placement } = await source.engine.projects.get('held');
        const hold = async (client: { query: (text: string) => Promise<unknown> }) => {
          await client.query('BEGIN; LOCK TABLE data.t');
          await abortedAt(`query LIKE 'LOCK TABLE ONLY "data"."t" %' AND wait_event_type = 'Lock'`, (ending) =>
            save(source, 'held.cdp', { ...(jobs === 1 ? { projectName: 'held' } : {}), jobs, signal: ending }),
          );
          await client.query('ROLLBACK');
        };
        await onServer(server, hold, placement.database);
        await vi.waitFor(async () => expect(await inventory(source)).toMatchObject({ strays: [] }), {
          timeout: 60_000,
        });
        expect((await readdir(folder)).filter((name) => name.startsWith('held.'))).toEqual([]);
        await source.engine.projects.delete('held', BY_ITSELF);
      },
    );

    it('ends a restore that fills a view endlessly as soon as the operator aborts it', async () => {
      const project = await source.project('endless');
      const slow = (body: string) =>
        project.rows(
          `CREATE OR REPLACE FUNCTION slow() RETURNS int LANGUAGE plpgsql AS $$ BEGIN ${body} RETURN 1; END $$`,
        );
      await slow('');
      await project.rows('CREATE MATERIALIZED VIEW v AS SELECT slow() AS a');
      await slow('PERFORM pg_sleep(100000);');
      await save(source, 'endless.cdp', { projectName: 'endless' });
      await source.engine.projects.delete('endless', BY_ITSELF);
      await abortedAt(`query LIKE 'REFRESH MATERIALIZED VIEW %'`, (ending) =>
        load(source, 'endless.cdp', { projectName: 'endless', signal: ending }),
      );
      await vi.waitFor(async () => expect(await inventory(source)).toMatchObject({ strays: [] }), { timeout: 60_000 });
      expect((await source.engine.projects.list()).map(({ name }) => name)).not.toContain('endless');
    });

    it('saves a project whatever it did to its roles', async () => {
      const spoiled = await source.project('spoiled');
      await spoiled.rows(`CREATE TABLE t (a int)`);
      await spoiled.rows(`ALTER ROLE CURRENT_USER PASSWORD 'mine'`);
      await spoiled.rows(`ALTER ROLE CURRENT_USER SET statement_timeout = 1`);
      const { projects } = await save(source, 'spoiled.cdp', { projectName: 'spoiled' });
      expect(projects).toMatchObject([{ tables: [{ name: 't', rows: 0 }] }]);
      await source.engine.projects.delete('spoiled', BY_ITSELF);
    });

    it('refuses a grant to a role that does not exist on the target, and restores nothing of the project', async () => {
      await onServer(server, (client) => client.query('CREATE ROLE cdp_test_stranger'));
      const project = await source.project('grants');
      await project.rows('CREATE TABLE t (a int); GRANT SELECT ON t TO cdp_test_stranger');
      await save(source, 'grants.cdp', { projectName: 'grants' });
      await source.engine.projects.delete('grants', BY_ITSELF);
      await onServer(server, (client) => client.query('DROP ROLE cdp_test_stranger'));
      for (const file of ['grants.cdp', asEarlier('grants.cdp', 'grants')]) {
        await expect(load(target, file)).rejects.toThrow(/"cdp_test_stranger" does not exist/);
      }
    });

    it('restores policies, rights and settings as they are, also from a backup of an earlier version', async () => {
      await source.project('access');
      const place = async (service: TestService, name: string) => (await service.engine.projects.get(name)).placement;
      const at = async <T>(
        service: TestService,
        name: string,
        work: (client: pg.Client, placement: Placement) => Promise<T>,
      ) => {
        const placement = await place(service, name);
        return onServer(server, (client) => work(client, placement), placement.database);
      };
      await at(source, 'access', makeAccess);
      const before = await at(source, 'access', describeAccess);
      const seen = await at(source, 'access', rowsSeen);
      // The backup itself must not see to rights that the project has changed.
      const { databaseSetup: databases } = source.engine.backupServices(BY_ITSELF);
      const untouched = vi.spyOn(databases, 'restoreRights').mockResolvedValue([] as never);
      await save(source, 'access.cdp', { projectName: 'access' });
      untouched.mockRestore();
      const earlier = asEarlier('access.cdp', 'access');
      for (const [file, as] of [
        ['access.cdp', 'access-new'],
        [earlier, 'access-old'],
      ] as const) {
        const { projects } = await load(target, file, { projectName: 'access', as });
        expect(projects).toMatchObject([{ left_out: [] }]);
        const { settings, ...after } = await at(target, as, describeAccess);
        expect({ settings: as === 'access-old' ? before.settings : settings, ...after }).toEqual(before);
        expect(await at(target, as, rowsSeen)).toEqual(seen);
      }
      await source.engine.projects.delete('access', BY_ITSELF);
    });
  });
});

describe.each(servers.map((server) => ({ server, major: server.major })))(
  'on Postgres $major with a role that is not a superuser',
  ({ server }) => {
    let service: TestService;
    let control: string;
    beforeAll(async () => {
      control = `backup_lowly_${Date.now()}`;
      await onServer(server, async (client) => {
        await client.query(`CREATE ROLE ${control} LOGIN CREATEDB CREATEROLE PASSWORD 'lowly'`);
        await client.query(`CREATE DATABASE ${control} OWNER ${control}`);
      });
      const { host, port } = server.connection;
      const url = `postgres://${control}:lowly@/${control}?host=${encodeURIComponent(host)}&port=${port}`;
      service = await startTestService({ 'database-url': url }, server);
    });
    afterAll(async () => {
      await service.close();
      await onServer(server, (client) => clearAway(client, dropDatabase(control), `DROP ROLE IF EXISTS ${control}`));
    });

    it('saves and restores a project; refuses one with FORCE ROW LEVEL SECURITY', async () => {
      const project = await service.project('plain');
      await project.rows('CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)');
      await save(service, 'lowly.cdp');
      await service.engine.projects.delete('plain', BY_ITSELF);
      const { projects, failed } = await load(service, 'lowly.cdp');
      expect(failed).toEqual([]);
      expect(projects).toMatchObject([{ name: 'plain', tables: [{ name: 't', rows: 2 }] }]);
      // Until its token is looked up again, the service knows the deleted project.
      const status = async () =>
        (await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT a FROM t' } })).status;
      await expect.poll(status).toBe(200);
      await project.rows('ALTER TABLE t ENABLE ROW LEVEL SECURITY; ALTER TABLE t FORCE ROW LEVEL SECURITY');
      await expect(save(service, 'forced.cdp')).rejects.toThrow(/row-level security policy for table "t"/);
    });
  },
);

describe('without suitable programs', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService({}, embeddedServer());
  });
  afterAll(() => service.close());

  it('refuses a backup, says what to install, and leaves no file', async () => {
    const empty = mkdtempSync(join(folder, 'empty-'));
    const empties = { form: null, jobs: 1, version: '0' };
    const options = { file: join(empty, 'file'), projectName: null, ...empties, signal, progress: silent };
    const none = backup(service.engine.backupServices(BY_ITSELF), {
      ...options,
      programSearch: { folder: empty, path: '' },
    });
    await expect(none).rejects.toThrow(
      /pg_dump and pg_restore of version 18 or later are needed; found in .*: none\..*install postgresql-client-18/,
    );
    expect(await readdir(empty)).toEqual([]);
    expect((await call(service.url, 'GET', '/readyz')).status).toBe(200);
  });
});
