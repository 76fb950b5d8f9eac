/**
 * What a project revokes from its roles, and how it sets them, stays through everything that touches the project: its
 * rights, default privileges and settings are compared before and after.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { backup } from '../../src/backup/backup.js';
import { restore } from '../../src/backup/restore.js';
import { findPrograms } from '../../src/backup/logical/client-programs.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { startService } from '../../src/service.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { makeFolder } from '../support/folder.js';
import { type TestServer, testServers } from '../support/postgres.js';
import { eventually } from '../support/program.js';
import {
  inProject,
  openConnections,
  startOwnService,
  startTestService,
  type TestProject,
  type TestService,
} from '../support/service.js';
import { pino } from 'pino';

const programSearch = { folder: null, path: process.env.PATH ?? '' };

/** A server that has Postgres's own programs for a logical backup, if there is one. */
const withPrograms: TestServer[] = [];
for (const server of testServers()) {
  await findPrograms(programSearch, server.major).then(
    () => withPrograms.push(server),
    () => {},
  );
}

const MODES = ['copy', 'stream'] as const;

const HOMES = [
  { name: 'a server by address', start: startTestService, form: null, moves: MODES },
  { name: 'servers of their own', start: startOwnService, form: 'physical' as const, moves: MODES },
  // A move to another major adds rights and settings that the first does not have.
  ...withPrograms.map((server) => ({
    name: `Postgres ${server.major} with its programs`,
    start: (settings: Record<string, string>) => startTestService(settings, server),
    form: 'logical' as const,
    moves: [],
  })),
];

/** Rights of two roles that the project has made: to columns, by policies, as a default, to be passed on. */
const giveToRoles = (intern: string, partner: string) => `
  GRANT SELECT (a) ON partly TO ${intern}; GRANT SELECT ON append_only TO ${intern} WITH GRANT OPTION;
  GRANT INSERT ON append_only TO ${partner};
  ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO ${intern};
  CREATE TABLE visits (owner text); ALTER TABLE visits ENABLE ROW LEVEL SECURITY;
  GRANT SELECT, INSERT ON visits TO ${intern}, ${partner};
  CREATE POLICY own ON visits TO ${intern}, ${partner} USING (owner = _cdp.role_name());
  CREATE POLICY not_secret ON visits AS RESTRICTIVE TO ${intern} USING (owner <> 'secret')`;

/** Run as the project: its reader's and its own rights go, and its roles have settings of their own. */
const takeAway = (reader: string) => `
  CREATE SCHEMA app; CREATE TABLE app.kept (n int); CREATE SEQUENCE app.numbers;
  CREATE TABLE hidden (n int); CREATE TABLE partly (a int, b int); CREATE TABLE append_only (n int);
  CREATE FUNCTION secret() RETURNS int LANGUAGE sql AS 'SELECT 1'; REVOKE ALL ON FUNCTION secret() FROM PUBLIC;
  REVOKE SELECT ON hidden FROM ${reader};
  REVOKE SELECT ON partly FROM ${reader}; GRANT SELECT (a) ON partly TO ${reader};
  REVOKE DELETE, TRUNCATE ON append_only FROM CURRENT_USER;
  REVOKE USAGE ON SCHEMA app FROM ${reader};
  REVOKE SELECT ON SEQUENCE app.numbers FROM ${reader};
  ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM ${reader};
  ALTER DEFAULT PRIVILEGES REVOKE USAGE ON SCHEMAS FROM ${reader};
  ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
  ALTER DEFAULT PRIVILEGES IN SCHEMA app GRANT SELECT ON TABLES TO ${reader};
  ALTER ROLE CURRENT_USER SET work_mem = '5MB';
  ALTER ROLE CURRENT_USER SET search_path = app, "Odd ""name, here", data;
  ALTER ROLE CURRENT_USER SET exit_on_error = on;
  ALTER ROLE CURRENT_USER SET DateStyle = 'ISO, DMY';
  DO $$ BEGIN
    EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET statement_timeout = %L', current_database(), '1ms');
    IF current_setting('server_version_num')::int >= 170000 THEN
      EXECUTE 'ALTER ROLE CURRENT_USER SET transaction_timeout = ''1ms''';
    END IF;
  END $$`;

