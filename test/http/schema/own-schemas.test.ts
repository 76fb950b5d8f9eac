/** Schemas that a project creates next to `data`, and what the right to create them must not include. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { testServers } from '../../support/postgres.js';
import {
  expectFailure,
  inProject,
  startOwnService,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

const TENANCIES = [
  { where: 'a server of its own', start: () => startOwnService({ extensions: 'pg_trgm' }) },
  ...testServers().map((server) => ({
    where: `a shared Postgres ${server.major}`,
    start: () => startTestService({ extensions: 'pg_trgm' }, server),
  })),
];

describe.each(TENANCIES)('on $where', ({ start }) => {
  let service: TestService;
  let admin: string;
  let project: TestProject;
  beforeAll(async () => {
    service = await start();
    admin = (await service.engine.tokens.create(null)).token;
  });
  afterAll(() => service.close());
  const fresh = async () => (project = await service.project());

  const sql = (text: string, token = project.token) =>
    project.call('POST', '/api/cdp/sql', { token, body: { sql: text } });
  const refused = async (text: string, status: number, code: string) => expectFailure(await sql(text), status, code);
  const allow = (allowed: boolean) =>
    service.call('PUT', `/api/cdp/admin/projects/${project.name}/own-schemas`, {
      token: admin,
      body: { own_schemas: allowed },
    });
  const mayCreate = async () => {
    const { placement } = await service.engine.projects.get(project.name);
    const asked = `SELECT has_database_privilege('${placement.writer}', current_database(), 'CREATE') AS may`;
    return inProject(service, placement, async (client) => (await client.query<{ may: boolean }>(asked)).rows[0]);
  };

  describe('works', () => {
    it('for schemas created by tools; the reader sees what they contain, and the endpoints see only data', async () => {
      await fresh();
      await project.table('customers', { email: 'TEXT' });
      for (let run = 0; run < 2; run++) {
        await project.rows('CREATE SCHEMA IF NOT EXISTS drizzle');
        await project.rows(
          'CREATE TABLE IF NOT EXISTS drizzle.__drizzle_migrations (id serial PRIMARY KEY, hash text)',
        );
      }
      await project.rows(`INSERT INTO drizzle.__drizzle_migrations (hash) VALUES ('a')`);
      await project.rows(
        'CREATE SCHEMA public CREATE TABLE things (a integer) CREATE VIEW all_things AS SELECT a FROM things',
      );
      const reader = await project.tokenWith('sql:read');
      const read = await sql(
        'SELECT hash, (SELECT count(*) FROM public.all_things) AS n, last_value FROM drizzle.__drizzle_migrations, drizzle.__drizzle_migrations_id_seq',
        reader,
      );
      expect(read.body).toMatchObject({ success: true, rows: [{ hash: 'a', n: 0, last_value: 1 }] });
      expectFailure(await sql('CREATE SCHEMA more', reader), 403, 'permission_denied');
      const { body } = await project.call('GET', '/api/cdp/schema');
      expect((body.tables as { name: string }[]).map(({ name }) => name)).toEqual(['customers']);
      expectFailure(await project.call('POST', '/api/cdp/data/things', { body: [{ a: 1 }] }), 404, 'table_not_found');
      await project.rows('ALTER SCHEMA drizzle RENAME TO moved; DROP SCHEMA public CASCADE; DROP SCHEMA moved CASCADE');
    });

    it.each(['"SomeSchema"', '"a.b"', '"DATA"', '"Extensions"', '"with ""quotes""; and\nü"', `"${'x'.repeat(63)}"`])(
      'for a schema named %s',
      async (name) => {
        await fresh();
        await project.rows(`CREATE SCHEMA sound; ALTER SCHEMA sound RENAME TO ${name}`);
        await project.rows(`CREATE TABLE ${name}.t (a integer); CREATE SCHEMA IF NOT EXISTS ${name}`);
        const rehearsed = await project.call('POST', '/api/cdp/sql?dry_run=true', {
          body: { sql: `INSERT INTO ${name}.t VALUES (1)` },
        });
        const shown = `${name.slice(1, -1).replaceAll('""', '"')}.t`;
        expect(rehearsed.body).toMatchObject({ impact: { rows: [{ table: shown, inserted: 1 }] } });
        await project.rows(`SET search_path = ${name}; INSERT INTO t VALUES (1)`);
        const reader = await project.tokenWith('sql:read');
        expect((await sql(`SELECT a FROM ${name}.t`, reader)).body).toMatchObject({ rows: [{ a: 1 }] });
        const repaired = await service.call(
          'POST',
          `/api/cdp/admin/projects/${project.name}/repair?reader_reads_all=true`,
          {
            token: admin,
          },
        );
        expect(repaired.status, repaired.text).toBe(200);
        await project.rows(`DROP SCHEMA ${name} CASCADE`);
      },
    );

    it('for an extension that exists: several requests at once find it', async () => {
      await fresh();
      const install = () => sql('CREATE EXTENSION IF NOT EXISTS pg_trgm');
      const responses = await Promise.all(Array.from({ length: 6 }, install));
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200]);
      expect(await mayCreate()).toEqual({ may: true });
      await project.rows('CREATE SCHEMA still');
    });

    it('repair restores the right to create them, and on request the rights in them', async () => {
      await fresh();
      await project.rows('CREATE SCHEMA extra CREATE TABLE t (a integer)');
      const { placement } = await service.engine.projects.get(project.name);
      await project.rows(`
        REVOKE ALL ON extra.t FROM ${placement.writer}, ${placement.reader};
        REVOKE ALL ON SCHEMA extra FROM ${placement.writer}, ${placement.reader}`);
      const taken = `REVOKE CREATE ON DATABASE ${placement.database} FROM ${placement.writer}`;
      await inProject(service, placement, (client) => client.query(taken));
      const repaired = await service.call('POST', `/api/cdp/admin/projects/${project.name}/repair`, { token: admin });
      expect(repaired.body.repaired).toEqual(['it may not create schemas, although its setting allows that']);
      await project.rows('CREATE SCHEMA another');
      await refused('INSERT INTO extra.t VALUES (1)', 403, 'permission_denied');
      const all = `/api/cdp/admin/projects/${project.name}/repair?reader_reads_all=true&writer_writes_all=true`;
      expect((await service.call('POST', all, { token: admin })).status).toBe(200);
      await project.rows('INSERT INTO extra.t VALUES (1)');
      const reader = await project.tokenWith('sql:read');
      expect((await sql('SELECT a FROM extra.t', reader)).body).toMatchObject({ rows: [{ a: 1 }] });
    });

    it('to switch them off and on again; existing schemas stay', async () => {
      await fresh();
      await project.rows('CREATE SCHEMA kept CREATE TABLE t (a integer)');
      expect((await allow(false)).body).toMatchObject({ project: { own_schemas: false } });
      project = await project.seenAnew();
      await refused('CREATE SCHEMA other', 403, 'permission_denied');
      // The trigger that gives the right back must not give it to one who did not have it.
      await project.rows('CREATE EXTENSION IF NOT EXISTS pg_trgm');
      await refused('CREATE SCHEMA other', 403, 'permission_denied');
      await project.rows('INSERT INTO kept.t VALUES (1)');
      expect((await allow(true)).body).toMatchObject({ project: { own_schemas: true } });
      project = await project.seenAnew();
      await project.rows('CREATE SCHEMA other');
    });

    it('again by itself if the project drops its rights', async () => {
      await fresh();
      await sql('DROP OWNED BY CURRENT_USER');
      await project.call('POST', '/api/cdp/schema/table', {
        body: { table_name: 't', columns: [{ name: 'a', type: 'TEXT' }] },
      });
      await expect.poll(async () => (await sql('CREATE SCHEMA IF NOT EXISTS again')).status).toBe(200);
    });
  });

  describe('refuses', () => {
    it.each(['hstore', 'plperl', 'nonsense'])('the extension %s, and says who can add one', async (name) => {
      await fresh();
      const { status, body } = await sql(`CREATE EXTENSION ${name}`);
      expect(status).toBeGreaterThanOrEqual(400);
      expect(body).toMatchObject({
        hint: 'Only the operator can add extensions (setting extensions). Those you have: SELECT extname FROM pg_extension',
      });
    });

    beforeAll(() => fresh());
    it.each(['_cdp2', '"_cdp B"', 'extensions', '"-"', 'pg_mine', '_cdp', 'data'])(
      'a schema named %s',
      async (name) => {
        await project.rows('CREATE SCHEMA IF NOT EXISTS sound');
        const before = await project.rows('SELECT count(*) AS n FROM pg_namespace');
        expect((await sql(`CREATE SCHEMA ${name}`)).status).toBeGreaterThanOrEqual(400);
        expect((await sql(`ALTER SCHEMA sound RENAME TO ${name}`)).status).toBeGreaterThanOrEqual(400);
        expect((await sql(`DO $$ BEGIN EXECUTE 'CREATE SCHEMA ${name}'; END $$`)).status).toBeGreaterThanOrEqual(400);
        expect(await project.rows('SELECT count(*) AS n FROM pg_namespace')).toEqual(before);
      },
    );
  });

  describe('protects', () => {
    beforeAll(async () => {
      await fresh();
      await project.rows('CREATE SCHEMA mine CREATE TABLE t (a integer)');
      await project.rows('CREATE FUNCTION mine.e() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$');
    });
    it.each([
      'CREATE EXTENSION hstore',
      'CREATE EXTENSION IF NOT EXISTS hstore SCHEMA mine',
      'CREATE EXTENSION plperl',
      `DO $$ BEGIN CREATE EXTENSION hstore; EXCEPTION WHEN OTHERS THEN CREATE EXTENSION citext; END $$`,
      'CREATE EXTENSION IF NOT EXISTS pg_trgm; CREATE EXTENSION citext',
      'CREATE PUBLICATION p',
      'CREATE PUBLICATION p FOR TABLE mine.t',
      'CREATE PUBLICATION p FOR ALL TABLES',
      'CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION mine.e()',
      'DROP EVENT TRIGGER cdp_before_extension',
      'ALTER EVENT TRIGGER cdp_before_extension DISABLE',
      'CREATE OR REPLACE FUNCTION _cdp.before_extension() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$',
      'SET event_triggers = off',
      'SET session_replication_role = replica',
      'SET SESSION is_superuser = on',
      'ALTER SCHEMA data OWNER TO CURRENT_USER',
      'ALTER SCHEMA _cdp RENAME TO gone',
      'DROP SCHEMA extensions CASCADE',
      'DROP SCHEMA data CASCADE',
      'CREATE TABLE _cdp.t (a integer)',
    ])('against %s', async (attack) => {
      const facts = () =>
        project.rows(`SELECT (SELECT json_agg(extname ORDER BY extname) FROM pg_extension) AS extensions,
          (SELECT count(*) FROM pg_publication) AS publications,
          (SELECT json_agg(concat(evtname, evtenabled) ORDER BY evtname) FROM pg_event_trigger) AS triggers,
          (SELECT json_agg(concat(nspname, nspowner) ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^pg_t') AS schemas`);
      const before = await facts();
      expect((await sql(attack)).status).toBeGreaterThanOrEqual(400);
      expect(await facts()).toEqual(before);
      expect(await mayCreate()).toEqual({ may: true });
    });

    it('limits from objects of the project that shadow their names', async () => {
      await fresh();
      await project
        .rows(
          `
        CREATE FUNCTION data.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT 'on' $$;
        CREATE FUNCTION data.starts_with(name, unknown) RETURNS boolean LANGUAGE sql AS $$ SELECT false $$`,
        )
        .catch(() => undefined);
      await refused(
        `SET search_path = data, pg_catalog; CREATE TEMP TABLE pg_namespace (oid oid, nspname name); CREATE SCHEMA _cdp3`,
        400,
        'sql_error',
      );
      expect((await sql('SET search_path = data, pg_catalog; CREATE EXTENSION hstore')).status).toBe(403);
    });

    it('other projects: nobody else can read what the schemas contain', async () => {
      await fresh();
      await project.rows(`CREATE SCHEMA secret CREATE TABLE t (a text)`);
      await project.rows(
        `GRANT ALL ON SCHEMA secret TO PUBLIC; GRANT ALL ON secret.t TO PUBLIC; INSERT INTO secret.t VALUES ('x')`,
      );
      const other = await service.project();
      expect(await other.rows(`SELECT count(*) AS n FROM pg_namespace WHERE nspname = 'secret'`)).toEqual([{ n: 0 }]);
    });
  });
});

it('counts them in the quota', async () => {
  const service = await startTestService();
  try {
    const project = await service.project();
    await service.engine.projects.setQuota(project.name, 12_000_000, BY_ITSELF);
    const status = async (sql: string) => (await project.call('POST', '/api/cdp/sql', { body: { sql } })).status;
    await project.rows('CREATE SCHEMA big CREATE TABLE t (a text)');
    await status(`INSERT INTO big.t SELECT repeat(md5(i::text), 20) FROM generate_series(1, 20000) i`);
    const write = () => status('CREATE TABLE IF NOT EXISTS t (a integer)');
    await expect.poll(write, { timeout: 60_000 }).toBe(403);
    await project.rows('DROP SCHEMA big CASCADE');
    await expect.poll(write, { timeout: 60_000 }).toBe(200);
  } finally {
    await service.close();
  }
});
