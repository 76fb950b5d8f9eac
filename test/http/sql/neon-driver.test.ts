/** `POST /sql` as used by Neon's driver: two releases of `@neondatabase/serverless`, unchanged. */
import { neon, NeonDbError, neonConfig, Pool } from '@neondatabase/serverless';
import { neon as neon0, neonConfig as neonConfig0 } from 'neon-serverless-0';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project('shop');
  neonConfig.fetchEndpoint = neonConfig0.fetchEndpoint = () => `${service.url}/sql`;
  neonConfig.poolQueryViaFetch = true;
});
afterAll(() => service.close());

const connectionString = (user = 'writer', token = project.token) => `postgresql://${user}:${token}@db.example/shop`;

/** What the driver throws. */
const thrown = async (query: PromiseLike<unknown>): Promise<NeonDbError> => {
  const error = await Promise.resolve(query).then(
    () => null,
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(NeonDbError);
  return error as NeonDbError;
};

beforeEach(async () => {
  await project.rows('DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL)');
});

describe('works', () => {
  it('as a template with composed fragments, and as a query with parameters', async () => {
    const sql = neon(connectionString());
    const where = sql`WHERE id > ${1}`;
    expect(await sql`INSERT INTO t VALUES (${1}, ${'a'}), (${2}, ${"it's"}), (3, ${'é😀'})`).toEqual([]);
    expect(await sql`SELECT name FROM ${sql.unsafe('t')} ${where} ORDER BY id`).toEqual([
      { name: "it's" },
      { name: 'é😀' },
    ]);
    expect(await sql.query('SELECT id FROM t WHERE id = ANY($1) ORDER BY id', [[1, 3]])).toEqual([
      { id: 1 },
      { id: 3 },
    ]);
  });

  it('with full results like those of node-postgres', async () => {
    const sql = neon(connectionString(), { fullResults: true });
    const [{ oid } = {}] = await project.rows(`SELECT 't'::regclass::oid AS oid`);
    const inserted = await sql`INSERT INTO t VALUES (1, 'a'), (2, 'b') RETURNING name, id, 1::numeric(5, 2) AS n`;
    expect(inserted).toMatchObject({
      command: 'INSERT',
      rowCount: 2,
      rowAsArray: false,
      rows: [
        { name: 'a', id: 1, n: '1.00' },
        { name: 'b', id: 2, n: '1.00' },
      ],
    });
    const field = { dataTypeModifier: -1, format: 'text' };
    expect(inserted.fields).toEqual([
      { ...field, name: 'name', dataTypeID: 25, tableID: oid, columnID: 2, dataTypeSize: -1 },
      { ...field, name: 'id', dataTypeID: 23, tableID: oid, columnID: 1, dataTypeSize: 4 },
      { ...field, name: 'n', dataTypeID: 1700, tableID: 0, columnID: 0, dataTypeSize: -1, dataTypeModifier: 327_686 },
    ]);
    const told = async (text: string) => {
      const { command, rowCount } = await sql.query(text);
      return [command, rowCount];
    };
    expect(await told('UPDATE t SET name = name')).toEqual(['UPDATE', 2]);
    expect(await told('SELECT * FROM generate_series(1, 50)')).toEqual(['SELECT', 50]);
    expect(await told('DELETE FROM t WHERE false')).toEqual(['DELETE', 0]);
    expect(await told('CREATE TABLE made AS SELECT 1')).toEqual(['SELECT', 1]);
    expect(await told('DROP TABLE made')).toEqual(['DROP', null]);
    expect(await told('VACUUM t')).toEqual(['VACUUM', null]);
    expect(await told('SHOW search_path')).toEqual(['SHOW', null]);
  });

  it('with rows as arrays, which keep columns with the same name apart', async () => {
    const sql = neon(connectionString(), { arrayMode: true });
    expect(await sql`SELECT 1 AS x, 2 AS x, NULL AS y`).toEqual([[1, 2, null]]);
    expect(await sql.query('SELECT 1 AS x, 2 AS x', [], { arrayMode: false })).toEqual([{ x: 2 }]);
    expect(await sql`SELECT`).toEqual([[]]);
  });

  it('with values parsed as node-postgres parses them', async () => {
    const sql = neon(connectionString());
    const [row] = await sql`SELECT true AS bool, 7::int2 AS small, 9007199254740993 AS big, 1.50::numeric AS numeric,
      0.1::float8 AS float, 'NaN'::float8 AS nan, 'x'::text AS text, ''::text AS empty, NULL::int AS nothing,
      '{"a": [1, 2.50]}'::json AS json, '[null]'::jsonb AS jsonb, '\\x00ff'::bytea AS bytea,
      '2026-01-31 10:30:00.123456+00'::timestamptz AS instant, '2026-01-31'::date AS date,
      '1 day 02:00:00'::interval AS interval, ARRAY[1, NULL, 3] AS ints, ARRAY['a,b', '"', NULL] AS texts,
      ARRAY[[1, 2], [3, 4]] AS nested, '{2026-01-31T00:00:00Z}'::timestamptz[] AS instants,
      int4range(1, 5) AS range, ROW(1, 'x') AS record, '(1,2)'::point AS point, '10.0.0.1/8'::inet AS inet`;
    expect(row).toEqual({
      ...{ bool: true, small: 7, big: '9007199254740993', numeric: '1.50', float: 0.1, nan: NaN, text: 'x', empty: '' },
      ...{ nothing: null, json: { a: [1, 2.5] }, jsonb: [null], bytea: expect.anything() as unknown },
      ...{ instant: new Date('2026-01-31T10:30:00.123Z'), date: new Date(2026, 0, 31) },
      ...{ interval: { days: 1, hours: 2 }, ints: [1, null, 3], texts: ['a,b', '"', null] },
      ...{
        nested: [
          [1, 2],
          [3, 4],
        ],
        instants: [new Date('2026-01-31T00:00:00Z')],
        range: '[1,5)',
        record: '(1,x)',
      },
      ...{ point: { x: 1, y: 2 }, inet: '10.0.0.1/8' },
    });
    expect([...(row?.bytea as Uint8Array)]).toEqual([0, 255]);
  });

  it('with parameters of every kind', async () => {
    const sql = neon(connectionString());
    const when = new Date('2026-01-31T10:30:00.123Z');
    const [row] = await sql`SELECT ${when}::timestamptz = '2026-01-31 10:30:00.123+00' AS date,
      ${Buffer.from([0, 255])}::bytea = '\\x00ff' AS bytes, ${new Uint8Array([1])}::bytea = '\\x01' AS array_buffer,
      ${{ a: 1 }}::jsonb->>'a' AS object, ${JSON.stringify([1])}::jsonb->>0 AS json, ${[1, null]}::int[] AS ints,
      ${['a"b', '\\', 'NULL', null]}::text[] AS texts, ${[[1], [2]]}::int[] AS nested, ${true}::bool AS bool,
      ${12345678901234567890n}::numeric AS big, ${1.5}::float8 AS float, ${null}::text AS nothing, ${-0}::int AS zero`;
    expect(row).toEqual({
      ...{ date: true, bytes: true, array_buffer: true, object: '1', json: '1', ints: [1, null] },
      ...{ texts: ['a"b', '\\', 'NULL', null], nested: [[1], [2]], bool: true, big: '12345678901234567890' },
      ...{ float: 1.5, nothing: null, zero: 0 },
    });
  });

  it('in transactions with an isolation level and access modes', async () => {
    const sql = neon(connectionString());
    const [inserted, rows] = await sql.transaction([sql`INSERT INTO t VALUES (1, 'a')`, sql`SELECT * FROM t`]);
    expect([inserted, rows]).toEqual([[], [{ id: 1, name: 'a' }]]);
    expect(await sql.transaction([])).toEqual([]);
    const modes = (txn: typeof sql) => [
      txn`SELECT current_setting('transaction_isolation') AS level, current_setting('transaction_read_only') AS ro,
        current_setting('transaction_deferrable') AS deferrable`,
    ];
    const found = async (options: object) => (await sql.transaction(modes as never, options))[0];
    expect(await found({})).toEqual([{ level: 'read committed', ro: 'off', deferrable: 'off' }]);
    for (const [isolationLevel, level] of [
      ['ReadUncommitted', 'read uncommitted'],
      ['ReadCommitted', 'read committed'],
      ['RepeatableRead', 'repeatable read'],
      ['Serializable', 'serializable'],
    ]) {
      expect(await found({ isolationLevel })).toEqual([{ level, ro: 'off', deferrable: 'off' }]);
    }
    expect(await found({ isolationLevel: 'Serializable', readOnly: true, deferrable: true })).toEqual([
      { level: 'serializable', ro: 'on', deferrable: 'on' },
    ]);
    expect(await found({ readOnly: false, deferrable: false })).toMatchObject([{ ro: 'off', deferrable: 'off' }]);
  });

  it('with a mode of its own for each query of a batch', async () => {
    const sql = neon(connectionString());
    // Drizzle does so, though the types of the driver do not foresee it.
    const asArray: object = { arrayMode: true };
    const results = await sql.transaction([
      sql.query('SELECT 1 AS a', [], asArray),
      sql.query('SELECT $1::int AS b', [2]),
    ]);
    expect(results).toEqual([[[1]], [{ b: 2 }]]);
  });

  it('as the reader, with a token as a string or a function, and without a password', async () => {
    const token = await project.tokenWith('sql:read');
    const user = 'SELECT current_setting($1) AS ro';
    for (const sql of [
      neon(connectionString('reader')),
      neon(connectionString('reader', token)),
      neon('postgresql://reader@db.example/shop', { authToken: token }),
      neon('postgresql://reader@db.example/shop', { authToken: () => Promise.resolve(token) }),
      neon({ host: 'db.example', user: 'reader', password: () => Promise.resolve(token), database: 'shop' }),
      neon(`postgres://reader:${token}@db.example:5432/shop?sslmode=require&channel_binding=require`),
    ]) {
      expect(await sql.query(user, ['transaction_read_only'])).toEqual([{ ro: 'on' }]);
    }
  });

  it('through Pool.query, which sends queries in the same way', async () => {
    const pool = new Pool({ connectionString: connectionString() });
    expect((await pool.query('SELECT $1::int AS n', [1])).rows).toEqual([{ n: 1 }]);
    expect((await pool.query({ text: 'SELECT 2 AS n', rowMode: 'array' })).rows).toEqual([[2]]);
    await expect(pool.query('SELEC')).rejects.toMatchObject({ code: '42601' });
    await pool.end();
  });

  it('with a release before 1.0', async () => {
    const sql = neon0(connectionString(), { fullResults: true });
    expect(await sql`SELECT ${1}::int AS n`).toMatchObject({ rows: [{ n: 1 }], rowCount: 1, command: 'SELECT' });
    expect((await sql('SELECT $1::bytea AS b', [Buffer.from([1])])).rows).toHaveLength(1);
    const [first] = await sql.transaction([sql`SELECT 1 AS n`], { isolationLevel: 'Serializable', readOnly: true });
    expect(first?.rows).toEqual([{ n: 1 }]);
    await expect(sql('SELEC')).rejects.toMatchObject({ name: 'NeonDbError', code: '42601', position: '1' });
  });

  it('with complete results of several megabytes', async () => {
    const sql = neon(connectionString());
    const rows = await sql`SELECT g, repeat('ä"', 50) AS s FROM generate_series(1, 60000) g`;
    expect(rows).toHaveLength(60_000);
    expect(rows.at(-1)).toEqual({ g: 60_000, s: 'ä"'.repeat(50) });
  });
});

describe('refuses with the error of Postgres', () => {
  it('a syntax error, with its position', async () => {
    const sql = neon(connectionString());
    const error = await thrown(sql.query('SELECT é, 1 FRO t'));
    expect(error.message).toBe('syntax error at or near "t"');
    expect(error).toMatchObject({ code: '42601', severity: 'ERROR', position: '17' });
    expect(error.detail).toBeUndefined();
  });

  it('constraint violations, with the names of the constraints', async () => {
    const sql = neon(connectionString());
    await sql`INSERT INTO t VALUES (1, 'a')`;
    expect(await thrown(sql`INSERT INTO t VALUES (1, 'b')`)).toMatchObject({
      ...{ code: '23505', constraint: 't_pkey', table: 't', schema: 'data', detail: 'Key (id)=(1) already exists.' },
      message: 'duplicate key value violates unique constraint "t_pkey"',
    });
    expect(await thrown(sql`INSERT INTO t VALUES (2, ${null})`)).toMatchObject({ code: '23502', column: 'name' });
  });

  it.each([
    ['SELECT nope FROM t', '42703'],
    ['SELECT * FROM nope', '42P01'],
    ['CREATE TABLE t (n int)', '42P07'],
    ['ALTER TABLE t ADD COLUMN id int', '42701'],
    ['SELECT 1 / 0', '22012'],
    [`SELECT 'x'::int`, '22P02'],
    ['SELECT 1; SELECT 2', '42601'],
    ['SELECT pg_read_file($$/etc/passwd$$)', '42501'],
    [`DO $$ BEGIN RAISE EXCEPTION 'mine' USING ERRCODE = 'P0042', HINT = 'so', DETAIL = 'how'; END $$`, 'P0042'],
    [`DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$`, '40001'],
    [`SET statement_timeout = '1ms'; SELECT pg_sleep(5)`, '42601'],
  ])('%s with %s', async (text, code) => {
    expect((await thrown(neon(connectionString()).query(text))).code).toBe(code);
  });

  it('errors raised by a function of the project, with their context', async () => {
    await project.rows(
      `CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT nope); END'`,
    );
    expect(await thrown(neon(connectionString())`SELECT f()`)).toMatchObject({
      ...{ code: '42703', internalQuery: '(SELECT nope)', internalPosition: '9' },
      where: expect.stringContaining('PL/pgSQL function f() line 1') as string,
    });
  });

  it('a batch as a whole, and stores nothing of it', async () => {
    const sql = neon(connectionString());
    const error = await thrown(
      sql.transaction([
        sql`INSERT INTO t VALUES (1, 'a')`,
        sql`SELECT 1 / ${0}::int`,
        sql`INSERT INTO t VALUES (2, 'b')`,
      ]),
    );
    expect(error.code).toBe('22012');
    expect(await sql`SELECT * FROM t`).toEqual([]);
  });

  it('violations that a constraint finds at the end of the transaction', async () => {
    await project.rows('ALTER TABLE t ADD CONSTRAINT later UNIQUE (name) DEFERRABLE INITIALLY DEFERRED');
    const sql = neon(connectionString());
    const error = await thrown(
      sql.transaction([sql`INSERT INTO t VALUES (1, 'a')`, sql`INSERT INTO t VALUES (2, 'a')`]),
    );
    expect(error).toMatchObject({ code: '23505', constraint: 'later' });
    expect(await sql`SELECT * FROM t`).toEqual([]);
  });

  it('writes in a READ ONLY transaction and by the reader', async () => {
    const sql = neon(connectionString());
    const reader = neon(connectionString('reader'));
    const insert = 'INSERT INTO t VALUES (1, $1)';
    expect((await thrown(sql.transaction([sql.query(insert, ['a'])], { readOnly: true }))).code).toBe('25006');
    expect((await thrown(reader.query(insert, ['a']))).code).toMatch(/^(25006|42501)$/);
    expect((await thrown(reader.transaction([reader.query(insert, ['a'])], { readOnly: false }))).code).toMatch(
      /^\d{5}$/,
    );
    expect(await sql`SELECT * FROM t`).toEqual([]);
  });

  it('other failures with their status and advice', async () => {
    const message = async (sql: ReturnType<typeof neon>) => (await thrown(sql`SELECT 1`)).message;
    const reading = await project.tokenWith('sql:read');
    expect(await message(neon(connectionString('writer', 'wrong')))).toMatch(
      /status 401\).*bearer token is not valid/i,
    );
    expect(await message(neon('postgresql://writer@db.example/shop'))).toMatch(/status 401\).*postgresql:\/\/writer:/);
    expect(await message(neon(connectionString('writer', reading)))).toMatch(/status 403\).*lacks the scope sql:write/);
    expect(await message(neon(connectionString('postgres')))).toBe(
      'There is no user "postgres": use "writer", or "reader" for READ ONLY transactions',
    );
    const elsewhere = `postgresql://writer:${project.token}@db.example/other`;
    expect(await message(neon(elsewhere))).toBe(`The token is not for the database "other", but for "${project.name}"`);
  });
});
