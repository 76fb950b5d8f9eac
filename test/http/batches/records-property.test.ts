/**
 * Random tables and batches against the real service: what gets 201 reads back equal, what is refused changes nothing,
 * and nothing causes a 500.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
});
afterAll(() => service.close());

/** A cell: the JSON that is sent and the value that a SELECT answers. */
interface Cell {
  sent: string;
  answered: unknown;
}

const INT64_MAX = 2n ** 63n - 1n;
const asAnswered = (n: bigint): number | string =>
  n >= -(2n ** 53n - 1n) && n <= 2n ** 53n - 1n ? Number(n) : String(n);
const same = (value: unknown): Cell => ({ sent: JSON.stringify(value), answered: JSON.parse(JSON.stringify(value)) });

const storable = fc.string({ unit: 'binary', maxLength: 30 }).filter((text) => !text.includes('\0'));
const int64 = fc.bigInt({ min: -INT64_MAX - 1n, max: INT64_MAX });
const finite = fc.double({ noNaN: true, noDefaultInfinity: true });
const instant = fc.date({
  min: new Date('0001-01-01'),
  max: new Date('9999-12-31T23:59:59.999Z'),
  noInvalidDate: true,
});

const NULL: Cell = { sent: 'null', answered: null };

/** For each type, cells that it takes (contract C5). */
const CELLS: Record<string, fc.Arbitrary<Cell>> = {
  TEXT: fc.oneof(
    storable.map(same),
    fc.oneof(finite, fc.boolean()).map((value) => ({ sent: JSON.stringify(value), answered: JSON.stringify(value) })),
  ),
  INTEGER: fc.oneof(
    int64.map((n) => ({ sent: String(n), answered: asAnswered(n) })),
    int64.map((n) => ({ sent: `"${n}"`, answered: asAnswered(n) })),
    fc.integer().map((n) => ({ sent: `${n}.000`, answered: n })),
    fc.nat({ max: 999 }).map((n) => ({ sent: `${n}e3`, answered: n * 1_000 })),
  ),
  FLOAT: fc.oneof(finite.map(same), fc.constantFrom('NaN', 'Infinity', '-Infinity').map(same)),
  BOOLEAN: fc.boolean().map(same),
  TIMESTAMP: instant.map((date) => ({
    sent: JSON.stringify(date),
    answered: date
      .toISOString()
      .replace(/(\.\d*?)0+Z$/, '$1Z')
      .replace('.Z', 'Z'),
  })),
  JSONB: fc
    .jsonValue({ stringUnit: 'binary', maxDepth: 4 })
    .filter((value) => !/\\u0000/.test(JSON.stringify(value)))
    .map(same),
};

const types = Object.keys(CELLS);
/** Any JSON, mostly nothing that a column would take. */
const hostile = fc.oneof(
  fc.json({ stringUnit: 'binary', maxDepth: 6 }),
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
  fc.constantFrom(
    '"\\ud800"',
    '"\\u0000"',
    '1e400',
    '-0',
    '1E+2',
    '"0x10"',
    '"now"',
    '{"a":1,"a":2}',
    '[[[[]]]]',
    '""',
  ),
  fc.nat({ max: 120 }).map((depth) => '['.repeat(depth) + ']'.repeat(depth) || '1'),
);

let tables = 0;
/** A new table with the columns c0, c1, … of these types, beside `n`, the position of the record. */
async function newTable(columnTypes: readonly string[]): Promise<string> {
  const table = `t${++tables}`;
  await project.table(table, { n: 'INTEGER', ...Object.fromEntries(columnTypes.map((type, i) => [`c${i}`, type])) });
  return table;
}

/** The ways that a batch may take through the service. */
const way = fc.constantFrom('plain', 'again', 'ids', 'key', 'ids and key');
let keys = 0;
async function insert(table: string, body: string | Uint8Array, how: string): Promise<TestResponse> {
  const headers: Record<string, string> = how.includes('key') ? { 'idempotency-key': `k${++keys}` } : {};
  const path = `/api/cdp/data/${table}${how.includes('ids') ? '?return=ids' : ''}`;
  const response = await project.call('POST', path, { body, headers });
  if (response.status !== 201) expectFailure(response, response.status, String(response.body?.error));
  expect([response.status < 500, response.text]).toEqual([true, response.text]);
  return response;
}

const count = async (table: string) => Number((await project.rows(`SELECT count(*) AS n FROM ${table}`))[0]?.n);

