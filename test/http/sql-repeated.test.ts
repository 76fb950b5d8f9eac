/**
 * The same statement again: whatever has changed since, here or directly in the database, the answer is the one that a
 * first run would have given (contract sections 5 and 7).
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { connected, testServers } from '../support/postgres.js';
import {
  failure,
  onServer,
  startTestService,
  type TestAnswer,
  type TestProject,
  type TestService,
} from '../support/service.js';

const MIB = 1024 * 1024;

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  let project: TestProject;
  let readToken: string;

  beforeAll(async () => {
    service = await startTestService({}, server);
  });
  afterAll(() => service.close());
  beforeEach(async () => {
    project = await service.project();
    readToken = await project.tokenWith('sql:read');
  });

  const sql = (text: string, params: unknown[] = [], rest: object = {}): Promise<TestAnswer> =>
    project.call('POST', '/api/cdp/sql', { body: { sql: text, params, ...rest } });
  const read = (text: string, params: unknown[] = [], rest: object = {}): Promise<TestAnswer> =>
    project.call('POST', '/api/cdp/sql', { body: { sql: text, params, ...rest }, token: readToken });
  const WAYS = [
    ['the writer', sql],
    ['the reader', read],
  ] as const;

  /** In the project's database, past the service. */
  async function directly(...texts: string[]): Promise<void> {
    const { placement } = await service.engine.projects.get(project.name);
    await connected({ ...server.connection, database: placement.database }, async (client) => {
      await client.query('SET search_path = data');
      for (const text of texts) await client.query(text);
    });
  }

  describe('a statement that came before', () => {
    const TEXTS: [text: string, params?: unknown[], rest?: object][] = [
      ['SELECT 1'],
      ['SELECT'],
      ['SELECT 1 AS a, 2 AS a, NULL AS "ü\\"'],
      ['  /* first */ TABLE few;  '],
      ['WITH x AS (SELECT 2 AS n) SELECT n, n FROM x', [], { row_mode: 'array' }],
      [
        `SELECT 0.1::float8 + 0.2::float8 AS f, 'NaN'::float4 AS g, now() > '2020-01-01' AS b, '{"a":1}'::jsonb AS j,
           '2024-02-03 04:05:06.5+00'::timestamptz AS at, '\\x00ff'::bytea AS x, '{1,NULL}'::int[] AS l,
           1.50::numeric(10,2) AS n, 'é€😀' AS s, 9007199254740993 AS i`,
      ],
      ['SELECT $1::int + 1 AS n, $2 AS s', [41, 'two']],
      ['SELECT * FROM few WHERE false'],
      ['SELECT generate_series(1, 1000) AS g', [], { max_rows: 999 }],
      ['SELECT generate_series(1, 1000) AS g', [], { max_rows: 1000 }],
    ];

    it.each(WAYS)('is answered as at first, by %s', async (_way, ask) => {
      await project.rows('CREATE TABLE few AS SELECT 1 AS n, 1.5 AS m');
      for (const [text, params, rest] of TEXTS) {
        const first = await ask(text, params, rest);
        expect({ text, status: first.status }).toEqual({ text, status: 200 });
        for (let i = 0; i < 2; i++) {
          const answer = await ask(text, params, rest);
          expect({ text, answer: answer.text }).toEqual({ text, answer: first.text });
        }
      }
    });

    it('does its work each time, and counts what it did', async () => {
      await project.rows('CREATE TABLE t (n int)');
      for (const [text, params, count] of [
        ['INSERT INTO t SELECT generate_series(1, $1)', [3], 3],
        ['UPDATE t SET n = n', [], 9],
        ['DELETE FROM t WHERE n = 3', [], undefined],
      ] as const) {
        for (let i = 0; i < 3; i++) {
          const answer = await sql(text, [...params]);
          if (count !== undefined) expect(answer.body).toMatchObject({ row_count: count, affected_rows: count });
        }
      }
      expect(await project.rows('SELECT n, count(*) AS c FROM t GROUP BY n ORDER BY n')).toEqual([
        { n: 1, c: 3 },
        { n: 2, c: 3 },
      ]);
    });
  });

  describe('what has changed in the database since', () => {
    it.each(WAYS)('shows in the next answer to %s', async (_way, ask) => {
      await project.rows(`CREATE TABLE t (a text, b int); INSERT INTO t VALUES ('1.5', 2)`);
      const answers = async () => [
        ...((await ask('SELECT * FROM t')).body.rows as object[]),
        (await ask('SELECT a FROM t')).body.columns,
      ];
      const expected: [change: string, row: object, type: string][] = [
        ['SELECT 1', { a: '1.5', b: 2 }, 'TEXT'],
        ['ALTER TABLE t ALTER a TYPE varchar(20)', { a: '1.5', b: 2 }, 'character varying(20)'],
        ['ALTER TABLE t ALTER a TYPE numeric USING a::numeric', { a: 1.5, b: 2 }, 'numeric'],
        ['ALTER TABLE t ALTER a TYPE float8', { a: 1.5, b: 2 }, 'FLOAT'],
        [
          'ALTER TABLE t ALTER a TYPE timestamptz USING to_timestamp(a)',
          { a: '1970-01-01T00:00:01.5Z', b: 2 },
          'TIMESTAMP',
        ],
        ['ALTER TABLE t ALTER a TYPE text USING 1', { a: '1', b: 2 }, 'TEXT'],
        ['ALTER TABLE t ADD c bool DEFAULT true', { a: '1', b: 2, c: true }, 'TEXT'],
        ['ALTER TABLE t DROP b', { a: '1', c: true }, 'TEXT'],
        ['ALTER TABLE t RENAME c TO d', { a: '1', d: true }, 'TEXT'],
        [`CREATE TYPE own AS ENUM ('1')`, { a: '1', d: true }, 'TEXT'],
        ['ALTER TABLE t ALTER a TYPE own USING a::own', { a: '1', d: true }, 'own'],
        ['ALTER TYPE own RENAME TO other', { a: '1', d: true }, 'other'],
        ['DROP TABLE t; CREATE TABLE t AS SELECT 2::float8 AS a; GRANT SELECT ON t TO PUBLIC', { a: 2 }, 'FLOAT'],
      ];
      for (const [change, row, type] of expected) {
        await directly(change);
        if (change.startsWith('DROP')) await directly('ALTER TABLE t OWNER TO CURRENT_USER');
        const want = [row, [{ name: 'a', type }]];
        for (let i = 0; i < 3; i++) expect({ change, i, found: await answers() }).toEqual({ change, i, found: want });
      }
    });

    it('decides how an array is stored', async () => {
      await project.rows('CREATE TABLE t (v int[])');
      const text = 'INSERT INTO t VALUES ($1)';
      for (let i = 0; i < 2; i++) expect((await sql(text, [[1, 2]])).status).toBe(200);
      await directly('ALTER TABLE t ALTER v TYPE text');
      failure(await sql(text, [[3]]), 400, 'invalid_value');
      await directly('ALTER TABLE t ALTER v TYPE jsonb USING to_jsonb(v)');
      await sql(text, [[4]]);
      expect(await project.rows('SELECT v FROM t')).toEqual([{ v: '{1,2}' }, { v: '{1,2}' }, { v: [4] }]);
    });
  });

  describe('a statement that fails this time', () => {
    it.each(WAYS)('is told where, and nothing stays of it, by %s', async (_way, ask) => {
      const text = 'SELECT $1::int / $2::int AS q, pg_advisory_lock(78)::text';
      await ask(text, [4, 2]);
      for (let i = 0; i < 2; i++) {
        failure(await ask(text, [4, 0]), 400, 'sql_error');
        expect((await ask('SELECT pg_try_advisory_xact_lock(78) AS free')).body.rows).toEqual([{ free: true }]);
        expect((await ask(text, [4, 2])).body.rows).toEqual([{ q: 2, pg_advisory_lock: '' }]);
      }
    });

    it('at its commit has done nothing', async () => {
      await project.rows('CREATE TABLE parent (n int PRIMARY KEY); INSERT INTO parent VALUES (1)');
      await project.rows('CREATE TABLE child (n int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)');
      const text = 'INSERT INTO child VALUES ($1)';
      for (let i = 0; i < 2; i++) expect((await sql(text, [1])).status).toBe(200);
      const { postgres } = failure(await sql(text, [7]), 400, 'constraint_violation');
      expect(postgres).toMatchObject({ sqlstate: '23503', table: 'child' });
      expect(await project.rows('SELECT n FROM child')).toEqual([{ n: 1 }, { n: 1 }]);
    });

    it('as the reader cannot write', async () => {
      await project.rows('CREATE TABLE t (n int)');
      await project.rows(`CREATE FUNCTION f(text) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        EXECUTE $1; RETURN 1; END $$; GRANT EXECUTE ON FUNCTION f TO PUBLIC`);
      const call = 'SELECT f($1)';
      const rows = [{ f: 1 }];
      expect((await read(call, ['SELECT 1'])).body.rows).toEqual(rows);
      for (const opening of [
        '',
        'SET transaction_read_only = off;',
        'SET LOCAL transaction_read_only = off;',
        `SELECT set_config('transaction_read_only', 'off', true);`,
        'SET TRANSACTION READ WRITE;',
        'SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE;',
        'SET default_transaction_read_only = off;',
      ]) {
        const answer = await read(call, [`${opening} INSERT INTO data.t VALUES (1)`]);
        expect({ opening, refused: [400, 403].includes(answer.status) }).toEqual({ opening, refused: true });
        expect((await read(call, ['SELECT 1'])).body.rows).toEqual(rows);
      }
      expect(await project.rows('SELECT n FROM t')).toEqual([]);
    });

    it('because its backend was ended has done nothing', async () => {
      await project.rows('CREATE TABLE t (n int)');
      const text = 'INSERT INTO t SELECT 1 FROM pg_sleep($1)';
      for (let i = 0; i < 2; i++) expect((await sql(text, [0])).status).toBe(200);
      let isRunning = true;
      const running = sql(text, [30]).finally(() => (isRunning = false));
      const { writer } = (await service.engine.projects.get(project.name)).placement;
      while (isRunning) {
        await onServer(server, (client) =>
          client.query(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'PgSleep'`,
            [writer],
          ),
        );
      }
      failure(await running, 503, 'database_unavailable');
      expect(await project.rows('SELECT count(*) AS n FROM t')).toEqual([{ n: 2 }]);
    });
  });

  describe('an answer of another size than before', () => {
    const text = `SELECT repeat('x', $1) AS s FROM generate_series(1, $2)`;

    it.each(WAYS)('keeps to the caps, by %s', async (_way, ask) => {
      for (const [length, count, rest, rows, truncated] of [
        [1, 2, {}, 2, false],
        [1, 3, { max_rows: 2 }, 2, true],
        [1, 2, { max_rows: 2 }, 2, false],
        [1, 5_000, {}, 5_000, false],
        [1, 10_001, {}, 10_000, true],
        [10, 1, {}, 1, false],
        [MIB, 40, {}, 15, true],
        [MIB, 3, {}, 3, false],
        [10, 1, {}, 1, false],
      ] as const) {
        const { body } = await ask(text, [length, count], rest);
        const found = { rows: (body.rows as unknown[]).length, truncated: body.truncated };
        expect({ length, count, ...found }).toEqual({ length, count, rows, truncated });
      }
    });

    it('has done its work once', async () => {
      await project.rows('CREATE SEQUENCE s; CREATE TABLE t (n int)');
      await project.rows(`CREATE FUNCTION f(size int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO t VALUES (size); RETURN repeat('x', size); END $$`);
      const call = 'SELECT f($1) FROM generate_series(1, $2)';
      await sql(call, [1, 1]);
      expect((await sql(call, [100_000, 20])).body).toMatchObject({ row_count: 20, truncated: false });
      expect(await project.rows('SELECT n, count(*) AS c FROM t GROUP BY n ORDER BY n')).toEqual([
        { n: 1, c: 1 },
        { n: 100_000, c: 20 },
      ]);
    });
  });
});
