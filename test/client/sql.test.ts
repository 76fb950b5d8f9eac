/** SQL and schema calls through the client, against the real service. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CdpClient, CdpError } from '../../src/client/index.js';
import { onServer, startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let cdp: CdpClient;

beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  // A base address may end in a slash.
  cdp = new CdpClient({ url: `${service.url}/`, token: project.token });
  await project.table('people', { name: 'TEXT', age: 'INTEGER' });
  await cdp.insert('people', [
    { name: 'ada', age: 36 },
    { name: "x'; DROP TABLE people; --", age: 45 },
  ]);
});
afterAll(() => service.close());

async function caught(work: PromiseLike<unknown>): Promise<unknown> {
  return Promise.resolve(work).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
}

async function collect<Row>(rows: AsyncIterable<Row>): Promise<Row[]> {
  const all: Row[] = [];
  for await (const row of rows) all.push(row);
  return all;
}

describe('the schema', () => {
  it('can be created, changed, read and dropped', async () => {
    const made = await cdp.createTable({ table_name: 'visits', columns: [{ name: 'at', type: 'TIMESTAMP' }] });
    expect(made).toMatchObject({ table: 'visits', columns: ['id', 'at'] });
    const added = await cdp.addColumn('visits', { name: 'pages', type: 'INTEGER', comment: 'how many' });
    expect(added).toMatchObject({ message: 'column added', column: { name: 'pages', type: 'INTEGER' } });
    const altered = await cdp.alterColumn('visits', 'pages', { new_name: 'views', new_type: 'FLOAT' });
    expect(altered.column).toEqual({ name: 'views', type: 'FLOAT', comment: 'how many' });
    expect((await cdp.describe('visits')).columns.map(({ name }) => name)).toEqual(['id', 'at', 'views']);
    expect((await cdp.tables()).map(({ name }) => name)).toEqual(['people', 'visits']);
    await cdp.alterColumn('visits', 'views', { default: 0.5, not_null: true });
    expect(await cdp.alterTable('visits', { comment: 'x' })).toMatchObject({ table: 'visits', comment: 'x' });
    await cdp.insert('visits', [{ views: 1.5 }]);
    const { rows } = await cdp.sql<{ id: string }>`SELECT id FROM visits WHERE views = 1.5`;
    const lost = await caught(cdp.alterColumn('visits', 'views', { new_type: 'INTEGER' }, { return: 'values' }));
    expect(lost).toMatchObject({
      code: 'not_convertible',
      rows: 1,
      ids: rows.map(({ id }) => id),
      values: [{ value: '1.5', rows: 1 }],
    });
    await cdp.alterColumn('visits', 'views', { new_type: 'INTEGER', map: { '1.5': '2' } });
    const { index } = await cdp.createIndex('visits', { columns: ['views'], unique: true });
    expect((await cdp.indexes('visits')).map(({ name }) => name)).toEqual(['visits_pkey', index.name]);
    expect(await cdp.dropIndex('visits', index.name)).toMatchObject({ table: 'visits', index: index.name });
    expect(await cdp.dropColumn('visits', 'views')).toMatchObject({ table: 'visits', column: 'views' });
    expect(await cdp.dropTable('visits')).toMatchObject({ table: 'visits' });
    expect((await cdp.tables()).map(({ name }) => name)).toEqual(['people']);
  });
});

describe('sql works', () => {
  it('as a template whose values are parameters, whatever they hold', async () => {
    const name = "x'; DROP TABLE people; --";
    const { rows, row_count } = await cdp.sql<{ age: number }>`SELECT age FROM people WHERE name = ${name}`;
    expect(rows).toEqual([{ age: 45 }]);
    expect(row_count).toBe(1);
  });

  it('as a promise with catch and finally, and runs once', async () => {
    const query = cdp.sql`INSERT INTO people (name) VALUES (${'promised'})`;
    let ended = 0;
    expect(await query.finally(() => ended++)).toMatchObject({ affected_rows: 1 });
    expect(await query.catch(() => 'failed')).toMatchObject({ affected_rows: 1 });
    expect(await cdp.sql`SELECT nothing`.catch(({ code }: CdpError) => code)).toBe('sql_error');
    const failed = cdp.sql`SELECT nothing`.finally(() => ended++);
    expect(await caught(failed)).toMatchObject({ code: 'sql_error' });
    expect(ended).toBe(2);
    expect(await cdp.sql`DELETE FROM people WHERE name = 'promised'`).toMatchObject({ affected_rows: 1 });
  });

  it('with nested fragments, and with names only through identifier', async () => {
    const { sql } = cdp;
    const adult = sql`age >= ${18}`;
    const called = sql`name IN (${'ada'}, ${'grace'})`;
    const { rows } = await sql`SELECT ${sql.identifier('name')} FROM people WHERE ${adult} AND (${called}) LIMIT ${5}`;
    expect(rows).toEqual([{ name: 'ada' }]);
    const odd = await sql`SELECT 1 AS ${sql.identifier('a "quoted" name')}`;
    expect(odd.rows).toEqual([{ 'a "quoted" name': 1 }]);
  });

  it('with arrays, objects, dates and bigints as parameters', async () => {
    const at = new Date('2026-01-31T09:30:00Z');
    const { rows } = await cdp.sql`
      SELECT ${9223372036854775807n}::bigint AS big, ${[1, 2]}::int[] AS list, ${{ a: [1n] }}::jsonb AS json,
        ${at}::timestamptz AS at, ${null}::text AS none, ${'NaN'}::float8 AS nan`;
    expect(rows).toEqual([
      {
        big: '9223372036854775807',
        list: [1, 2],
        json: { a: [1] },
        at: '2026-01-31T09:30:00Z',
        none: null,
        nan: 'NaN',
      },
    ]);
  });

  it('only once it is awaited, and once', async () => {
    const query = cdp.sql`INSERT INTO people (name, age) VALUES ('once', 1) RETURNING age`;
    expect((await project.rows(`SELECT count(*) AS n FROM people WHERE name = 'once'`))[0]).toEqual({ n: 0 });
    expect((await query).rows).toEqual([{ age: 1 }]);
    expect((await query).rows).toEqual([{ age: 1 }]);
    expect((await project.rows(`DELETE FROM people WHERE name = 'once' RETURNING 1`)).length).toBe(1);
  });

  it('as text with parameters and options', async () => {
    const options = { row_mode: 'array', max_rows: 2, timeout_ms: 5_000, read_only: true } as const;
    const response = await cdp.query<[number]>('SELECT n FROM generate_series(1, $1::int) AS n', [10], options);
    expect(response).toMatchObject({ type: 'SELECT', rows: [[1], [2]], row_count: 2, truncated: true });
    const again = await cdp.query<[number]>(cdp.sql`SELECT ${5}::int`, { row_mode: 'array' });
    expect(again.rows).toEqual([[5]]);
  });

  it('with bigints for INTEGER columns on request, in every result and row mode', async () => {
    const text = `SELECT 9007199254740993::bigint AS big, 7::bigint AS small, NULL::bigint AS none, '12' AS text`;
    expect((await cdp.query(text)).rows).toEqual([{ big: '9007199254740993', small: 7, none: null, text: '12' }]);
    const exact = await cdp.query(text, [], { integers: 'bigint' });
    expect(exact.rows).toEqual([{ big: 9007199254740993n, small: 7n, none: null, text: '12' }]);
    const arrays = await cdp.query(text, [], { integers: 'bigint', row_mode: 'array' });
    expect(arrays.rows).toEqual([[9007199254740993n, 7n, null, '12']]);
    const two = await cdp.query('SELECT 1::bigint AS a; SELECT 2::bigint AS a', [], { integers: 'bigint' });
    expect(two.results?.map(({ rows }) => rows as unknown)).toEqual([[{ a: 1n }], [{ a: 2n }]]);
  });
});

describe('sql refuses', () => {
  it('text in place of a template, invalid names, and values that cannot be sent', async () => {
    const call = cdp.sql as unknown as (text: string) => unknown;
    expect(() => call('SELECT 1')).toThrow('query(text, params)');
    expect(() => cdp.sql.identifier('')).toThrow('not a name');
    expect(await caught(cdp.sql`SELECT ${undefined}`)).toBeInstanceOf(TypeError);
    expect(await caught(cdp.sql`SELECT ${1}, ${new Date(NaN)}`)).toMatchObject({
      message: '"$2": the Date is invalid',
    });
    const asOptions = { read_only: true } as unknown as unknown[];
    expect(await caught(cdp.query('SELECT 1', asOptions))).toMatchObject({
      message: expect.stringContaining('params: an array') as string,
    });
    const stream = cdp.sqlStream.bind(cdp) as unknown as (texts: TemplateStringsArray) => AsyncIterable<unknown>;
    await expect(collect(stream`SELECT 1`)).rejects.toThrow('sqlStream(sql`…`)');
  });

  it('an invalid address and a missing token before it sends anything', () => {
    for (const url of ['localhost:8080', 'cdp.example', undefined as unknown as string]) {
      expect(() => new CdpClient({ url, token: project.token })).toThrow(
        `url must be a URL such as http://127.0.0.1:8080, not ${url}`,
      );
    }
    const { token } = {} as { token: string };
    for (const missing of [token, '', ' ']) {
      expect(() => new CdpClient({ url: service.url, token: missing })).toThrow('token is missing');
    }
    // Node's fetch would quote it in its error.
    for (const wrong of ['secret\nx', 'secret x', 'secret…']) {
      const message = 'token: it has spaces or characters that a token never has';
      expect(() => new CdpClient({ url: service.url, token: wrong })).toThrow(new TypeError(message));
    }
  });

  it('with the error of Postgres', async () => {
    const error = await caught(cdp.sql`SELECT nothing FROM people`);
    expect(error).toBeInstanceOf(CdpError);
    expect(error).toMatchObject({ code: 'sql_error', status: 400, postgres: { sqlstate: '42703', position: 8 } });
  });

  it('a write in read-only mode, and changes nothing', async () => {
    const error = await caught(cdp.query('DELETE FROM people', [], { read_only: true }));
    expect(error).toMatchObject({ code: 'permission_denied', status: 403 });
    expect(await project.rows('SELECT count(*) AS n FROM people')).toEqual([{ n: 2 }]);
  });

  it('to continue after an abort', async () => {
    const signal = AbortSignal.timeout(200);
    expect(await caught(cdp.query('SELECT pg_sleep(30)', [], { signal }))).toMatchObject({ code: 'aborted' });
  });
});

describe('a stream', () => {
  it('yields every row of a result without a limit, as objects and as arrays', async () => {
    const rows = await collect(
      cdp.sqlStream<{ n: number }>('SELECT n FROM generate_series(1, $1::int) AS n', [150_000]),
    );
    expect(rows).toHaveLength(150_000);
    expect(rows.at(-1)).toEqual({ n: 150_000 });
    expect(await collect(cdp.sqlStream(cdp.sql`SELECT ${'é'} AS a, 2 AS b`, { row_mode: 'array' }))).toEqual([
      ['é', 2],
    ]);
  });

  it('yields numbers as strings, or as text with all their digits', async () => {
    const text = 'SELECT 9007199254740993 AS big, 7::bigint AS small, 1.50 AS exact';
    const exact = { big: '9007199254740993', small: '7', exact: '1.50' };
    expect(await collect(cdp.sqlStream(text, [], { numbers: 'string' }))).toEqual([exact]);
    expect((await cdp.query(text, [], { numbers: 'string' })).rows).toEqual([exact]);
    const raw = '{"big":9007199254740993,"small":7,"exact":1.50}';
    expect(await collect(cdp.sqlLines(text, [], { numbers: 'raw' }))).toEqual([raw]);
    expect(await cdp.queryJson(text, [], { numbers: 'raw' })).toContain(`"rows":[${raw}]`);
  });

  it('yields columns and then arrays, in batches, and returns at the end', async () => {
    const text = 'SELECT n, 1.50 AS exact FROM generate_series(1, 30000) AS n';
    const { columns, batches } = await cdp.sqlArrays(text, [], { numbers: 'raw' });
    expect(columns).toEqual([
      { name: 'n', type: 'integer' },
      { name: 'exact', type: 'numeric' },
    ]);
    const rows: string[] = [];
    let batch = await batches.next();
    for (; !batch.done; batch = await batches.next()) rows.push(...batch.value);
    expect([rows.length, rows[0], rows.at(-1)]).toEqual([30_000, '[1,1.50]', '[30000,1.50]']);
    expect(batch.value.row_count).toBe(30_000);
    const nothing = await cdp.sqlArrays('SELECT 1 AS one WHERE false');
    expect(nothing.columns).toEqual([{ name: 'one', type: 'integer' }]);
    expect(await nothing.batches.next()).toMatchObject({ done: true, value: { row_count: 0 } });
    const late = await cdp.sqlArrays('SELECT 1 / (90000 - n) AS x FROM generate_series(1, 100000) AS n');
    await expect(collect(late.batches)).rejects.toMatchObject({ code: 'sql_error', postgres: { sqlstate: '22012' } });
  });

  it('yields rows that look like its last line, empty results, and rows in many chunks', async () => {
    expect(await collect(cdp.sqlStream(`SELECT true AS done, 1 AS row_count FROM generate_series(1, 2)`))).toEqual([
      { done: true, row_count: 1 },
      { done: true, row_count: 1 },
    ]);
    const error = { success: false, error: 'internal' };
    expect(await collect(cdp.sqlStream(cdp.sql`SELECT ${error}::jsonb AS error`))).toEqual([{ error }]);
    expect(await collect(cdp.sqlStream('SELECT 1 WHERE false'))).toEqual([]);
    expect(await collect(cdp.sqlStream('CREATE TABLE from_a_stream (a int)'))).toEqual([]);
    const [large] = await collect(cdp.sqlStream<{ x: string }>(`SELECT repeat('é', 2000000) AS x`));
    expect(large?.x).toBe('é'.repeat(2_000_000));
  });

  it('holds the service back while the caller works, in bounded memory', async () => {
    // 500 MB, of which the caller takes 10 rows.
    const rows = cdp.sqlStream(`SELECT n, repeat('x', 5000) AS x FROM generate_series(1, 100000) AS n`);
    const before = process.memoryUsage().rss;
    let taken = 0;
    for await (const row of rows) {
      expect(row).toHaveProperty('n');
      await new Promise((resolve) => setTimeout(resolve, 50));
      if (++taken === 10) break;
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
    // Leaving the loop ended the statement.
    const running = `SELECT 1 FROM pg_stat_activity
      WHERE state = 'active' AND query LIKE '%repeat(''x'', 5000)%' AND pid <> pg_backend_pid()`;
    const left = async () => (await onServer(service.server, (pg) => pg.query(running))).rowCount;
    await expect.poll(left, { timeout: 10_000 }).toBe(0);
  });

  it('throws the error that the service writes into it, after the rows before the error', async () => {
    const rows: unknown[] = [];
    const work = async () => {
      for await (const row of cdp.sqlStream('SELECT 1 / (60000 - n) AS q FROM generate_series(1, 60000) AS n'))
        rows.push(row);
    };
    expect(await caught(work())).toMatchObject({ code: 'sql_error', postgres: { sqlstate: '22012' } });
    expect(rows.length).toBeGreaterThan(0);
  });

  it('throws an error that precedes the first row, and ends with an abort', async () => {
    expect(await caught(collect(cdp.sqlStream('SELECT nothing')))).toMatchObject({ code: 'sql_error' });
    const abort = new AbortController();
    const stream = cdp.sqlStream('SELECT n FROM generate_series(1, 10000000) AS n', [], { signal: abort.signal });
    const work = async () => {
      for await (const row of stream) abort.abort(row);
    };
    expect(await caught(work())).toMatchObject({ code: 'aborted' });
  });
});