const acl = (column: string) => `(SELECT array_agg(a::text ORDER BY a::text) FROM unnest(${column}) a)`;
const OF_PROJECT = `(nspname = 'data' OR nspowner = $1::regrole)`;
const RIGHTS = {
  relations: `SELECT nspname, relname, ${acl("coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::\"char\", relowner))")} AS acl
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE ${OF_PROJECT} AND relkind IN ('r', 'S') ORDER BY 1, 2`,
  columns: `SELECT attrelid::regclass::text, attname, ${acl('attacl')} AS acl FROM pg_attribute
    WHERE attacl IS NOT NULL AND attrelid >= 16384 AND attrelid::regclass::text !~ '_cdp' AND $1 <> '' ORDER BY 1, 2`,
  functions: `SELECT proname, ${acl("coalesce(proacl, acldefault('f', proowner))")} AS acl FROM pg_proc p
    JOIN pg_namespace n ON n.oid = pronamespace WHERE ${OF_PROJECT} ORDER BY 1`,
  schemas: `SELECT nspname, ${acl("coalesce(nspacl, acldefault('n', nspowner))")} AS acl FROM pg_namespace
    WHERE nspowner = $1::regrole ORDER BY 1`,
  defaults: `SELECT defaclnamespace::regnamespace::text, defaclobjtype, ${acl('defaclacl')} AS acl FROM pg_default_acl
    WHERE defaclrole = $1::regrole ORDER BY 1, 2`,
  policies: `SELECT tablename, policyname, permissive, roles::text[], cmd, qual, with_check FROM pg_policies
    WHERE $1 <> '' ORDER BY 1, 2`,
  settings: `SELECT setrole = $1::text::regrole AS of_writer, setdatabase <> 0 AS in_database, unnest(setconfig) AS setting
    FROM pg_db_role_setting
    WHERE setrole = $1::text::regrole OR setrole::regrole::text = 'intern' OR starts_with(setrole::regrole::text, concat('p_', substr($1::text, 3), '_'))
    ORDER BY 1, 2, 3`,
};

