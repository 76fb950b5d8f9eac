/** Streams: bodies of any size, in chunks, each a transaction. */
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  expectFailure,
  startTestService,
  type TestProject,
  type TestResponse,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
});
afterAll(() => service.close());

const TYPES = { ndjson: 'application/x-ndjson', csv: 'text/csv', tsv: 'text/tab-separated-values' } as const;

const COLUMNS = { n: 'INTEGER', name: 'TEXT', price: 'FLOAT', ok: 'BOOLEAN', at: 'TIMESTAMP', more: 'JSONB' };

let tables = 0;
async function newTable(columns: Record<string, string> = COLUMNS): Promise<string> {
  const table = `stream_${++tables}`;
  await project.table(table, columns);
  return table;
}

const send = (
  table: string,
  format: keyof typeof TYPES,
  body: string | Uint8Array,
  query = '',
  headers: Record<string, string> = {},
): Promise<TestResponse> =>
  project.call('POST', `/api/cdp/data/${table}${query}`, {
    body,
    headers: { 'content-type': TYPES[format], ...headers },
  });

const rowsOf = (table: string, columns = Object.keys(COLUMNS).join(', ')) =>
  project.rows(`SELECT ${columns} FROM ${table} ORDER BY n`);

const lines = (count: number, from = 0): string =>
  Array.from({ length: count }, (_, i) => `{"n":${from + i},"name":"name ${from + i}"}\n`).join('');

describe('formats', () => {
  it('NDJSON, with blank lines, a byte order mark, CRLF and no line end at the end', async () => {
    const table = await newTable();
    const body =
      '\uFEFF{"n":1,"name":"é"}\r\n\r\n \t\n{"n":2,"more":{"a":[1,2]},"ok":true}\n{"n":3,"price":1.5,"at":"2026-01-31T09:30:00Z"}';
    const { status, body: answer } = await send(table, 'ndjson', body);
    expect([status, answer]).toEqual([
      201,
      { success: true, inserted_rows: 3, chunks: 1, bytes: Buffer.byteLength(body), message: '3 records inserted' },
    ]);
    expect(await rowsOf(table, 'n, name, price, ok, more')).toEqual([
      { n: 1, name: 'é', price: null, ok: null, more: null },
      { n: 2, name: null, price: null, ok: true, more: { a: [1, 2] } },
      { n: 3, name: null, price: 1.5, ok: null, more: null },
    ]);
  });

  it('CSV has the cell grammar of an import', async () => {
    const table = await newTable();
    const body =
      'n,name,price,ok,at,more\n1,"a ""b"", é\nnext",1.50,yes,2026-01-31,"{""a"":\n1}"\n\n2,"",,f,2026-01-31 09:30:00+02:00,NA\n3,,.5,1,,\n';
    const { status, text } = await send(table, 'csv', body, '?null=NA');
    expect(status, text).toBe(201);
    expect(await rowsOf(table)).toEqual([
      { n: 1, name: 'a "b", é\nnext', price: 1.5, ok: true, at: '2026-01-31T00:00:00Z', more: { a: 1 } },
      { n: 2, name: '', price: null, ok: false, at: '2026-01-31T07:30:00Z', more: null },
      { n: 3, name: null, price: 0.5, ok: true, at: null, more: null },
    ]);
  });

  it('other delimiters', async () => {
    const table = await newTable();
    expect((await send(table, 'tsv', 'n\tname\n1\ta,b\n')).status).toBe(201);
    expect((await send(table, 'csv', 'n;name\n2;c\n', '?delimiter=;')).status).toBe(201);
    expect(await rowsOf(table, 'n, name')).toEqual([
      { n: 1, name: 'a,b' },
      { n: 2, name: 'c' },
    ]);
  });

  it('delimited text without a line end at the end', async () => {
    const table = await newTable();
    for (const body of ['n,name\n1,a', 'n,name\n2,"b"', 'n,name\n3,', 'n,name']) {
      expect((await send(table, 'csv', body)).body).toMatchObject({ bytes: body.length });
    }
    expect(await rowsOf(table, 'n, name')).toEqual([
      { n: 1, name: 'a' },
      { n: 2, name: 'b' },
      { n: 3, name: null },
    ]);
  });

  it('gzip', async () => {
    const table = await newTable();
    const body = lines(3);
    const { body: answer } = await send(table, 'ndjson', gzipSync(body), '', { 'content-encoding': 'gzip' });
    expect(answer).toMatchObject({ inserted_rows: 3, bytes: body.length });
  });

  it('a header alone and no lines are streams without records', async () => {
    const table = await newTable();
    expect((await send(table, 'csv', 'n,name\n')).body).toMatchObject({ inserted_rows: 0, chunks: 0, bytes: 7 });
    expect((await send(table, 'ndjson', '\n')).body).toMatchObject({ inserted_rows: 0, chunks: 0, bytes: 1 });
  });
});

describe('chunks', () => {
  it('many records are stored in chunks of at most 10,000, in order', async () => {
    const table = await newTable();
    const { body } = await send(table, 'ndjson', lines(25_000));
    expect(body).toMatchObject({ inserted_rows: 25_000, chunks: 3 });
    const [row] = await project.rows(
      `SELECT count(*) AS count, count(DISTINCT xmin::text) AS chunks, sum(n) AS sum FROM ${table}`,
    );
    expect(row).toEqual({ count: 25_000, chunks: 3, sum: (25_000 * 24_999) / 2 });
  });

  it('large records are stored in chunks of about 1 MiB', async () => {
    const table = await newTable();
    const body = Array.from({ length: 40 }, (_, n) => `{"n":${n},"name":"${'x'.repeat(100_000)}"}\n`).join('');
    const { body: answer } = await send(table, 'ndjson', body);
    expect(answer).toMatchObject({ inserted_rows: 40, bytes: body.length });
    expect(answer.chunks).toBeGreaterThanOrEqual(3);
  });

  it('the first chunk with a wrong record ends the stream, and those before it stay', async () => {
    const table = await newTable();
    const good = lines(10_000);
    const bad = '{"n":"x"}\n{"n":1}\nno JSON\n{"nn":1}\n';
    const response = await send(table, 'ndjson', good + bad + lines(30_000));
    const failure = expectFailure(response, 400, 'invalid_json');
    const at = (text: string) => good.length + bad.indexOf(text);
    expect(failure).toMatchObject({ stored_rows: 10_000, stored_bytes: good.length, error_count: 3 });
    expect(failure.errors).toMatchObject([
      { line: 10_003, offset: at('no JSON'), error: 'invalid_json' },
      { line: 10_001, offset: at('{"n":"x"}'), column: 'n', error: 'invalid_value' },
      { line: 10_004, offset: at('{"nn":1}'), column: 'nn', error: 'unknown_column' },
    ]);
    expect(await project.rows(`SELECT count(*) AS count FROM ${table}`)).toEqual([{ count: 10_000 }]);
  });
});
