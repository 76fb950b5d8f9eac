/** Free SQL over HTTP (contract C13, C14): responses, tags, transactions, refusals. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { RowCollector } from '../../../src/engine/sql/row-collector.js';
import {
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';
import { freeSql } from '../../support/sql.js';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
});
afterAll(() => service.close());
beforeEach(() => run('DROP TABLE IF EXISTS t; CREATE TABLE t (n int, s text)'));

const { sql, run } = freeSql(() => project);

const content = () => project.rows('SELECT n, s FROM t ORDER BY n');

describe('works', () => {
  it('with exactly six fields', async () => {
    const response = await sql('SELECT 1 AS n, $1::text AS s', { params: ['é'] });
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    expect(response.body).toEqual({
      success: true,
      type: 'SELECT',
      rows: [{ n: 1, s: 'é' }],
      row_count: 1,
      columns: [
        { name: 'n', type: 'integer' },
        { name: 's', type: 'TEXT' },
      ],
      truncated: false,
    });
  });

  it("names a statement by Postgres's command tag without its counts, and reports the affected rows", async () => {
    const cases: [text: string, type: string, rowCount: number, affected?: number][] = [
      ['SELECT 1 UNION SELECT 2', 'SELECT', 2],
      ['(SELECT 1)', 'SELECT', 1],
      ['TABLE t', 'SELECT', 0],
      ['VALUES (1), (2), (3)', 'SELECT', 3],
      ["INSERT INTO t VALUES (1, 'a'), (2, 'b')", 'INSERT', 2, 2],
      ['INSERT INTO t VALUES (3) RETURNING n', 'INSERT', 1, 1],
      ['WITH x AS (SELECT 4) INSERT INTO t SELECT * FROM x', 'INSERT', 1, 1],
      ['WITH x AS (INSERT INTO t VALUES (5), (6) RETURNING n) SELECT count(*) FROM x', 'SELECT', 1],
      ['UPDATE t SET s = $$x$$ WHERE n < 3', 'UPDATE', 2, 2],
      ['UPDATE t SET s = $$y$$ WHERE n < 3 RETURNING *', 'UPDATE', 2, 2],
      ['DELETE FROM t WHERE n > 100', 'DELETE', 0, 0],
      ['DELETE FROM t WHERE n = 6 RETURNING n', 'DELETE', 1, 1],
      [
        'MERGE INTO t USING (VALUES (5), (7)) v(n) ON t.n = v.n WHEN NOT MATCHED THEN INSERT VALUES (v.n)',
        'MERGE',
        1,
        1,
      ],
      [
        'MERGE INTO t USING (VALUES (8)) v(n) ON false WHEN NOT MATCHED THEN INSERT VALUES (v.n) RETURNING t.n',
        'MERGE',
        1,
        1,
      ],
      ['CREATE TABLE made AS SELECT generate_series(1, 4) AS g', 'SELECT', 4],
      ['SELECT g INTO made2 FROM made', 'SELECT', 4],
      ['EXPLAIN (COSTS off) SELECT 1', 'EXPLAIN', 1],
      ['SHOW search_path', 'SHOW', 1],
      ["SET work_mem = '8MB'", 'SET', 0],
      ['RESET work_mem', 'RESET', 0],
      ['DO $$ BEGIN PERFORM 1; END $$', 'DO', 0],
      ['CREATE PROCEDURE p(INOUT a int) LANGUAGE sql AS $$ SELECT a + 1 $$', 'CREATE PROCEDURE', 0],
      ['CALL p(41)', 'CALL', 1],
      ['CREATE INDEX ON t (n)', 'CREATE INDEX', 0],
      ['CREATE VIEW v AS SELECT 1 AS one', 'CREATE VIEW', 0],
      ['CREATE MATERIALIZED VIEW mv AS SELECT generate_series(1, 2)', 'SELECT', 2],
      ['REFRESH MATERIALIZED VIEW mv', 'REFRESH MATERIALIZED VIEW', 0],
      ['ALTER TABLE t ADD COLUMN extra int', 'ALTER TABLE', 0],
      ["COMMENT ON TABLE t IS 'c'", 'COMMENT', 0],
      ['GRANT SELECT ON t TO PUBLIC', 'GRANT', 0],
      ['TRUNCATE t', 'TRUNCATE TABLE', 0],
      ['ANALYZE t', 'ANALYZE', 0],
      ['DROP TABLE made, made2', 'DROP TABLE', 0],
    ];
    for (const [text, type, row_count, affected] of cases) {
      const body = await run(text);
      expect({ text, type: body.type, row_count: body.row_count, affected: body.affected_rows }).toEqual({
        text,
        type,
        row_count,
        affected,
      });
    }
  });

  it('runs prepared statements and cursors within a request', async () => {
    const prepared = await run('PREPARE q(int) AS SELECT $1 * 2 AS twice; EXECUTE q(21)');
    expect(prepared).toMatchObject({ type: 'SELECT', rows: [{ twice: 42 }] });
    expect((prepared.results as { type: string }[])[0]?.type).toBe('PREPARE');
    const insert = await run('PREPARE i AS INSERT INTO t VALUES (1), (2) RETURNING n; EXECUTE i');
    expect(insert).toMatchObject({ type: 'INSERT', rows: [{ n: 1 }, { n: 2 }], affected_rows: 2 });
    const cursor = await run(
      'DECLARE c CURSOR FOR SELECT generate_series(1, 10) AS g; FETCH 2 FROM c; MOVE 3 FROM c; FETCH FROM c; CLOSE c',
    );
    expect((cursor.results as object[]).map((result) => ({ ...result, columns: undefined }))).toMatchObject([
      { type: 'DECLARE CURSOR', rows: [], row_count: 0 },
      { type: 'FETCH', rows: [{ g: 1 }, { g: 2 }], row_count: 2 },
      { type: 'MOVE', rows: [], row_count: 3 },
      { type: 'FETCH', rows: [{ g: 6 }], row_count: 1 },
      { type: 'CLOSE CURSOR', rows: [], row_count: 0 },
    ]);
  });

  it('runs statements outside a transaction that Postgres refuses inside one', async () => {
    expect(await run('VACUUM t')).toMatchObject({ type: 'VACUUM', rows: [], row_count: 0 });
    expect(await run('VACUUM (ANALYZE) t;')).toMatchObject({ type: 'VACUUM' });
    expect(await run('CREATE INDEX CONCURRENTLY t_n ON t (n)')).toMatchObject({ type: 'CREATE INDEX' });
    expect(await run('REINDEX TABLE CONCURRENTLY t')).toMatchObject({ type: 'REINDEX' });
    expect(await run('DROP INDEX CONCURRENTLY t_n')).toMatchObject({ type: 'DROP INDEX' });
    const among = expectFailure(await sql('VACUUM t; SELECT 1'), 400, 'sql_error');
    expect(among.postgres?.sqlstate).toBe('25001');
  });

  it('lists the warnings of Postgres, those of the commit too, and nothing else that it says', async () => {
    const { warnings } = (await sql('VACUUM pg_catalog.pg_authid')).body as { warnings: unknown };
    expect(warnings).toEqual([
      { code: expect.any(String) as string, message: expect.stringContaining('skipping it') as string },
    ]);
    await run(`CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE WARNING 'at % of %', TG_OP, NEW.n USING DETAIL = 'of the row', HINT = 'look', ERRCODE = '01004';
        RAISE NOTICE 'not this';
        RAISE INFO 'WARNING';
        RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER late AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION warn()`);
    const warning = { code: '01004', message: 'at INSERT of 1', detail: 'of the row', hint: 'look' };
    expect(await run('SET client_min_messages = debug1; INSERT INTO t VALUES (1); SELECT 1')).toMatchObject({
      type: 'SELECT',
      warnings: [warning],
    });
    expect((await sql('SELECT 1 FROM t')).body).not.toHaveProperty('warnings');
    await run('DROP TABLE t; DROP FUNCTION warn');
  });

  it('limits the number and the length of warnings', async () => {
    const { warnings } = (await run(`DO $$ BEGIN
      FOR i IN 1..25 LOOP RAISE WARNING '%', repeat('x', 100000) USING ERRCODE = '57P01'; END LOOP; END $$`)) as {
      warnings: { code: string; message: string }[];
    };
    expect(warnings).toHaveLength(21);
    expect(warnings[0]).toEqual({ code: '57P01', message: `${'x'.repeat(1_000)}…` });
    expect(warnings[20]).toEqual({ code: '01000', message: '5 more warnings left out' });
  });

  it('returns the rows of the last of several statements and lists all results', async () => {
    const body = await run("INSERT INTO t VALUES (1, 'a;b'); SELECT s FROM t; UPDATE t SET n = 2");
    expect(body).toMatchObject({ type: 'UPDATE', rows: [], row_count: 1, affected_rows: 1 });
    expect(body.results).toEqual([
      { type: 'INSERT', rows: [], row_count: 1, columns: [], truncated: false, affected_rows: 1 },
      { type: 'SELECT', rows: [{ s: 'a;b' }], row_count: 1, columns: [{ name: 's', type: 'TEXT' }], truncated: false },
      { type: 'UPDATE', rows: [], row_count: 1, columns: [], truncated: false, affected_rows: 1 },
    ]);
  });

  it('keeps the values of columns with the same name, in either row mode', async () => {
    const text = 'SELECT 1 AS id, 2 AS id, 3 AS "id_2", 4 AS id';
    const [row] = (await run(text)).rows as object[];
    expect(Object.entries(row ?? {})).toEqual([
      ['id', 1],
      ['id_3', 2],
      ['id_2', 3],
      ['id_4', 4],
    ]);
    const body = await run('SELECT 1 AS id, 2 AS id', { row_mode: 'array' });
    expect(body.rows).toEqual([[1, 2]]);
    expect((body.columns as { name: string }[]).map(({ name }) => name)).toEqual(['id', 'id_2']);
    expect((await run('SELECT 1 AS id, 2 AS id')).rows).toEqual([{ id: 1, id_2: 2 }]);
  });

  it('writes the numbers of a column in one form on request, in every kind of response', async () => {
    const columns = `9007199254740993::bigint AS big, 7::bigint AS small, 1.50 AS exact, 2::int AS n`;
    const forms = {
      raw: '{"big":9007199254740993,"small":7,"exact":1.50,"n":2}',
      string: '{"big":"9007199254740993","small":"7","exact":"1.50","n":2}',
    };
    for (const [numbers, row] of Object.entries(forms)) {
      for (const text of [`SELECT ${columns.toLowerCase()}`, `SELECT ${columns} WHERE true`]) {
        expect((await sql(text, { numbers })).text).toContain(`"rows":[${row}]`);
      }
      const headers = { accept: 'application/x-ndjson' };
      const body = { sql: `SELECT ${columns}`, numbers };
      const stream = await project.call('POST', '/api/cdp/sql', { body, headers });
      expect(stream.text).toBe(`${row}\n{"done":true,"row_count":1}\n`);
    }
  });

  it('keeps long rows, which a thread encodes, in order with the short ones, in every kind of response', async () => {
    const text = `SELECT g AS n, CASE WHEN g % 3 = 0 THEN array_fill(g + 0.5::float8, ARRAY[60000]) END AS a
      FROM generate_series(1, 8) g`;
    const expected = [1, 2, 3, 4, 5, 6, 7, 8].map((n) => ({
      n,
      a: n % 3 === 0 ? Array.from({ length: 60_000 }, () => n + 0.5) : null,
    }));
    const long = vi.spyOn(RowCollector.prototype, 'takeLongRow');
    expect((await run(text)).rows).toEqual(expected);
    expect(long).toHaveBeenCalledTimes(2);
    long.mockRestore();
    expect((await run(text, { max_rows: 3 })).rows).toEqual(expected.slice(0, 3));
    expect(await run(`${text}; SELECT 1 AS one`)).toMatchObject({
      rows: [{ one: 1 }],
      results: [{ row_count: 8 }, {}],
    });
    const streams = { ndjson: '\n{"done":true,"row_count":8}\n', csv: '' };
    for (const [type, ending] of Object.entries(streams)) {
      const headers = { accept: type === 'csv' ? 'text/csv' : 'application/x-ndjson' };
      const stream = await project.call('POST', '/api/cdp/sql', { body: { sql: text }, headers });
      const rows =
        type === 'csv'
          ? `n,a\n${expected.map(({ n, a }) => `${n},${a === null ? '' : `"${JSON.stringify(a)}"`}\n`).join('')}`
          : expected.map((row) => JSON.stringify(row)).join('\n');
      expect(stream.text === rows + ending).toBe(true);
    }
  });

  it('returns rows without columns', async () => {
    const body = await run('SELECT FROM generate_series(1, 3)');
    expect(body).toMatchObject({ type: 'SELECT', rows: [{}, {}, {}], row_count: 3, columns: [] });
    expect((await run('SELECT FROM generate_series(1, 3)', { row_mode: 'array' })).rows).toEqual([[], [], []]);
  });

  it("shows types by the API's names, and other types by Postgres's names", async () => {
    await run(`DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('happy')`);
    const { columns, rows } = await run(`SELECT 1::bigint AS a, 1.5::numeric(6,2) AS b, 'x'::varchar(9) AS c,
      'happy'::mood AS d, '{1,2}'::int[] AS e, now() AS f, '1 day'::interval AS g, ARRAY['happy'::mood] AS h`);
    expect((columns as { type: string }[]).map(({ type }) => type)).toEqual([
      'INTEGER',
      'numeric(6,2)',
      'character varying(9)',
      'mood',
      'integer[]',
      'TIMESTAMP',
      'interval',
      'mood[]',
    ]);
    expect(rows).toMatchObject([{ b: 1.5, c: 'x', d: 'happy', e: [1, 2], g: '1 day' }]);
  });

  it('accepts a text of 1 MiB and 100 statements', async () => {
    const fill = (size: number) => `SELECT 1 AS one /*${'x'.repeat(size - 20)}*/`;
    expect(Buffer.byteLength(fill(1024 * 1024))).toBe(1024 * 1024);
    expect((await run(fill(1024 * 1024))).rows).toEqual([{ one: 1 }]);
    const hundred = await run(Array.from({ length: 100 }, (_, i) => `SELECT ${i} AS i`).join(';'));
    expect(hundred.results).toHaveLength(100);
    expect(hundred.rows).toEqual([{ i: 99 }]);
  });

  it('executes a statement once, whatever the size of its rows', async () => {
    await run(`CREATE FUNCTION log_size(size int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO t VALUES (size); RETURN repeat('x', size); END $$`);
    const call = 'SELECT log_size($1) FROM generate_series(1, $2)';
    await run(call, { params: [1, 1] });
    expect(await run(call, { params: [100_000, 20] })).toMatchObject({ row_count: 20, truncated: false });
    expect(await project.rows('SELECT n, count(*) AS c FROM t GROUP BY n ORDER BY n')).toEqual([
      { n: 1, c: 1 },
      { n: 100_000, c: 20 },
    ]);
  });
});

describe('protects', () => {
  it('by undoing all statements if a later one fails, and says where in the whole text', async () => {
    await run("INSERT INTO t VALUES (0, 'before')");
    const before = "INSERT INTO t VALUES (1, 'é😀'); /* — */ UPDATE t SET s = 'x';\n";
    const text = `${before}SELECT nothing FROM t; DELETE FROM t`;
    const { postgres, message } = expectFailure(await sql(text), 400, 'sql_error');
    expect(message).toContain('nothing');
    // In characters, as Postgres counts them: an astral one is one.
    expect(postgres).toMatchObject({ sqlstate: '42703', position: [...before].length + 'SELECT '.length + 1 });
    expect(await content()).toEqual([{ n: 0, s: 'before' }]);
  });

  it('by undoing all if only the commit fails', async () => {
    await run('CREATE TABLE parent (n int PRIMARY KEY)');
    await run('CREATE TABLE child (n int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)');
    const body = expectFailure(
      await sql("INSERT INTO t VALUES (1, 'x'); INSERT INTO child VALUES (7)"),
      400,
      'constraint_violation',
    );
    expect(body.postgres).toMatchObject({ sqlstate: '23503', table: 'child' });
    expect(await content()).toEqual([]);
    await run('INSERT INTO child VALUES (8); INSERT INTO parent VALUES (8)');
  });

  it('requests from connections that ended unnoticed, idle or active', async () => {
    await project.table('ended', { n: 'INTEGER' });
    const endAll = (state: string) =>
      onServer(service.server, (client) =>
        client.query(
          `SELECT pg_terminate_backend(pid, 30_000) FROM pg_stat_activity WHERE application_name LIKE 'cdp %' AND state = $1
             AND application_name <> 'cdp service' AND datname = $2`,
          [state, database],
        ),
      );
    const database = (await project.rows('SELECT current_database() AS name'))[0]?.name;
    for (let i = 0; i < 3; i++) {
      await endAll('idle');
      expect(await project.rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
      expect((await project.call('POST', '/api/cdp/data/ended', { body: [{ n: i }] })).status).toBe(201);
    }
    const running = sql('INSERT INTO ended (n) SELECT 100 FROM pg_sleep(30)');
    for (let ended = 0; ended === 0;) ended = (await endAll('active')).rowCount ?? 0;
    expectFailure(await running, 503, 'database_unavailable');
    expect(await project.rows('SELECT count(*) AS n FROM ended')).toEqual([{ n: 3 }]);
  });

  it.each(['SELECT 1 AS n', 'SELECT 1 + 0 AS n'])('%s from a connection whose end arrives with it', async (text) => {
    const alone = await service.project();
    await alone.rows(text);
    const { writer } = (await service.engine.projects.get(alone.name)).placement;
    const query = 'SELECT pid FROM pg_stat_activity WHERE usename = $1';
    const { rows } = await onServer(service.server, (client) => client.query<{ pid: number }>(query, [writer]));
    expect(rows).toHaveLength(1);
    const { pid } = rows[0] as { pid: number };
    process.kill(pid, 'SIGSTOP');
    process.kill(pid, 'SIGTERM');
    const asked = alone.rows(text);
    await sleep(200);
    process.kill(pid, 'SIGCONT');
    expect(await asked).toEqual([{ n: 1 }]);
  });

  it('other requests while a text that is hard to parse is split', async () => {
    const hard = `SELECT 1; SELECT ${'('.repeat(2_000)}1${')'.repeat(2_000)}, ${'1+'.repeat(400_000)}1`;
    expect(Buffer.byteLength(hard)).toBeLessThan(1024 * 1024);
    const other = await service.project();
    let answered = 0;
    let done = false;
    const split = sql(hard).finally(() => (done = true));
    while (!done) {
      expect((await other.call('GET', '/api/cdp/schema')).status).toBe(200);
      answered++;
    }
    await split;
    // If the split held up the event loop, they would be answered after it.
    expect(answered).toBeGreaterThan(3);
  });
});
