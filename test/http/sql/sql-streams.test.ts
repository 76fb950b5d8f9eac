/** Streams of free SQL (contract C14): NDJSON and CSV without a row limit, broken off on errors. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  expectFailure,
  onServer,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';
import { CSV, NDJSON, openStream } from '../../support/stream.js';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  // Many at once wait long for their turn on a machine with other work.
  service = await startTestService({ 'wait-ms': '30000' });
  project = await service.project();
});
afterAll(() => service.close());

const stream = (sql: string, accept: string, rest: object = {}): Promise<TestResponse> =>
  project.call('POST', '/api/cdp/sql', { body: { sql, ...rest }, headers: { accept } });

const lines = ({ text }: TestResponse): unknown[] =>
  text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as unknown);

describe('NDJSON', () => {
  it('has one line for each row and one at the end, with the common headers', async () => {
    const response = await stream(`SELECT g AS n, 'é' AS s, NULL AS nothing FROM generate_series(1, 3) g`, NDJSON);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe(NDJSON);
    expect(response.headers.get('x-request-id')).toBeTruthy();
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('server-timing')).toBeTruthy();
    expect(response.text).toBe(
      '{"n":1,"s":"é","nothing":null}\n{"n":2,"s":"é","nothing":null}\n{"n":3,"s":"é","nothing":null}\n{"done":true,"row_count":3}\n',
    );
  });

  it('has rows as arrays on request', async () => {
    expect(lines(await stream('SELECT 1 AS a, 2 AS a', NDJSON, { row_mode: 'array' }))).toEqual([
      [1, 2],
      { done: true, row_count: 1 },
    ]);
  });

  it('begins with the names and types of the columns on request', async () => {
    await project.rows(`CREATE TYPE mood AS ENUM ('good')`);
    const sql = `SELECT 1::bigint AS n, 1.5::numeric(4,2) AS amount, ARRAY[1] AS list, 'good'::mood AS mood, true AS n`;
    expect(lines(await stream(sql, NDJSON, { columns: true }))[0]).toEqual({
      columns: [
        { name: 'n', type: 'INTEGER' },
        { name: 'amount', type: 'numeric' },
        { name: 'list', type: 'integer[]' },
        { name: 'mood', type: null },
        { name: 'n_2', type: 'BOOLEAN' },
      ],
    });
    const noRows = await stream(`SELECT 1 AS a; CREATE TABLE no_rows ()`, NDJSON, { columns: true });
    expect(lines(noRows)).toEqual([{ columns: [] }, { done: true, row_count: 0, type: 'CREATE TABLE' }]);
    const insert = 'CREATE TABLE filled (a int); INSERT INTO filled VALUES (1), (2)';
    expect(lines(await stream(insert, NDJSON, { columns: true }))[1]).toEqual({
      done: true,
      row_count: 2,
      type: 'INSERT',
    });
    expectFailure(await stream('SELECT nothing', NDJSON, { columns: true }), 400, 'sql_error');
    expectFailure(await stream('SELECT 1', NDJSON, { columns: 'yes' }), 400, 'invalid_request');
    expect((await stream('SELECT 1 AS a', CSV, { columns: true })).text).toBe('a\n1\n');
  });

  it('keeps a row on one line, whatever it contains', async () => {
    const response = await stream(`SELECT E'a\\nb\\r\\u2028' AS s, E'{"a":\\n1}'::json AS j, 'x' AS "k\ney"`, NDJSON);
    expect(lines(response)).toEqual([
      { s: 'a\nb\r\u2028', j: { a: 1 }, 'k\ney': 'x' },
      { done: true, row_count: 1 },
    ]);
  });

  it('shows the last of several statements, and affected rows if there are no result rows', async () => {
    await project.rows('CREATE TABLE streamed (n int)');
    expect(lines(await stream('INSERT INTO streamed SELECT generate_series(1, 5)', NDJSON))).toEqual([
      { done: true, row_count: 5 },
    ]);
    expect(
      lines(await stream('SELECT 1; DELETE FROM streamed WHERE n > 3 RETURNING n; SELECT 7 AS n', NDJSON)),
    ).toEqual([{ n: 7 }, { done: true, row_count: 1 }]);
    expect(lines(await stream('SELECT 1 AS n; DELETE FROM streamed', NDJSON))).toEqual([{ done: true, row_count: 3 }]);
    expect(lines(await stream('VACUUM streamed', NDJSON))).toEqual([{ done: true, row_count: 0 }]);
    const withColumns = lines(await stream('VACUUM streamed', NDJSON, { columns: true }));
    expect(withColumns).toEqual([{ columns: [] }, { done: true, row_count: 0, type: 'VACUUM' }]);
    const warning = { code: '01000', message: 'careful' };
    const warns = `DO $$ BEGIN RAISE WARNING 'careful'; END $$`;
    expect(lines(await stream(warns, NDJSON))).toEqual([{ done: true, row_count: 0, warnings: [warning] }]);
  });

  it('has no row limit: 300,000 rows arrive, each once and in order', async () => {
    const response = await stream('SELECT generate_series(1, 300000) AS g', NDJSON, { max_rows: 5 });
    const found = lines(response) as { g: number }[];
    expect(found.length).toBe(300_001);
    expect(found.findIndex(({ g }, i) => g !== i + 1)).toBe(300_000);
    expect(found.at(-1)).toEqual({ done: true, row_count: 300_000 });
  });
});

describe('CSV', () => {
  it('has a header and records, and no final line', async () => {
    const response = await stream('SELECT g AS id, g * 2 AS id FROM generate_series(1, 2) g', CSV);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toMatch(/^text\/csv/);
    expect(response.text).toBe('id,id_2\n1,2\n2,4\n');
  });

  it('has only a header if there are no rows, and nothing if there are no columns', async () => {
    expect((await stream('SELECT 1 AS a WHERE false', CSV)).text).toBe('a\n');
    expect((await stream('CREATE TABLE nothing_to_show ()', CSV)).text).toBe('');
  });

  it('distinguishes NULL from the empty string and quotes like COPY, which can read it back', async () => {
    const values = [
      null,
      '',
      ' ',
      'a,b',
      'say "hi"',
      'two\nlines',
      'cr\rlf',
      '\\.',
      'NULL',
      "it's",
      'é€😀',
      '"',
      ',',
      ' x ',
    ];
    await project.rows('CREATE TABLE cells (i int, a text, b text)');
    for (const [i, value] of values.entries()) await project.rows('INSERT INTO cells VALUES ($1, $2, $2)', [i, value]);
    const select = 'SELECT a, b FROM cells ORDER BY i';
    const { text } = await stream(select, CSV);
    expect(text.split('\n').slice(0, 4)).toEqual(['a,b', ',', '"",""', ' , ']);

    const placement = (await service.engine.projects.get(project.name)).placement;
    const copied = await onServer(
      service.server,
      async (client) => {
        await client.query('CREATE TEMP TABLE expected (line text)');
        // The same rows by Postgres's own COPY, read as one text.
        const folder = (await client.query<{ data_directory: string }>('SHOW data_directory')).rows[0]?.data_directory;
        await client.query(
          `COPY (SELECT a, b FROM data.cells ORDER BY i) TO '${folder}/cells.csv' (FORMAT csv, HEADER)`,
        );
        const { rows } = await client.query<{ text: string }>(`SELECT pg_read_file('${folder}/cells.csv') AS text`);
        return rows[0]?.text;
      },
      placement.database,
    );
    expect(text).toBe(copied);
  });

  it('has values as text: numbers with all digits, quoted JSON, times in UTC', async () => {
    const { text } = await stream(
      `SELECT 9007199254740993::bigint AS a, 1.50::numeric AS b, '{"x": "y"}'::jsonb AS c, true AS d,
         '2024-01-02 03:04:05+01'::timestamptz AS e, '{1,2}'::int[] AS f, '\\x00ff'::bytea AS g, 'NaN'::float8 AS h`,
      CSV,
    );
    expect(text).toBe(
      'a,b,c,d,e,f,g,h\n9007199254740993,1.50,"{""x"": ""y""}",true,2024-01-02T02:04:05Z,"[1,2]",\\x00ff,NaN\n',
    );
  });
});

describe('the Accept header', () => {
  it('decides the format', async () => {
    for (const [accept, type] of [
      ['application/json', 'application/json'],
      ['*/*', 'application/json'],
      ['text/html, */*', 'application/json'],
      ['application/json, text/csv', 'application/json'],
      ['TEXT/CSV; header=present', CSV],
      ['text/csv, application/json', CSV],
      ['application/x-ndjson, application/json;q=0.5', NDJSON],
    ]) {
      const response = await stream('SELECT 1 AS n', accept ?? '');
      expect({ accept, type: response.headers.get('content-type')?.split(';')[0] }).toEqual({ accept, type });
    }
  });
});