describe.each(HOMES)('on $name', ({ start, form, moves }) => {
  let service: TestService;
  let other: AddedServer;
  const folder = makeFolder('cdp-revoked-');
  beforeAll(async () => {
    other = await startAddedServer(18);
    service = await start({ 'idle-connection-ms': '100' });
    service.engine.moves.startRecovering();
    const admin = (await service.engine.tokens.create(null)).token;
    const body = { name: 'other', url_reference: `env:${variableWith(other.url)}` };
    expect((await service.call('POST', '/api/cdp/admin/servers', { token: admin, body })).status).toBe(201);
  });
  afterAll(async () => {
    await service.close();
    await other.close();
    rmSync(folder, { recursive: true, force: true });
  });

  let project: TestProject;
  let before: Record<string, unknown>;
  beforeEach(async () => {
    project = await service.project(undefined, 'default');
    const { reader } = (await service.engine.projects.get(project.name)).placement;
    await project.rows(takeAway(reader));
    const roles: string[] = [];
    for (const name of ['intern', 'partner']) {
      const { body } = await project.call('POST', '/api/cdp/schema/role', { body: { name } });
      roles.push((body['role'] as { postgres_name: string }).postgres_name);
    }
    const [intern = '', partner = ''] = roles;
    await project.rows(giveToRoles(intern, partner));
    const token = await project.tokenAs('intern', 'sql:write');
    const set = `ALTER ROLE CURRENT_USER SET work_mem = '6MB'`;
    expect(await project.call('POST', '/api/cdp/sql', { token, body: { sql: set } })).toMatchObject({ status: 200 });
    before = await rightsOf(project.name);
  });

  /** With the same names of roles everywhere, as a superuser sees them. */
  async function rightsOf(name: string): Promise<Record<string, unknown>> {
    const { placement } = await service.engine.projects.get(name);
    const read = async (client: pg.Client) => {
      await client.query('SET search_path = pg_catalog');
      const found: Record<string, unknown> = {};
      for (const [what, text] of Object.entries(RIGHTS)) {
        found[what] = (await client.query(text, [placement.writer])).rows;
      }
      return found;
    };
    const found = JSON.stringify(await inProject(service, placement, read));
    const named = found
      .replaceAll(placement.writer, 'writer')
      .replaceAll(placement.reader, 'reader')
      .replaceAll(`p_${placement.writer.slice(2)}_`, '');
    // Postgres sorted them by other names.
    const sorted = (_: string, value: unknown): unknown =>
      Array.isArray(value) && value.every((one) => typeof one === 'string') ? value.sort() : value;
    return JSON.parse(named, sorted) as Record<string, unknown>;
  }

  /** Logins of writer and reader at the same time, after all connections were closed. */
  async function logIn(): Promise<void> {
    await eventually('its connections are closed', () => Promise.resolve(openConnections(service) === 0));
    const readToken = await project.tokenWith('sql:read');
    const statuses = await Promise.all(
      Array.from({ length: 12 }, async (_, i) => {
        const read = { token: readToken, body: { sql: 'SELECT 1' } };
        if (i % 3 === 0) return (await project.call('POST', '/api/cdp/sql', read)).status;
        if (i % 3 === 1) return (await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 2' } })).status;
        return (await project.call('POST', '/api/cdp/data/append_only', { body: [{ n: i }] })).status - 1;
      }),
    );
    expect(new Set(statuses)).toEqual(new Set([200]));
    const intern = await project.tokenAs('intern', 'sql:read');
    const asIntern = (sql: string) => project.call('POST', '/api/cdp/sql', { token: intern, body: { sql } });
    expect(await asIntern('SELECT a FROM partly')).toMatchObject({ status: 200 });
    expect(await asIntern('SELECT b FROM partly')).toMatchObject({ status: 403 });
  }

  const repair = (wanted = {}) =>
    service.engine.projects.repair(project.name, BY_ITSELF, { reader: false, writer: false, ...wanted });

  it('keeps it through logins, repairs and changes of own-schemas', async () => {
    await logIn();
    expect(await rightsOf(project.name)).toEqual(before);
    expect(await service.engine.projects.examine(await service.engine.projects.get(project.name))).toEqual([]);
    expect((await repair()).repaired).toEqual([]);
    expect(await rightsOf(project.name)).toEqual(before);
    for (const on of [false, true]) {
      await service.engine.projects.setOwnSchemas(project.name, on, BY_ITSELF);
      expect(await rightsOf(project.name)).toEqual(before);
    }
    await logIn();
    expect(await rightsOf(project.name)).toEqual(before);
  });

  it('keeps it where the service has something to restore, and names that', async () => {
    const { writer } = (await service.engine.projects.get(project.name)).placement;
    await inProject(service, (await service.engine.projects.get(project.name)).placement, (client) =>
      client.query(`REVOKE USAGE ON SCHEMA data FROM ${writer}; REVOKE SELECT ON _cdp.quarantine FROM ${writer}`),
    );
    await logIn();
    expect(await rightsOf(project.name)).toEqual(before);
    await service.engine.audit.flush();
    const entries = await service.engine.audit.read({ project: project.name, limit: 100 });
    expect(entries.find(({ operation }) => operation === 'project.repair')).toMatchObject({
      actor: 'service',
      outcome: 'ok',
      object: 'its roles lack privileges',
    });
  });

  // Without the programs there is no logical backup.
  it.each(form === null ? [] : [form])('keeps it in a %s backup, and in the project restored from it', async () => {
    const file = join(folder, `${project.name}.cdp`);
    const common = { file, programSearch, signal: new AbortController().signal };
    const progress = () => undefined;
    await backup(service.engine.backupServices(BY_ITSELF), {
      ...common,
      progress,
      projectName: project.name,
      form,
      jobs: 1,
    });
    expect(await rightsOf(project.name)).toEqual(before);
    const as = `${project.name}-copy`;
    const to = { projectName: project.name, as, at: null, missing: false, placementRequest: {} };
    const { projects } = await restore(service.engine.backupServices(BY_ITSELF), { ...common, progress, ...to });
    expect(projects[0]?.left_out).toEqual([]);
    expect(await rightsOf(as)).toEqual(before);
    const roles = await service.engine.roles.list(await service.engine.projects.get(as));
    expect(roles.map(({ name }) => name)).toEqual(['intern', 'partner']);
    await service.engine.projects.repair(as, BY_ITSELF);
    expect(await rightsOf(as)).toEqual(before);
  });

  it.each(moves)('keeps it in a move by %s', async (mode) => {
    // The role of the service on the other server is no superuser, so that no project there may have own schemas.
    await project.rows('DROP SCHEMA app CASCADE');
    before = await rightsOf(project.name);
    const admin = (await service.engine.tokens.create(null)).token;
    const path = `/api/cdp/admin/projects/${project.name}/move`;
    const { body } = await service.call('POST', path, { token: admin, body: { to: 'other', mode, verify: 'full' } });
    const { id } = body.move as { id: string };
    const seen = async () => (await service.call('GET', `/api/cdp/admin/moves/${id}`, { token: admin })).body.move;
    await eventually('the move ends', async () => ((await seen()) as { ended_at: unknown }).ended_at !== null);
    expect(await seen()).toMatchObject({ state: 'done' });
    expect(await rightsOf(project.name)).toEqual(before);
    await logIn();
    expect(await rightsOf(project.name)).toEqual(before);
  });

  // Only one process at a time has servers of its own.
  it.each(start === startOwnService ? [] : ['another instance'])('keeps it when %s starts', async () => {
    const second = await startService(service.config, pino({ level: 'silent' }));
    await second.engine.projects.repair(project.name, BY_ITSELF);
    await second.close();
    expect(await rightsOf(project.name)).toEqual(before);
  });

  it('gives it again on request', async () => {
    const readToken = await project.tokenWith('sql:read');
    const read = (table: string) =>
      project.call('POST', '/api/cdp/sql', { token: readToken, body: { sql: `SELECT * FROM ${table}` } });
    expect((await read('hidden')).status).toBe(403);
    expect((await repair({ reader: true })).repaired).toEqual(['the reader sees all objects, as requested']);
    await project.rows('CREATE TABLE later (n int); CREATE SCHEMA more CREATE TABLE later (n int)');
    for (const table of ['hidden', 'partly', 'app.kept', 'later', 'more.later']) {
      expect({ table, status: (await read(table)).status }).toEqual({ table, status: 200 });
    }
    const remove = () => project.call('POST', '/api/cdp/sql', { body: { sql: 'DELETE FROM append_only' } });
    expect((await remove()).status).toBe(403);
    expect((await repair({ writer: true })).repaired).toEqual([
      'the writer has all rights to its objects, as requested',
    ]);
    expect((await remove()).status).toBe(200);
  });

  it("keeps the writer's rights to what it creates, and waits for its commits", async () => {
    await project.rows(`ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM CURRENT_USER;
      ALTER ROLE CURRENT_USER SET synchronous_commit = off`);
    await logIn();
    await project.table('made', { n: 'INTEGER' });
    expect((await project.call('POST', '/api/cdp/data/made', { body: [{ n: 1 }] })).status).toBe(201);
    expect(await rightsOf(project.name)).toMatchObject({ settings: before.settings });
  });
});
