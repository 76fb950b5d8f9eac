/**
 * Free SQL that may only read (contract C13.9), because of a token with sql:read alone or `read_only: true`.
 * Whatever it tries, nothing is written, and it sees at once what the writer creates.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testServers } from '../../support/postgres.js';
import {
  expectFailure,
  onServer,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  let project: TestProject;
  let readToken: string;
  let writeToken: string;

  const sql = (text: string, token: string, rest: object = {}): Promise<TestResponse> =>
    project.call('POST', '/api/cdp/sql', { token, body: { sql: text, ...rest } });

  /** The two ways to read only. */
  const readers: [name: string, read: (text: string) => Promise<TestResponse>][] = [
    ['a token with sql:read', (text) => sql(text, readToken)],
    ['read_only', (text) => sql(text, project.token, { read_only: true })],
  ];

  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    readToken = await project.tokenWith('sql:read');
    writeToken = await project.tokenWith('sql:write');
    await project.table('typed', { name: 'TEXT' });
    // Every door that a writer can leave open for its reader.
    await project.rows(`
      CREATE TABLE open (n int PRIMARY KEY, s text);
      INSERT INTO open VALUES (1, 'one'), (2, 'two');
      CREATE SEQUENCE seq;
      CREATE SCHEMA lax;
      GRANT ALL ON SCHEMA lax TO PUBLIC;
      GRANT ALL ON ALL TABLES IN SCHEMA data TO PUBLIC;
      GRANT ALL ON ALL SEQUENCES IN SCHEMA data TO PUBLIC;
      CREATE FUNCTION definer_insert() RETURNS int LANGUAGE sql SECURITY DEFINER
        AS $$ INSERT INTO open VALUES (100, 'definer') RETURNING n $$;
      CREATE FUNCTION definer_any(text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN EXECUTE $1; END $$;
      CREATE FUNCTION invoker_any(text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE $1; END $$;
      CREATE PROCEDURE committing() LANGUAGE plpgsql
        AS $$ BEGIN COMMIT; INSERT INTO open VALUES (101, 'procedure'); COMMIT; END $$;
      CREATE FUNCTION noop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
      SELECT lo_from_bytea(4711, 'before')`);
  });
  afterAll(() => service.close());

  /** Everything a write could change, seen by a superuser. */
  async function state(): Promise<unknown> {
    const [placement] = (await service.engine.projects.list()).map((row) => row.placement);
    return onServer(
      server,
      async (client) => {
        const rows = async (text: string) => (await client.query<Record<string, unknown>>(text)).rows;
        return {
          open: await rows('SELECT * FROM data.open ORDER BY n'),
          typed: await rows('SELECT * FROM data.typed'),
          sequence: await rows('SELECT last_value, is_called FROM data.seq'),
          objects: await rows(
            `SELECT relname, relacl::text FROM pg_class
              WHERE relnamespace IN ('data'::regnamespace, 'lax'::regnamespace) ORDER BY 1`,
          ),
          functions: await rows(`SELECT proname FROM pg_proc WHERE pronamespace = 'data'::regnamespace ORDER BY 1`),
          largeObjects: await rows('SELECT oid, lo_get(oid) FROM pg_largeobject_metadata'),
          keys: await rows('SELECT count(*) FROM _cdp.idempotency_keys'),
          settings: await rows(`SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
            WHERE d.datname = current_database()`),
          comments: await rows(`SELECT count(*) FROM pg_description WHERE objoid = 'data.open'::regclass`),
        };
      },
      placement?.database,
    );
  }

  const ATTEMPTS = [
    "INSERT INTO open VALUES (3, 'x')",
    "INSERT INTO typed (name) VALUES ('x')",
    "UPDATE open SET s = 'x'",
    'DELETE FROM open',
    'TRUNCATE open',
    'MERGE INTO open USING (VALUES (9)) v(n) ON open.n = v.n WHEN NOT MATCHED THEN INSERT VALUES (v.n)',
    "WITH w AS (INSERT INTO open VALUES (4, 'x') RETURNING *) SELECT * FROM w",
    'CREATE TABLE made (n int)',
    'CREATE TEMP TABLE made (n int)',
    'SELECT 1 AS n INTO made',
    'CREATE TABLE made AS SELECT 1',
    'CREATE VIEW made AS SELECT 1',
    'CREATE FUNCTION made() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$',
    'DROP TABLE open',
    'ALTER TABLE open ADD COLUMN x int',
    "COMMENT ON TABLE open IS 'x'",
    'GRANT SELECT ON open TO PUBLIC',
    'CREATE INDEX ON open (s)',
    'CREATE TRIGGER made AFTER INSERT ON open EXECUTE FUNCTION noop()',
    "SELECT nextval('seq')",
    "SELECT setval('seq', 99)",
    'SELECT * FROM open FOR UPDATE',
    'SELECT * FROM open FOR SHARE',
    'SELECT definer_insert()',
    "SELECT definer_any('DELETE FROM open')",
    "SELECT definer_any('SET LOCAL transaction_read_only = off; DELETE FROM open')",
    "SELECT invoker_any('CREATE TEMP TABLE made (n int)')",
    'CALL committing()',
    "DO $$ BEGIN COMMIT; INSERT INTO open VALUES (5, 'x'); END $$",
    "DO $$ BEGIN ROLLBACK; INSERT INTO open VALUES (5, 'x'); COMMIT; END $$",
    "DO $$ BEGIN INSERT INTO open VALUES (5, 'x'); END $$",
    "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '25001'; END $$",
    "COMMIT; INSERT INTO open VALUES (6, 'x')",
    "ROLLBACK; BEGIN READ WRITE; INSERT INTO open VALUES (6, 'x'); COMMIT",
    "SET TRANSACTION READ WRITE; INSERT INTO open VALUES (7, 'x')",
    'SET TRANSACTION READ WRITE',
    "SET transaction_read_only = off; INSERT INTO open VALUES (7, 'x')",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT set_config('transaction_read_only', 'off', true); DELETE FROM open",
    "SET default_transaction_read_only = off; INSERT INTO open VALUES (8, 'x')",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; INSERT INTO open VALUES (8, 'x')",
    'VACUUM open',
    'CREATE INDEX CONCURRENTLY ON open (s)',
    "ALTER ROLE CURRENT_USER SET work_mem = '1MB'",
    "ALTER ROLE CURRENT_USER PASSWORD 'x'",
    'DROP OWNED BY CURRENT_USER',
    'ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC',
    'PREPARE p AS DELETE FROM open; EXECUTE p',
    'EXPLAIN ANALYZE DELETE FROM open',
    "COPY open FROM '/dev/null'",
    "COPY open TO '/tmp/cdp-should-not-exist'",
    'INSERT INTO _cdp.idempotency_keys VALUES ($$p$$, $$k$$, $$f$$, $$a$$)',
    "SELECT lo_put(4711, 0, 'after')",
    'SELECT lo_unlink(4711)',
    'REFRESH MATERIALIZED VIEW CONCURRENTLY nothing',
  ];

  describe.each(readers)('%s protects', (_name, read) => {
    it('existing data from every attempt to write', async () => {
      const before = await state();
      for (const text of ATTEMPTS) {
        const response = await read(text);
        expect({ text, refused: [400, 403].includes(response.status) }).toEqual({ text, refused: true });
      }
      expect(await state()).toEqual(before);
    });

    it('existing data from writes that Postgres does not refuse', async () => {
      const before = await state();
      // Postgres 15 does not refuse large objects in a read-only transaction; everything is rolled back.
      for (const text of [
        'SELECT lo_create(0)',
        "SELECT lo_from_bytea(0, 'x')",
        'SELECT lo_creat(-1)',
        "NOTIFY channel, 'x'",
        "SELECT pg_notify('channel', 'x')",
        'SET default_transaction_read_only = off',
        "SET search_path = 'pg_temp'",
        'SELECT pg_advisory_lock(42)',
        'LOCK TABLE open IN ACCESS EXCLUSIVE MODE',
        'EXPLAIN ANALYZE CREATE TABLE lax.made AS SELECT 1 AS n',
        'EXPLAIN ANALYZE CREATE MATERIALIZED VIEW lax.made AS SELECT 1 AS n',
        'EXPLAIN ANALYZE SELECT 1 AS n INTO lax.made',
        "SELECT definer_any('EXPLAIN ANALYZE CREATE TABLE lax.made AS SELECT 1 AS n')",
        // GRANT ALL has MAINTAIN in it since Postgres 17.
        'ANALYZE open',
        'CLUSTER open USING open_pkey',
        'REINDEX TABLE open',
        'PREPARE left_behind AS SELECT 1',
      ]) {
        await read(text);
      }
      expect(await state()).toEqual(before);
      const again = await read(`SELECT current_setting('default_transaction_read_only') AS ro,
        current_setting('search_path') AS path`);
      expectFailure(await read('EXECUTE left_behind'), 400, 'sql_error');
      expect(again.body.rows).toEqual([{ ro: 'on', path: 'data' }]);
      expect(await project.rows('SELECT pg_try_advisory_lock(42) AS free')).toEqual([{ free: true }]);
    });

    it('with 403 and the SQLSTATE if Postgres refuses the write', async () => {
      expect(expectFailure(await read('DELETE FROM open'), 403, 'permission_denied').postgres?.sqlstate).toBe('25006');
      const definer = expectFailure(await read('SELECT definer_insert()'), 403, 'permission_denied');
      expect(definer.postgres?.sqlstate).toBe('25006');
      expectFailure(await read('SELECT 1; DELETE FROM open'), 403, 'permission_denied');
    });
  });

  describe('works', () => {
    it('sees at once what the writer has just created', async () => {
      for (let i = 0; i < 3; i++) {
        const name = `fresh_${i}`;
        await project.rows(`
          CREATE TABLE ${name} (n int);
          INSERT INTO ${name} VALUES (${i});
          CREATE VIEW ${name}_view AS SELECT n FROM ${name};
          CREATE MATERIALIZED VIEW ${name}_mat AS SELECT n FROM ${name};
          CREATE TABLE ${name}_parts (n int) PARTITION BY RANGE (n);
          CREATE TABLE ${name}_part PARTITION OF ${name}_parts FOR VALUES FROM (0) TO (10);
          INSERT INTO ${name}_parts VALUES (${i});
          CREATE SEQUENCE ${name}_seq START ${i + 1};
          CREATE FUNCTION ${name}_fn() RETURNS int LANGUAGE sql AS $$ SELECT n FROM ${name} $$;
          CREATE TYPE ${name}_mood AS ENUM ('happy')`);
        const response = await sql(
          `SELECT (SELECT n FROM ${name}) AS a, (SELECT n FROM ${name}_view) AS b, (SELECT n FROM ${name}_mat) AS c,
             (SELECT n FROM ${name}_parts) AS d, (SELECT n FROM ${name}_part) AS e,
             (SELECT last_value FROM ${name}_seq) AS f, ${name}_fn() AS g, 'happy'::${name}_mood AS h`,
          readToken,
        );
        expect(response.body.rows).toEqual([{ a: i, b: i, c: i, d: i, e: i, f: i + 1, g: i, h: 'happy' }]);
      }
      await project.table('Typed_more', { name: 'TEXT' });
      expect((await sql('SELECT * FROM "Typed_more"', readToken)).body.rows).toEqual([]);
    });

    it('sees nothing uncommitted, and no temporary tables', async () => {
      expectFailure(await sql('CREATE TABLE undone (n int); SELECT 1 / 0', writeToken), 400, 'sql_error');
      expectFailure(await sql('SELECT * FROM undone', readToken), 400, 'sql_error');
      await project.rows('CREATE TEMP TABLE mine AS SELECT 1 AS n; SELECT * FROM mine');
      expectFailure(await sql('SELECT * FROM mine', readToken), 400, 'sql_error');
    });

    it('runs explain, show, cursors and several statements', async () => {
      expect((await sql('EXPLAIN ANALYZE SELECT * FROM open', readToken)).body.type).toBe('EXPLAIN');
      expect((await sql('SHOW transaction_read_only', readToken)).body.rows).toEqual([{ transaction_read_only: 'on' }]);
      const cursor = await sql('DECLARE c CURSOR FOR SELECT n FROM open ORDER BY n; FETCH ALL FROM c', readToken);
      expect(cursor.body.rows).toEqual([{ n: 1 }, { n: 2 }]);
    });
  });

  describe('scopes', () => {
    it('let sql:read read and sql:write write; the error names a missing one', async () => {
      expect((await sql('SELECT 1 AS n', readToken)).body.rows).toEqual([{ n: 1 }]);
      expect((await sql('SELECT 1 AS n', readToken, { read_only: true })).body.rows).toEqual([{ n: 1 }]);
      expect((await sql('SELECT 1 AS n', writeToken)).body.rows).toEqual([{ n: 1 }]);
      expect((await sql('SELECT 1 AS n', writeToken, { read_only: false })).body.rows).toEqual([{ n: 1 }]);

      const write = expectFailure(await sql('SELECT 1', readToken, { read_only: false }), 403, 'insufficient_scope');
      expect(write.message).toContain('sql:write');
      const read = expectFailure(await sql('SELECT 1', writeToken, { read_only: true }), 403, 'insufficient_scope');
      expect(read.message).toContain('sql:read');
      const neither = await project.tokenWith('schema:read', 'schema:write', 'data:write');
      expectFailure(await sql('SELECT 1', neither), 403, 'insufficient_scope');
    });

    it('run the reader under another role than the writer', async () => {
      const who = 'SELECT current_user AS who, session_user AS login';
      const [reader, writer] = await Promise.all([sql(who, readToken), sql(who, writeToken)]);
      const [[r], [w]] = [reader.body.rows, writer.body.rows] as [Record<string, string>[], Record<string, string>[]];
      expect(r?.who).toBe(r?.login);
      expect(w?.who).toBe(w?.login);
      expect(r?.who).not.toBe(w?.who);
    });
  });
});