describe('errors', () => {
  it('before the first bytes cause ordinary responses', async () => {
    for (const accept of [NDJSON, CSV]) {
      const response = await stream('SELECT 1 / (3 - g) FROM generate_series(1, 5) g', accept);
      expect(expectFailure(response, 400, 'sql_error').postgres?.sqlstate).toBe('22012');
      expect(response.headers.get('content-type')).toMatch(/^application\/json/);
      expectFailure(await stream('SELEC 1', accept), 400, 'sql_error');
      expectFailure(await stream('SELECT pg_sleep(9)', accept, { timeout_ms: 100 }), 504, 'query_timeout');
      expectFailure(await stream('COMMIT', accept), 400, 'statement_not_allowed');
    }
  });

  const LATE = 'SELECT 1 / (10000 - g) AS n, $$some text to fill it$$ AS s FROM generate_series(1, 20000) g';

  it('after them end NDJSON with an error line and break off the chunked encoding', async () => {
    const opened = await openStream(service, project, NDJSON, { sql: LATE });
    expect(opened.response.statusCode).toBe(200);
    const { text, whole } = await opened.rest();
    expect(whole).toBe(false);
    const last = JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as { error: Record<string, unknown> };
    expect(last.error).toMatchObject({
      error: 'sql_error',
      status: 400,
      success: false,
      postgres: { sqlstate: '22012' },
    });
    expect(text).not.toContain('"done"');
    await expect(stream(LATE, NDJSON)).rejects.toThrow();
  });

  it('after them break off CSV', async () => {
    const { whole } = await (await openStream(service, project, CSV, { sql: LATE })).rest();
    expect(whole).toBe(false);
    await expect(stream(LATE, CSV)).rejects.toThrow();
  });

  it('roll back what the statements did', async () => {
    await project.rows('CREATE TABLE undone (n int)');
    await expect(stream(`INSERT INTO undone VALUES (1); ${LATE}`, NDJSON)).rejects.toThrow();
    expect(await project.rows('SELECT * FROM undone')).toEqual([]);
  });

  it('occur for rows that another client encoding would garble', async () => {
    const flip = `SELECT set_config('client_encoding', CASE WHEN g = 1 THEN 'LATIN1' ELSE 'UTF8' END, false), 'é' AS s
      FROM generate_series(1, 2) g`;
    expectFailure(await stream(flip, NDJSON), 400, 'statement_not_allowed');
  });

  it.each([NDJSON, CSV])('occur for such a row long before or after the first bytes: %s', async (accept) => {
    const flip = (at: number) =>
      `SELECT set_config('client_encoding', CASE g WHEN ${at} THEN 'LATIN1' ELSE 'UTF8' END, false),
         repeat('é', 500) AS s FROM generate_series(1, 2000) g`;
    expectFailure(await stream(flip(1), accept), 400, 'statement_not_allowed');
    const late = await openStream(service, project, accept, { sql: flip(1_000) });
    const { text, whole } = await late.rest();
    expect(whole).toBe(false);
    expect(text).toContain('é');
    expect(text).not.toContain('\uFFFD');
  });

  it('occur for a row that is too large', async () => {
    expectFailure(await stream(`SELECT repeat('x', 17 * 1024 * 1024)`, NDJSON), 400, 'result_too_large');
  });

  it('occur at the time limit, halfway', async () => {
    const sql = 'SELECT g, repeat($$x$$, 1000), pg_sleep(0.001) FROM generate_series(1, 100000) g';
    const slow = await openStream(service, project, NDJSON, { sql, timeout_ms: 500 });
    const { text, whole } = await slow.rest();
    expect(whole).toBe(false);
    expect(text.trimEnd().split('\n').at(-1)).toContain('query_timeout');
  });
});

