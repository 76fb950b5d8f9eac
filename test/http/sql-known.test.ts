/**
 * A statement that came before goes out in one write, on what was remembered of it. Whatever has changed since, here or
 * directly in the database, the answer is the one that a first run would have given (contract sections 5 and 7).
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { ConnectionLost } from '../../src/postgres/errors.js';
import { Session } from '../../src/postgres/wire/session.js';
import { connected, testServers } from '../support/postgres.js';
import { until } from '../support/stream.js';
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
  const LANES = [
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

  /** The answer, and how often a statement was sent to be described before it ran: never, where all is one write. */
  async function described(work: () => Promise<TestAnswer>): Promise<{ answer: TestAnswer; times: number }> {
    const prepare = vi.spyOn(Session.prototype, 'prepare');
    try {
      const answer = await work();
      return { answer, times: prepare.mock.calls.length };
    } finally {
      prepare.mockRestore();
    }
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

    it.each(LANES)('is answered as at first, in one write, by %s', async (_lane, ask) => {
      await project.rows('CREATE TABLE few AS SELECT 1 AS n, 1.5 AS m');
      for (const [text, params, rest] of TEXTS) {
        const first = await ask(text, params, rest);
        expect({ text, status: first.status }).toEqual({ text, status: 200 });
        for (let i = 0; i < 2; i++) {
          const { answer, times } = await described(() => ask(text, params, rest));
          expect({ text, answer: answer.text, times }).toEqual({ text, answer: first.text, times: 0 });
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
          const { answer, times } = await described(() => sql(text, [...params]));
          if (count !== undefined) expect(answer.body).toMatchObject({ row_count: count, affected_rows: count });
          expect(times).toBe(i === 0 ? 1 : 0);
        }
      }
      expect(await project.rows('SELECT n, count(*) AS c FROM t GROUP BY n ORDER BY n')).toEqual([
        { n: 1, c: 3 },
        { n: 2, c: 3 },
      ]);
    });

    it('runs within its time', async () => {
      const text = 'SELECT 1 AS n FROM pg_sleep($1)';
      await sql(text, [0]);
      failure(await sql(text, [20], { timeout_ms: 200 }), 504, 'query_timeout');
      expect((await sql(text, [0])).body.rows).toEqual([{ n: 1 }]);
    });

    it('takes another number of parameters no more than at first', async () => {
      const text = 'SELECT $1::int AS n';
      await sql(text, [1]);
      failure(await sql(text, []), 400, 'invalid_request');
      failure(await sql(text, [1, 2]), 400, 'invalid_request');
      failure(await sql(text, ['\u0000']), 400, 'invalid_value');
      expect((await sql(text, [2])).body.rows).toEqual([{ n: 2 }]);
    });

    it('leaves nothing in its session', async () => {
      await project.rows(`CREATE FUNCTION litter() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_lock(77), setseed(0.42), set_config('work_mem', '1MB', false);
        EXECUTE 'LISTEN channel';
        EXECUTE 'CREATE TEMP TABLE left_behind (n int)';
        EXECUTE 'PREPARE left_behind AS SELECT 1';
        EXECUTE 'DECLARE left_behind CURSOR WITH HOLD FOR SELECT 1';
        RETURN 1; END $$`);
      const traces = `SELECT current_setting('work_mem') AS work_mem, to_regclass('pg_temp.left_behind')::text AS temp,
        (SELECT count(*) FROM pg_listening_channels()) AS heard,
        (SELECT count(*) FROM pg_cursors WHERE name <> '') AS cursors, pg_try_advisory_xact_lock(77) AS lock_is_free`;
      const [clean] = await project.rows(traces);
      const drawn = new Set<unknown>();
      for (let i = 0; i < 3; i++) {
        const { answer, times } = await described(() => sql('SELECT litter()'));
        expect({ rows: answer.body.rows, times }).toEqual({ rows: [{ litter: 1 }], times: i === 0 ? 1 : 0 });
        drawn.add((await project.rows('SELECT random() AS r'))[0]?.r);
        expect(await project.rows(traces)).toEqual([clean]);
      }
      expect(drawn.size).toBe(3);
    });
  });

  describe('a query of constants that came before', () => {
    /** How often a session was reset meanwhile. */
    async function resets(work: () => Promise<unknown>): Promise<number> {
      const reset = vi.spyOn(Session.prototype, 'sendWithReset');
      try {
        await work();
        return reset.mock.calls.length;
      } finally {
        reset.mockRestore();
      }
    }

    it.each(LANES)('goes out alone, with nothing to clear away, by %s', async (_lane, ask) => {
      for (const [text, params, rows] of [
        ['SELECT 1 AS n', [], [{ n: 1 }]],
        [`SELECT $1::int AS n, 'é' AS s, NULL AS "no thing"`, [7], [{ n: 7, s: 'é', 'no thing': null }]],
      ] as const) {
        for (let i = 0; i < 2; i++) expect((await ask(text, [...params])).body.rows).toEqual(rows);
        const { answer, times } = await described(() => ask(text, [...params]));
        expect({ rows: answer.body.rows, times }).toEqual({ rows, times: 0 });
        expect(await resets(() => ask(text, [...params]))).toBe(0);
      }
    });

    it('cannot be made to run code of the project', async () => {
      await project.rows(`CREATE FUNCTION litter(text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_lock(79), set_config('work_mem', '1MB', false); RETURN true; END $$`);
      for (const type of ['int4', 'text', 'uuid', 'bool', 'jsonb', 'timestamptz'])
        await project.rows(`CREATE DOMAIN ${type} AS pg_catalog.text CHECK (litter(VALUE))`);
      await project.rows(`CREATE FUNCTION int8(text) RETURNS bigint LANGUAGE sql AS 'SELECT litter($1)::int::bigint'`);
      const text = `SELECT '1'::int4 AS a, 'x'::text AS b, '1'::int8 AS c, $1::bool AS d, '[]'::jsonb AS e`;
      const rows = [{ a: 1, b: 'x', c: 1, d: true, e: [] }];
      for (let i = 0; i < 3; i++) expect((await sql(text, [true])).body.rows).toEqual(rows);
      expect(await resets(() => sql(text, [true]))).toBe(0);
      expect(await project.rows(`SELECT pg_try_advisory_xact_lock(79) AS free`)).toEqual([{ free: true }]);
      // The same words, but a type that is the project's.
      const own = `SELECT 'x'::data.text AS b`;
      for (let i = 0; i < 2; i++) expect((await sql(own)).body.rows).toEqual([{ b: 'x' }]);
      expect(await resets(() => sql(own))).toBe(1);
      expect(await project.rows(`SELECT pg_try_advisory_xact_lock(79) AS free`)).toEqual([{ free: true }]);
    });

    it.each(LANES)('is parsed once, until something else is, by %s', async (_lane, ask) => {
      const hasParsed = vi.spyOn(Session.prototype, 'hasParsed');
      const wasParsed = () => hasParsed.mock.results.splice(0).map(({ value }): unknown => value);
      const text = `SELECT $1::int AS n, 'é' AS s`;
      try {
        for (const [n, expected] of [
          [1, []],
          [2, [false]],
          [3, [true]],
          [4, [true]],
        ] as const) {
          expect((await ask(text, [n])).body.rows).toEqual([{ n, s: 'é' }]);
          expect(wasParsed()).toEqual(expected);
        }
        for (const between of ['SELECT 5 AS n', 'SELECT 2 + 3 AS n']) {
          for (let i = 0; i < 2; i++) expect((await ask(between)).body.rows).toEqual([{ n: 5 }]);
          wasParsed();
          for (const n of [6, 7]) expect((await ask(text, [n])).body.rows).toEqual([{ n, s: 'é' }]);
          expect(wasParsed()).toEqual([false, true]);
        }
        failure(await ask(text, ['x']), 400, 'sql_error');
        expect((await ask(text, [8])).body.rows).toEqual([{ n: 8, s: 'é' }]);
        expect(wasParsed()).toEqual([true, false]);
      } finally {
        hasParsed.mockRestore();
      }
    });

    it('reads the clock each time that it stands for a time', async () => {
      const text = `SELECT 'now'::timestamptz AS at`;
      const times = new Set<string>();
      for (let i = 0; i < 4; i++) times.add(JSON.stringify((await sql(text)).body.rows));
      expect(times.size).toBe(4);
    });

    it.each(LANES)('that fails leaves nothing either, by %s', async (_lane, ask) => {
      const text = 'SELECT $1::int AS n';
      await ask(text, [1]);
      for (let i = 0; i < 2; i++) {
        failure(await ask(text, ['x']), 400, 'sql_error');
        expect((await ask(text, [2])).body.rows).toEqual([{ n: 2 }]);
      }
    });
  });

  describe('what has changed in the database since', () => {
    it.each(LANES)('shows in the next answer to %s', async (_lane, ask) => {
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

    it.each(LANES)('is a column beside one that was alone, which is read as it comes, to %s', async (_lane, ask) => {
      for (const [type, value] of [
        ['bool', true],
        ['int', 7],
        ['numeric', 1.5],
        ['jsonb', { a: 1 }],
        ['text[]', ['x']],
        ['float8', 0.5],
      ] as const) {
        const literal = Array.isArray(value) ? `{${value.join()}}` : JSON.stringify(value);
        await project.rows('CREATE TABLE alone (f float8); INSERT INTO alone VALUES (2.5)');
        for (let i = 0; i < 2; i++) expect((await ask('SELECT * FROM alone')).body.rows).toEqual([{ f: 2.5 }]);
        await project.rows(`ALTER TABLE alone ADD v ${type} DEFAULT '${literal}'`);
        for (let i = 0; i < 2; i++) {
          expect((await ask('SELECT * FROM alone')).body.rows).toEqual([{ f: 2.5, v: value }]);
        }
        await project.rows('DROP TABLE alone');
      }
    });

    it('is refused with the place of the error, and then works again', async () => {
      await project.rows('CREATE TABLE t (n int)');
      const text = 'SELECT n FROM  t';
      await sql(text);
      await project.rows('DROP TABLE t');
      const { postgres } = failure(await sql(text), 400, 'sql_error');
      expect(postgres).toMatchObject({ sqlstate: '42P01', position: text.indexOf('t') + 1 });
      await project.rows('CREATE TABLE t (n int)');
      expect((await sql(text)).body.rows).toEqual([]);
    });

    it('decides how an array is stored', async () => {
      await project.rows('CREATE TABLE t (v int[])');
      const text = 'INSERT INTO t VALUES ($1)';
      for (let i = 0; i < 2; i++) expect((await sql(text, [[1, 2]])).status).toBe(200);
      await directly('ALTER TABLE t ALTER v TYPE text');
      await sql(text, [[3]]);
      await directly('ALTER TABLE t ALTER v TYPE jsonb USING to_jsonb(v)');
      await sql(text, [[4]]);
      expect(await project.rows('SELECT v FROM t')).toEqual([{ v: '{1,2}' }, { v: '{1,2}' }, { v: '[3]' }, { v: [4] }]);
    });

    it('does not make a statement do its work twice, whose rows came in the wrong format', async () => {
      const replaced = (type: string, value: string) => `DROP FUNCTION IF EXISTS f();
        CREATE FUNCTION f() RETURNS ${type} LANGUAGE plpgsql AS $$ BEGIN INSERT INTO done VALUES (1); RETURN ${value}; END $$`;
      await project.rows('CREATE TABLE done (n int)');
      await project.rows(replaced('text', `'x'`));
      const done = async () => (await project.rows('SELECT count(*) AS n FROM done'))[0]?.n;
      for (let i = 1; i <= 2; i++) expect((await sql('SELECT f()')).body.rows).toEqual([{ f: 'x' }]);
      expect(await done()).toBe(2);
      await directly(replaced('float8', '0.5'));
      const answer = await sql('SELECT f()');
      expect(failure(answer, 503, 'outcome_unknown').message).toContain('was carried out');
      expect(answer.headers.get('retry-after')).toBe(null);
      expect(await done()).toBe(3);
      expect((await sql('SELECT f()')).body.rows).toEqual([{ f: 0.5 }]);
      expect(await done()).toBe(4);
    });
  });

  describe('rows that cannot be shown this time', () => {
    it('for one that is too long are refused as ever', async () => {
      await project.rows(`CREATE TABLE t (v text); INSERT INTO t VALUES ('short')`);
      const text = 'SELECT v FROM t';
      for (let i = 0; i < 2; i++) expect((await sql(text)).body.rows).toEqual([{ v: 'short' }]);
      await project.rows(`UPDATE t SET v = repeat(chr(1), 4000000)`);
      for (let i = 0; i < 2; i++) failure(await sql(text), 400, 'result_too_large');
      await project.rows(`UPDATE t SET v = 'short'`);
      for (let i = 0; i < 2; i++) expect((await sql(text)).body.rows).toEqual([{ v: 'short' }]);
    });

    it('for another encoding are refused as ever', async () => {
      await project.rows(`CREATE TABLE t (changes boolean); INSERT INTO t VALUES (false);
        CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
          IF (SELECT changes FROM t) THEN PERFORM set_config('client_encoding', 'LATIN1', false); END IF;
          RETURN 'é'; END $$`);
      for (let i = 0; i < 2; i++) expect((await sql('SELECT f()')).body.rows).toEqual([{ f: 'é' }]);
      await project.rows('UPDATE t SET changes = true');
      for (let i = 0; i < 2; i++) failure(await sql('SELECT f()'), 400, 'statement_not_allowed');
      await project.rows('UPDATE t SET changes = false');
      for (let i = 0; i < 2; i++) expect((await sql('SELECT f()')).body.rows).toEqual([{ f: 'é' }]);
    });
  });

  describe('a statement that fails this time', () => {
    it.each(LANES)('is told where, and nothing stays of it, by %s', async (_lane, ask) => {
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
        const { answer, times } = await described(() => read(call, [`${opening} INSERT INTO data.t VALUES (1)`]));
        expect({ opening, refused: [400, 403].includes(answer.status), times }).toEqual({
          opening,
          refused: true,
          times: 0,
        });
        expect((await read(call, ['SELECT 1'])).body.rows).toEqual(rows);
      }
      expect(await project.rows('SELECT n FROM t')).toEqual([]);
    });

    it('by rows in another encoding is refused rather than garbled', async () => {
      await project.rows(`CREATE FUNCTION f(e text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        EXECUTE format('SET client_encoding = %L', e); RETURN 'é'; END $$`);
      const text = 'SELECT f($1)';
      for (const [, ask] of LANES) {
        await ask(text, ['UTF8']);
        expect((await ask(text, ['LATIN1'])).text).toContain('client_encoding');
        expect((await ask(text, ['UTF8'])).body.rows).toEqual([{ f: 'é' }]);
      }
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

  describe('a connection that is lost with the statement on it', () => {
    /** The next request in one write loses its connection when all is sent. @returns what waits for the end of its backend */
    function loseNext(way: 'sendWithReset' | 'sendHarmless' = 'sendWithReset'): () => Promise<void> {
      let pid = 0;
      type Sent = Parameters<Session['sendHarmless']>;
      vi.spyOn(Session.prototype, way).mockImplementationOnce(function (this: Session, ...sent: Sent) {
        pid = this.processId;
        const answered = this[way](...sent);
        this.destroy(new ConnectionLost('The connection to Postgres was lost'));
        return answered;
      });
      const isThere = async () =>
        onServer(server, async (client) => {
          const found = await client.query('SELECT FROM pg_stat_activity WHERE pid = $1', [pid]);
          return found.rowCount !== 0;
        });
      return () => until(async () => !(await isThere()), 10_000);
    }
    afterEach(() => void vi.restoreAllMocks());

    it.each(LANES)('is not noticed by who only reads, as %s', async (_lane, ask) => {
      for (const [text, way] of [
        ['SELECT 1 AS n', 'sendHarmless'],
        ['SELECT 0 + 1 AS n', 'sendWithReset'],
      ] as const) {
        for (let i = 0; i < 2; i++) expect((await ask(text)).body.rows).toEqual([{ n: 1 }]);
        const backendEnded = loseNext(way);
        expect((await ask(text)).body.rows).toEqual([{ n: 1 }]);
        await backendEnded();
      }
    });

    it('leaves open whether a statement that writes was carried out', async () => {
      await project.rows('CREATE TABLE t (n int)');
      await project.rows(`CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO t VALUES (1); RETURN 1; END $$`);
      for (const [text, most] of [
        ['SELECT f()', 3],
        ['INSERT INTO t VALUES (2)', 6],
      ] as const) {
        for (let i = 0; i < 2; i++) expect((await sql(text)).status).toBe(200);
        const backendEnded = loseNext();
        failure(await sql(text), 503, 'outcome_unknown');
        await backendEnded();
        const n = (await project.rows('SELECT count(*) AS n FROM t'))[0]?.n as number;
        expect([most - 1, most]).toContain(n);
        if (most === 3 && n === 2) await project.rows('INSERT INTO t VALUES (0)');
      }
    });
  });

  describe('an answer of another size than before', () => {
    const text = `SELECT repeat('x', $1) AS s FROM generate_series(1, $2)`;

    it.each(LANES)('keeps to the caps, by %s', async (_lane, ask) => {
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

    it.each(LANES)('stops Postgres where it has grown out of all bounds, by %s', async (_lane, ask) => {
      await ask(text, [1, 1]);
      const startedAt = performance.now();
      // 10 GB, if it came.
      const { body } = await ask(text, [MIB, 10_000], { timeout_ms: 60_000 });
      expect(body).toMatchObject({ row_count: 15, truncated: true });
      expect(performance.now() - startedAt).toBeLessThan(8_000);
    });

    it('of one row that is too large is refused', async () => {
      await sql(text, [1, 1]);
      failure(await sql(text, [17 * MIB, 1]), 400, 'result_too_large');
      expect((await sql(text, [1, 1])).body.rows).toEqual([{ s: 'x' }]);
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
