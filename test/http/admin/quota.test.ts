/**
 * The disk quota of a project: what is refused while it is exceeded, what still works, and what ends a statement that
 * exceeds it.
 */
import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startService } from '../../../src/service.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { sizesOf } from '../../../src/engine/projects/choose-server.js';
import {
  call,
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';
import { testServers } from '../../support/postgres.js';
import { NDJSON, until } from '../../support/stream.js';

/** The least there is; an empty project takes about half of it. */
const QUOTA = 16 * 1024 * 1024;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const sql = (project: TestProject, text: string, more: object = {}): Promise<TestResponse> =>
  project.call('POST', '/api/cdp/sql', { body: { sql: text, ...more } });

const insert = (project: TestProject, headers: Record<string, string> = {}): Promise<TestResponse> =>
  project.call('POST', '/api/cdp/data/notes', { body: [{ text: 'one more' }], headers });

describe.each(testServers().map((server) => [server.major, server] as const))('on Postgres %i', (major, server) => {
  let service: TestService;
  let project: TestProject;

  beforeAll(async () => {
    service = await startTestService({}, server);
  });

  afterAll(() => service.close());

  /** Some 24 MB in "ballast", a table "notes" with one row, and then a quota below that. */
  const fillProject = async () => {
    project = await service.project();
    await project.table('notes', { text: 'TEXT' });
    await project.table('ballast', { text: 'TEXT' });
    await insert(project);
    await project.rows(`
      INSERT INTO ballast (text) SELECT repeat('x', 1000) FROM generate_series(1, 20000);
      CREATE VIEW peek AS SELECT text FROM notes;
      CREATE FUNCTION reads() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM notes';
      CREATE FUNCTION writes() RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO notes (text) VALUES ('by a function'); RETURN true; END $$;
      CREATE FUNCTION hides() RETURNS text LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO notes (text) VALUES ('hidden'); RETURN 'wrote';
           EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
      CREATE PROCEDURE proceeds() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO notes (text) VALUES ('by a call'); END $$;
      CREATE SEQUENCE numbers`);
    await setQuota(QUOTA);
  };

  const setQuota = async (bytes: number) => {
    await service.engine.projects.setQuota(project.name, bytes, BY_ITSELF);
    project = await project.seenAnew();
  };

  /** What refused statements must not have changed. */
  const state = () =>
    project.rows(`SELECT (SELECT count(*) FROM notes) AS notes, (SELECT count(*) FROM ballast) AS ballast,
      (SELECT string_agg(relname || relnatts::text, ',' ORDER BY relname) FROM pg_class
       WHERE relnamespace = 'data'::regnamespace) AS relations,
      (SELECT count(*) FROM pg_largeobject_metadata) AS large_objects, (SELECT last_value FROM numbers) AS number`);

  describe('over the quota, works', () => {
    beforeEach(fillProject);

    it('every read', async () => {
      expect(await project.rows('SELECT text FROM notes')).toEqual([{ text: 'one more' }]);
      expect(await project.rows('SELECT reads() AS n')).toEqual([{ n: 1 }]);
      expect(await project.rows('EXPLAIN ANALYZE SELECT * FROM peek')).not.toEqual([]);
      expect(
        await project.rows('SET search_path = pg_catalog; SELECT current_schema() AS s, count(*) FROM data.notes'),
      ).toEqual([{ s: 'pg_catalog', count: 1 }]);
      expect(await project.rows('DO $$ BEGIN PERFORM reads(); END $$; SELECT 1 AS n')).toEqual([{ n: 1 }]);
      const cut = await sql(project, 'SELECT text FROM ballast; SELECT 2 AS n', { max_rows: 20 });
      expect(cut.body).toMatchObject({
        rows: [{ n: 2 }],
        results: [{ truncated: true, row_count: 20 }, { row_count: 1 }],
      });
      expect((await sql(project, 'SELECT count(*) FROM notes', { read_only: true })).status).toBe(200);
      expect((await project.call('GET', '/api/cdp/schema')).status).toBe(200);
      expect((await project.call('GET', '/api/cdp/schema/table/notes')).status).toBe(200);
    });

    it('a stream to its end', async () => {
      const response = await project.call('POST', '/api/cdp/sql', {
        body: { sql: 'SELECT text FROM ballast' },
        headers: { accept: NDJSON },
      });
      expect(response.text.trimEnd().split('\n').at(-1)).toBe('{"done":true,"row_count":20000}');
    });

    it('renaming and commenting, which need hardly any space', async () => {
      const path = '/api/cdp/schema/table/notes/column/text';
      expect((await project.call('PUT', path, { body: { new_name: 'words', comment: 'what was said' } })).status).toBe(
        200,
      );
    });

    it.each([
      ['TRUNCATE', 'TRUNCATE ballast'],
      ['DROP TABLE', 'DROP TABLE ballast'],
      ['a drop between reads', 'SELECT 1; DROP TABLE ballast; SELECT 2'],
    ])('%s, after which writes work at once', async (_title, text) => {
      expectFailure(await insert(project), 403, 'quota_exceeded');
      expect((await sql(project, text)).status).toBe(200);
      expect((await insert(project)).status).toBe(201);
      expect((await sql(project, "INSERT INTO notes (text) VALUES ('free')")).status).toBe(200);
      expect(await project.rows('SELECT count(*) AS n FROM notes')).toEqual([{ n: 3 }]);
    });

    it('a drop under a key, once', async () => {
      const request = { body: { sql: 'DROP TABLE ballast' }, headers: { 'Idempotency-Key': 'drop' } };
      for (let i = 0; i < 2; i++) expect((await project.call('POST', '/api/cdp/sql', request)).status).toBe(200);
      expect((await insert(project)).status).toBe(201);
    });

    it('dropping a table through its route', async () => {
      expect((await project.call('DELETE', '/api/cdp/schema/table/ballast')).status).toBe(200);
      expect((await insert(project)).status).toBe(201);
    });

    it.each([
      ['DELETE', 'DELETE FROM ballast'],
      ['a DELETE in a WITH clause', 'WITH gone AS (DELETE FROM ballast RETURNING 1) SELECT count(*) AS n FROM gone'],
      ['DELETE beside reads', 'SELECT 1; DELETE FROM ballast; SELECT reads()'],
    ])('%s, VACUUM FULL, and then writes', async (_title, text) => {
      expect((await sql(project, text)).status).toBe(200);
      expect(await project.rows('SELECT count(*) AS n FROM ballast')).toEqual([{ n: 0 }]);
      // Postgres keeps what a running autovacuum may still see, so it may take another one.
      const afterVacuum = async () => {
        expect((await sql(project, 'VACUUM FULL ballast')).status).toBe(200);
        return (await insert(project)).status;
      };
      await expect.poll(afterVacuum, { timeout: 20_000 }).toBe(201);
    });

    it('dropping columns and constraints, by SQL and through routes', async () => {
      expect(
        (await sql(project, 'ALTER TABLE notes DROP CONSTRAINT notes_pkey, DROP COLUMN text CASCADE')).status,
      ).toBe(200);
      expect((await project.call('DELETE', '/api/cdp/schema/table/ballast/column/text')).status).toBe(200);
      expect((await sql(project, 'VACUUM FULL')).status).toBe(200);
      expect((await sql(project, 'INSERT INTO notes DEFAULT VALUES')).status).toBe(200);
    });

    it('REINDEX and CLUSTER', async () => {
      const node = () => project.rows("SELECT pg_relation_filenode('ballast_pkey') AS node");
      const before = await node();
      expect((await sql(project, 'REINDEX TABLE ballast')).status).toBe(200);
      const between = await node();
      expect(between).not.toEqual(before);
      expect((await sql(project, 'CLUSTER ballast USING ballast_pkey')).status).toBe(200);
      expect(await node()).not.toEqual(between);
    });

    it('a repeated batch, answered as before', async () => {
      await setQuota(0);
      const key = { 'idempotency-key': 'a-1' };
      const first = await insert(project, key);
      expect(first.status).toBe(201);
      await setQuota(QUOTA);
      const repeat = await insert(project, key);
      expect(repeat.status).toBe(201);
      expect(repeat.headers.get('idempotency-replayed')).toBe('true');
      expect(repeat.text).toBe(first.text);
      expectFailure(await insert(project, { 'idempotency-key': 'a-2' }), 403, 'quota_exceeded');
      expect(await project.rows('SELECT count(*) AS n FROM notes')).toEqual([{ n: 2 }]);
    });
  });

  describe('over the quota, refuses', () => {
    // Nothing changes it.
    beforeAll(fillProject);

    it('a read under a key, whose response could not be stored, but not its repeat', async () => {
      const read = (key: string) =>
        project.call('POST', '/api/cdp/sql', {
          body: { sql: 'SELECT reads() AS n' },
          headers: { 'Idempotency-Key': key },
        });
      await setQuota(0);
      const first = await read('stored');
      expect(first.status, first.text).toBe(200);
      await setQuota(QUOTA);
      const repeat = await read('stored');
      expect(repeat.headers.get('idempotency-replayed')).toBe('true');
      expect(repeat.text).toBe(first.text);
      expect(expectFailure(await read('new'), 403, 'quota_exceeded').hint).toBe(
        'Send a request that only reads without an Idempotency-Key.',
      );
    });

    it('what an EXPLAIN ANALYZE creates, next to a delete that is kept', async () => {
      const text =
        "DELETE FROM notes WHERE text = 'x'; EXPLAIN ANALYZE CREATE TABLE made AS SELECT 1 AS n; SELECT 1 AS n";
      expect((await sql(project, text)).status).toBe(200);
      expect(await project.rows("SELECT to_regclass('made') AS made")).toEqual([{ made: null }]);
    });

    it('inserts and everything that makes tables larger, with the size and the quota', async () => {
      const before = await state();
      const body = expectFailure(await insert(project), 403, 'quota_exceeded');
      expect(body.message).toMatch(/^The project uses \d+\.\d MB of disk; its quota is 16MB$/);
      expect(body.hint).toMatch(/TRUNCATE/);
      expectFailure(await insert(project, { 'idempotency-key': 'k' }), 403, 'quota_exceeded');
      const calls: [string, string, object][] = [
        ['POST', '/api/cdp/data/notes?return=ids', [{ text: 'a' }]],
        ['POST', '/api/cdp/schema/table', { table_name: 'more', columns: [{ name: 'a', type: 'TEXT' }] }],
        ['POST', '/api/cdp/schema/table/notes/column', { name: 'a', type: 'TEXT' }],
        ['PUT', '/api/cdp/schema/table/notes/column/text', { new_type: 'JSONB' }],
      ];
      for (const [method, path, sent] of calls) {
        expectFailure(await project.call(method, path, { body: sent }), 403, 'quota_exceeded');
      }
      expect(await state()).toEqual(before);
    });

    it.each([
      ["INSERT INTO notes (text) VALUES ('a')"],
      ["INSERT INTO notes (text) VALUES ('a') RETURNING id"],
      ["UPDATE notes SET text = 'changed'"],
      ["MERGE INTO notes USING (SELECT 1) AS s ON false WHEN NOT MATCHED THEN INSERT (text) VALUES ('a')"],
      ["WITH new AS (INSERT INTO notes (text) VALUES ('a') RETURNING id) SELECT * FROM new"],
      ["WITH new AS (INSERT INTO notes (text) VALUES ('a')) DELETE FROM ballast"],
      ["WITH gone AS (DELETE FROM ballast) INSERT INTO notes (text) VALUES ('a')"],
      ["WITH gone AS (DELETE FROM ballast RETURNING text), new AS (UPDATE notes SET text = 'b') SELECT 1 FROM gone"],
      ['WITH gone AS (DELETE FROM ballast RETURNING text) SELECT * INTO copy FROM gone'],
      ['CREATE TABLE copy AS SELECT * FROM ballast'],
      ['CREATE TEMP TABLE copy AS SELECT * FROM ballast'],
      ['SELECT * INTO copy FROM ballast'],
      ['CREATE TABLE more (a int)'],
      ['CREATE MATERIALIZED VIEW copy AS SELECT * FROM ballast'],
      ['CREATE INDEX ON ballast (text)'],
      ['CREATE INDEX CONCURRENTLY ON ballast (text)'],
      ['ALTER TABLE notes ADD COLUMN more text'],
      ['ALTER TABLE notes DROP COLUMN text CASCADE, ADD COLUMN more text'],
      ['ALTER TABLE notes ALTER COLUMN text TYPE varchar'],
      ["COMMENT ON TABLE notes IS 'long'"],
      ['SELECT writes()'],
      ['SELECT text FROM notes WHERE writes()'],
      ['VALUES (writes())'],
      ['EXPLAIN ANALYZE SELECT writes()'],
      ["EXPLAIN ANALYZE INSERT INTO notes (text) VALUES ('a')"],
      ['EXPLAIN ANALYZE DELETE FROM ballast'],
      ['CALL proceeds()'],
      ["DO $$ BEGIN INSERT INTO notes (text) VALUES ('a'); END $$"],
      ["DO $$ BEGIN EXECUTE 'DELETE FROM ballast'; END $$"],
      ['DECLARE held CURSOR WITH HOLD FOR SELECT writes(); FETCH ALL FROM held'],
      ["PREPARE adds AS INSERT INTO notes (text) VALUES ('a'); EXECUTE adds"],
      ["SELECT nextval('numbers')"],
      ["SELECT lo_from_bytea(0, 'abc')"],
      ["SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; INSERT INTO notes (text) VALUES ('a')"],
      ["SELECT 1; INSERT INTO notes (text) VALUES ('a')"],
      ["DELETE FROM ballast; INSERT INTO notes (text) VALUES ('a')"],
      ['DROP TABLE ballast; SELECT writes()'],
      ['SELECT writes(); TRUNCATE ballast'],
      ["TRUNCATE ballast; UPDATE notes SET text = 'b'; SELECT 1"],
    ])('%s', async (text) => {
      const before = await state();
      expectFailure(await sql(project, text), 403, 'quota_exceeded');
      expect(await state()).toEqual(before);
    });

    it('a write in a stream', async () => {
      const before = await state();
      const response = await project.call('POST', '/api/cdp/sql', {
        body: { sql: "INSERT INTO notes (text) VALUES ('a') RETURNING text" },
        headers: { accept: NDJSON },
      });
      expectFailure(response, 403, 'quota_exceeded');
      expect(await state()).toEqual(before);
    });

    it.each([
      ['SET TRANSACTION READ WRITE', 400, 'sql_error'],
      ["SELECT set_config('transaction_read_only', 'off', true)", 400, 'sql_error'],
      ['RELEASE SAVEPOINT cdp_quota', 400, 'statement_not_allowed'],
      ['ROLLBACK TO SAVEPOINT cdp_quota', 400, 'statement_not_allowed'],
      ['SELECT broken syntax from (', 400, 'sql_error'],
    ])('%s, before a write', async (text, status, code) => {
      const before = await state();
      expectFailure(await sql(project, text), status, code);
      expect((await sql(project, `${text}; INSERT INTO notes (text) VALUES ('a')`)).status).toBeGreaterThanOrEqual(400);
      expect(await state()).toEqual(before);
    });

    it('a write whose error is caught by the function that writes', async () => {
      const before = await state();
      expect(await project.rows('SELECT hides() AS said')).toEqual([{ said: '25006' }]);
      expect(await state()).toEqual(before);
    });
  });

  // The service measures and cancels the same way on each major.
  if (major !== 18) return;

  describe('protects', () => {
    /** Quota and margin: beyond them running work is ended. */
    const room = 80 * 1024 * 1024;

    /** After much work, nobody waits for the next look. */
    const isSeenOverQuota = () =>
      expect
        .poll(async () => (await sql(project, 'INSERT INTO notes SELECT WHERE false')).status, { timeout: 20_000 })
        .toBe(403);

    const sizeOnDisk = async () =>
      (await sizesOf(service.engine.servers, await service.engine.projects.list())).get(project.id);

    beforeEach(async () => {
      await fillProject();
      await project.rows('TRUNCATE ballast');
    });

    it.each([
      [
        'a statement',
        "INSERT INTO notes (text) SELECT repeat('x', 1000) FROM (SELECT generate_series(1, 1000000000)) AS g",
      ],
      ['a function', 'SELECT fill() FROM generate_series(1, 1000000)'],
      ['one that catches its end', 'SELECT stubborn()'],
      [
        'CREATE TABLE AS',
        "CREATE TABLE copy AS SELECT repeat('x', 1000) AS x FROM (SELECT generate_series(1, 1000000000)) AS g",
      ],
      [
        'a temporary table',
        "CREATE TEMP TABLE copy AS SELECT repeat('x', 1000) FROM (SELECT generate_series(1, 1000000000)) AS g",
      ],
    ])('the disk from %s that never ends', async (_title, text) => {
      await project.rows(`
        CREATE FUNCTION fill() RETURNS void LANGUAGE sql AS
          $$ INSERT INTO notes (text) SELECT repeat('x', 1000) FROM generate_series(1, 1000) $$;
        CREATE FUNCTION stubborn() RETURNS void LANGUAGE plpgsql AS $$ BEGIN LOOP
          BEGIN PERFORM fill(); EXCEPTION WHEN query_canceled THEN NULL; END;
        END LOOP; END $$`);
      const body = expectFailure(await sql(project, text, { timeout_ms: 60_000 }), 403, 'quota_exceeded');
      expect(body.message).toMatch(/canceled and rolled back: with it, the project used .* its quota is 16MB$/);
      expect(await project.rows('SELECT count(*) AS n FROM notes')).toEqual([{ n: 1 }]);
      expect(await project.rows("SELECT to_regclass('copy') AS copy")).toEqual([{ copy: null }]);
      // What was rolled back is dead space, in a table that was there before.
      expect((await sql(project, 'VACUUM FULL notes')).status).toBe(200);
      expect(await sizeOnDisk()).toBeLessThan(QUOTA);
      expect((await insert(project)).status).toBe(201);
    });

    it('the disk from a trigger that a batch fires', async () => {
      await project.rows(`
        CREATE FUNCTION floods() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          INSERT INTO ballast (text) SELECT repeat('x', 1000) FROM (SELECT generate_series(1, 1000000000)) AS g; RETURN NEW; END $$;
        CREATE TRIGGER flood BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION floods()`);
      expectFailure(await insert(project), 403, 'quota_exceeded');
      expect(
        await project.rows('SELECT (SELECT count(*) FROM notes) AS n, (SELECT count(*) FROM ballast) AS b'),
      ).toEqual([{ n: 1, b: 0 }]);
    });

    it('the disk from a stream of inserted rows', async () => {
      const endless = `INSERT INTO notes (text) SELECT repeat('x', 1000) FROM (SELECT generate_series(1, 1000000000)) AS g RETURNING 1`;
      const response = await project.call('POST', '/api/cdp/sql', {
        body: { sql: endless },
        headers: { accept: NDJSON },
      });
      // Postgres gives the rows of an INSERT … RETURNING out when all are there, so that none had gone out.
      expectFailure(response, 403, 'quota_exceeded');
      expect(await project.rows('SELECT count(*) AS n FROM notes')).toEqual([{ n: 1 }]);
    });

    it('the disk from writes next to deletes: beyond a margin, only drops are allowed', async () => {
      await project.rows(`
        CREATE FUNCTION grows() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
          INSERT INTO ballast (text) SELECT repeat('x', 1000) FROM generate_series(1, 40000); RETURN false; END $$;
        INSERT INTO ballast (text) SELECT repeat('x', 1000) FROM generate_series(1, 20000)`);
      await isSeenOverQuota();
      expectFailure(await insert(project), 403, 'quota_exceeded');
      const grow = async () => {
        const response = await sql(project, 'DELETE FROM notes WHERE grows()');
        return response.status === 200 ? 'done' : expectFailure(response, 403, 'quota_exceeded').message;
      };
      // Each adds some 46 MB. How many get through is bounded, and a slow one is canceled as soon as the size is seen:
      // then none begins.
      const tried = [await grow()];
      while (!/grow further/.test(tried.at(-1) ?? '')) {
        expect(tried.at(-1)).toMatch(/^done$|canceled and rolled back/);
        tried.push(await grow());
        expect(tried.length).toBeLessThan(7);
      }
      expect(tried.filter((what) => what === 'done').length).toBeLessThan(5);
      const size = Number(await sizeOnDisk());
      expect(size).toBeLessThan(4 * room);
      expect(await grow()).toMatch(/grow further/);
      expect(await sizeOnDisk()).toBeLessThan(size + 2 ** 20);
      expectFailure(await sql(project, 'DROP TABLE notes; DELETE FROM ballast'), 403, 'quota_exceeded');
      expectFailure(
        await sql(project, 'DECLARE c CURSOR WITH HOLD FOR SELECT grows(); DROP TABLE notes CASCADE'),
        403,
        'quota_exceeded',
      );
      expect(await project.rows('SELECT count(*) AS n FROM notes')).toEqual([{ n: 1 }]);
      expect((await sql(project, 'DROP TABLE ballast')).status).toBe(200);
      expect((await insert(project)).status).toBe(201);
    });

    it('a VACUUM FULL that needs the table twice for a while', async () => {
      await project.rows("INSERT INTO ballast (text) SELECT repeat('x', 1000) FROM generate_series(1, 60000)");
      await isSeenOverQuota();
      expectFailure(await insert(project), 403, 'quota_exceeded');
      expect((await sql(project, 'VACUUM FULL ballast')).status).toBe(200);
    });

    it('a project from the quota of its neighbor', async () => {
      const neighbour = await service.project();
      await neighbour.table('notes', { text: 'TEXT' });
      await project.rows("INSERT INTO ballast (text) SELECT repeat('x', 1000) FROM generate_series(1, 20000)");
      // The next look at a project that had room may be two seconds away.
      await expect.poll(async () => (await insert(project)).status, { timeout: 10_000 }).toBe(403);
      expectFailure(await insert(project), 403, 'quota_exceeded');
      expect((await insert(neighbour)).status).toBe(201);
    });
  });
});

describe('the quota of a project', () => {
  let service: TestService;
  let admin: string;

  beforeAll(async () => {
    service = await startTestService({ 'project-quota': '16MB' });
    ({ token: admin } = await service.engine.tokens.create(null));
  });

  afterAll(() => service.close());

  const setQuota = (name: string, quota: unknown, token = admin) =>
    service.call('PUT', `/api/cdp/admin/projects/${name}/quota`, { body: { quota }, token });

  const filled = async () => {
    const project = await service.project();
    await project.table('notes', { text: 'TEXT' });
    await project.rows("INSERT INTO notes (text) SELECT repeat('x', 1000) FROM generate_series(1, 20000)");
    return project;
  };

  const shown = async (name: string) => {
    const response = await service.call('GET', '/api/cdp/admin/projects', { token: admin });
    return (response.body.projects as { name: string; quota: string; size_bytes: number }[]).find(
      (project) => project.name === name,
    );
  };

  it('is the setting, its own, or none, and a change takes effect within a second', async () => {
    const project = await filled();
    await until(async () => (await insert(project)).status === 403, 10_000);
    expect(await shown(project.name)).toMatchObject({ quota: 'default', size_bytes: expect.any(Number) as number });
    for (const [quota, status] of [
      ['1GB', 201],
      ['default', 403],
      ['none', 201],
      ['20mb', 403],
    ] as const) {
      const response = await setQuota(project.name, quota);
      expect(response.body).toMatchObject({ success: true, message: 'quota set', project: { name: project.name } });
      await sleep(1_000);
      expect((await insert(project)).status).toBe(status);
    }
    expect(await shown(project.name)).toMatchObject({ quota: '20MB' });
    expect((await shown(project.name))?.size_bytes).toBeGreaterThan(20 * 1024 * 1024);
  });

  it('applies on every instance, each by its own measurement', async () => {
    const project = await filled();
    const second = await startService(service.config, pino({ level: 'silent' }));
    const at = (url: string, text: string) =>
      call(url, 'POST', '/api/cdp/sql', { token: project.token, body: { sql: text } });
    try {
      const add = "INSERT INTO notes (text) VALUES ('a')";
      expectFailure(await at(second.url, add), 403, 'quota_exceeded');
      expect((await at(service.url, 'TRUNCATE notes')).status).toBe(200);
      await until(async () => (await at(second.url, add)).status === 200, 5_000);
    } finally {
      await second.close();
    }
  });

  it('includes what is in the quarantine', async () => {
    const project = await service.project();
    await project.table('numbers', { n: 'INTEGER' });
    const batch = () => Array.from({ length: 250 }, () => ({ n: randomBytes(10_000).toString('base64') }));
    const path = '/api/cdp/data/numbers?on_error=quarantine';
    let response = await project.call('POST', path, { body: batch() });
    expect(response.body).toMatchObject({ inserted_rows: 0, quarantined_rows: 250 });
    await until(async () => {
      response = await project.call('POST', path, { body: batch() });
      return response.status !== 201;
    }, 30_000);
    expectFailure(response, 403, 'quota_exceeded');
    expectFailure(
      await project.call('POST', '/api/cdp/quarantine/replay', { body: { table: 'numbers' } }),
      403,
      'quota_exceeded',
    );
    expect((await project.call('GET', '/api/cdp/quarantine?limit=1')).body.records).toHaveLength(1);
    const dropped = await project.call('DELETE', '/api/cdp/quarantine?all=true');
    expect(dropped.body.deleted_rows).toBeGreaterThanOrEqual(250);
  });

  it('is not a label in the metrics, which count the projects over their quota', async () => {
    const project = await filled();
    await until(async () => (await insert(project)).status === 403, 10_000);
    const { text } = await service.call('GET', '/metrics');
    expect(Number(/^cdp_projects_over_quota (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(0);
    expect(text).not.toContain(project.name);
  });

  it('is refused if it is invalid, and stays what it was', async () => {
    const project = await service.project();
    for (const quota of ['', '5', '5GBs', '-1GB', '1.5GB', '15MB', '1025TB', ' 1GB', 'off', 0, null, 5]) {
      expectFailure(await setQuota(project.name, quota), 400, 'invalid_request');
    }
    expectFailure(await setQuota('nobody', '1GB'), 404, 'not_found');
    expectFailure(await setQuota(project.name, '1GB', project.token), 403, 'insufficient_scope');
    expect(await shown(project.name)).toMatchObject({ quota: 'default' });
  });
});