it('a batch of valid cells is stored and reads back equal', async () => {
  const batch = fc.array(fc.constantFrom(...types), { minLength: 1, maxLength: 6 }).chain((columnTypes) => {
    const cell = (type: string) =>
      fc.option(fc.oneof({ weight: 9, arbitrary: CELLS[type] as fc.Arbitrary<Cell> }, fc.constant(NULL)), {
        nil: undefined,
        freq: 6,
      });
    const record = fc.tuple(...columnTypes.map(cell));
    return fc.tuple(fc.constant(columnTypes), fc.array(record, { minLength: 1, maxLength: 20 }));
  });
  await fc.assert(
    fc.asyncProperty(batch, way, async ([columnTypes, records], how) => {
      const table = await newTable(columnTypes);
      if (how === 'again') {
        await insert(table, '[{"n":0}]', 'plain');
        await project.rows(`DELETE FROM ${table}`);
      }
      const members = (cells: readonly (Cell | undefined)[], n: number) =>
        [`"n":${n}`, ...cells.flatMap((cell, i) => (cell === undefined ? [] : [`"c${i}":${cell.sent}`]))].join();
      const response = await insert(table, `[${records.map((cells, n) => `{${members(cells, n)}}`).join()}]`, how);
      expect(response.body).toMatchObject({ success: true, inserted_rows: records.length });
      const rows = await project.rows(`SELECT * FROM ${table} ORDER BY n`);
      expect(rows).toEqual(
        records.map((cells, n) => ({
          id: rows[n]?.id,
          n,
          ...Object.fromEntries(cells.map((cell, i) => [`c${i}`, cell === undefined ? null : cell.answered])),
        })),
      );
      if (how.includes('ids')) expect(response.body.ids).toEqual(rows.map(({ id }) => id));
    }),
    { numRuns: 60 },
  );
});

it('a hostile batch is stored as a whole or refused as a whole', async () => {
  const table = await newTable(types);
  const columns = ['n', 'id', ...types.map((_, i) => `c${i}`)];
  const key = fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom(...columns) },
    fc.string({ unit: 'binary' }),
    fc.constantFrom('__proto__', 'constructor', 'toString', 'C0', 'xmin', ''),
  );
  const right = fc.constantFrom('null', '{"c0":"x"}', '{"c1":7,"c3":true}', '{}');
  const record = fc.oneof(
    { weight: 3, arbitrary: right },
    fc
      .array(fc.tuple(key, hostile), { maxLength: 4 })
      .map((members) => `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join()}}`),
    { weight: 1, arbitrary: hostile },
  );
  let stored = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(record, { maxLength: 6 }), way, async (records, how) => {
      const response = await insert(table, `[${records.join()}]`, how);
      if (response.status === 201) stored += records.length;
      expect(await count(table)).toBe(stored);
    }),
    { numRuns: 250 },
  );
});

it('a hostile body is refused as a whole, unless it is a batch', async () => {
  const table = await newTable(types);
  const body = fc.oneof(
    fc.json({ stringUnit: 'binary' }),
    fc.string({ unit: 'binary' }),
    fc.uint8Array({ maxLength: 200 }),
    fc
      .tuple(fc.constant('[{"c0":"'), fc.uint8Array({ maxLength: 20 }), fc.constant('"}]'))
      .map(([open, bytes, close]) => Buffer.concat([Buffer.from(open), bytes, Buffer.from(close)])),
    fc.integer({ min: 1, max: 100_000 }).map((depth) => '[{"c5":' + '{"a":'.repeat(depth)),
  );
  let stored = 0;
  await fc.assert(
    fc.asyncProperty(body, way, async (bytes, how) => {
      const response = await insert(table, bytes, how);
      if (response.status === 201) stored += Number(response.body.inserted_rows);
      expect(await count(table)).toBe(stored);
    }),
    { numRuns: 250 },
  );
});

it('a hostile path, query or key of a request is clearly refused', async () => {
  const table = await newTable(['TEXT']);
  const text = fc.oneof(
    fc.string({ unit: 'binary' }).filter((s) => !s.includes('\0')),
    fc.webQueryParameters(),
  );
  await fc.assert(
    fc.asyncProperty(text, fc.constantFrom('path', 'query', 'key'), async (given, where) => {
      const name = where === 'path' ? encodeURIComponent(given) || '-' : table;
      const query = where === 'query' ? `?${encodeURI(given).replaceAll('#', '')}` : '';
      const headers = where === 'key' ? { 'idempotency-key': Buffer.from(given).toString('base64') } : {};
      const response = await project.call('POST', `/api/cdp/data/${name}${query}`, { body: '[{"c0":{}}]', headers });
      expect([response.status < 500, response.text]).toEqual([true, response.text]);
      expectFailure(response, response.status, String(response.body?.error));
    }),
    { numRuns: 150 },
  );
  expect(await count(table)).toBe(0);
});