describe('the format follows Accept with its weights (RFC 9110 section 12.5.1)', () => {
  it.each<[string, string]>([
    ['', 'application/json'],
    ['*/*', 'application/json'],
    ['application/json, text/csv', 'application/json'],
    ['text/csv, application/json', 'text/csv'],
    ['text/csv;q=0, application/json', 'application/json'],
    ['text/csv;q=0', 'application/json'],
    ['text/csv;q=0, */*', 'application/json'],
    ['text/csv;q=0.5, application/json;q=0.9', 'application/json'],
    ['application/json;q=0.5, text/csv;q=0.9', 'text/csv'],
    ['application/json;q=0, */*;q=0.1', 'application/x-ndjson'],
    ['text/*', 'text/csv'],
    ['application/x-ndjson, */*', 'application/x-ndjson'],
    ['*/*;q=0.1, application/ndjson', 'application/x-ndjson'],
    ['TEXT/CSV ; header=present', 'text/csv'],
    ['application/json;charset=UTF-8', 'application/json'],
    ['image/png', 'application/json'],
    ['nonsense', 'application/json'],
    [',;q=,text/csv;q=x"', 'application/json'],
  ])('%j: %s', (accept, type) => decides(accept, type));

  it('also if it is long', () => decides(`${'a/b,'.repeat(2_000)}text/csv`, 'text/csv'));

  async function decides(accept: string, type: string): Promise<void> {
    const response = await stream('SELECT 1 AS one', accept);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')?.split(';')[0]).toBe(type);
  }
});

describe('protects', () => {
  it('every response from the rows of others, although all are written into the same memory', async () => {
    const sizes = [10, 3_000, 9_000];
    const many = Array.from({ length: 36 }, async (_, i) => {
      const rows = sizes[i % sizes.length] ?? 0;
      const mark = `answer ${i} `;
      const sql = `SELECT repeat('${mark}', 30) AS mark FROM generate_series(1, ${rows})`;
      const response = await stream(sql, i % 2 === 0 ? NDJSON : 'application/json');
      expect(response.text.split(mark).length - 1).toBe(30 * rows);
      expect(response.text.match(/answer \d+ /g)?.every((found) => found === mark)).toBe(true);
    });
    await Promise.all(many);
  });
});
