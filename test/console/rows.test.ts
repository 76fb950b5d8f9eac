/** The statements of a table's pages, and the order that the browser gives to a result. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Column } from '../../src/client/index.js';
import { arranged } from '../../console/src/results/arrange.js';
import type { Condition, Sort } from '../../console/src/results/conditions.js';
import { comparerOf, faultOf } from '../../console/src/results/order.js';
import { Result } from '../../console/src/results/result.js';
import { type Cursor, orderOf, pageStatements, type RowsQuery } from '../../console/src/rows/statement.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.rows(`CREATE TABLE "Visits" (
    id int, day date, PRIMARY KEY (id, day), "select" text, at timestamptz, amount numeric, ok boolean, doc jsonb)`);
  // Equal values and NULL in every column that can have them, with pages of 7 that end in the middle of both.
  await project.rows(`INSERT INTO "Visits" SELECT n, date '2026-01-01' + n % 5,
      CASE WHEN n % 3 > 0 THEN (ARRAY['a%', 'B_', 'é\\', ''])[n % 4 + 1] END,
      CASE WHEN n % 4 > 0 THEN timestamptz '2026-01-31 12:00Z' + (n % 6) * interval '0.123456 s' END,
      CASE n % 7 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' ELSE 9007199254740993 + n % 5 / 10.0 END,
      CASE WHEN n % 2 = 0 THEN n % 4 = 0 END, jsonb_build_object('n', n)
    FROM generate_series(1, 60) AS n`);
});
afterAll(() => service.close());

const COLUMNS: Column[] = [
  ['id', 'integer'],
  ['day', 'date'],
  ['select', 'TEXT'],
  ['at', 'TIMESTAMP'],
  ['amount', 'numeric'],
  ['ok', 'BOOLEAN'],
  ['doc', 'JSONB'],
].map(([name = '', type = '']) => ({ name, type, comment: null }));

const queryOf = (sort: Sort | null, conditions: Condition[] = []): RowsQuery => {
  const key = ['id', 'day'];
  return { table: 'Visits', columns: COLUMNS, isAll: true, key, sort, conditions };
};

/** All rows as pages of 7 return them, each page from where the one before ended. */
async function paged(query: RowsQuery): Promise<string[]> {
  const ids: string[] = [];
  for (let after: Cursor | null = null; ;) {
    const page: Record<string, unknown>[] = [];
    for (const { text, params } of pageStatements(query, after, 7)) {
      page.push(...(await project.rows(text, [...params])));
      if (page.length >= 7) break;
    }
    const rows = page.slice(0, 7);
    ids.push(...rows.map(({ id }) => String(id)));
    if (rows.length < 7) return ids;
    after = orderOf(query).map((name) => {
      const value = (rows.at(-1)?.[name] ?? null) as string | number | boolean | null;
      return value === null ? null : String(value);
    });
  }
}

describe('the pages of a table', () => {
  it.each(
    ['select', 'at', 'amount', 'ok', 'id', 'day'].flatMap((column) => [
      [column, false] as const,
      [column, true] as const,
    ]),
  )('by %s, descending: %s, have each row once and in order, and no OFFSET', async (column, isDescending) => {
    const direction = isDescending ? 'DESC' : 'ASC';
    const order = [`"${column}"`, 'id', 'day'].map((name) => `${name} ${direction}`).join(', ');
    const all = await project.rows(`SELECT id FROM "Visits" ORDER BY ${order}`);
    const query = queryOf({ column, isDescending });
    expect(await paged(query)).toEqual(all.map(({ id }) => String(id)));
    for (const { text } of pageStatements(query, ['1', '2', '3'], 7)) expect(text).not.toMatch(/offset/i);
  });

  it('by the key alone, and with conditions, have each row once', async () => {
    const ids = Array.from({ length: 60 }, (_, i) => String(i + 1));
    expect(await paged(queryOf(null))).toEqual(ids);
    const conditions: Condition[] = [{ column: 'id', operator: '>', value: '20' }];
    expect(await paged(queryOf({ column: 'at', isDescending: true }, conditions))).toHaveLength(40);
  });

  it.each<[Condition['operator'], string, string, string]>([
    ['=', 'select', 'a%', `"select" = 'a%'`],
    ['<>', 'select', 'a%', `"select" IS DISTINCT FROM 'a%'`],
    ['contains', 'select', '%', `strpos("select", '%') > 0`],
    ['contains', 'select', 'b_', `"select" = 'B_'`],
    ['starts', 'select', 'é\\', `"select" = 'é\\'`],
    ['contains', 'doc', '"n": 7', `doc->>'n' = '7'`],
    ['<', 'amount', '9007199254740993.1', `amount < 9007199254740993.1`],
    ['>=', 'at', '2026-01-31 12:00:00.2Z', `at >= '2026-01-31 12:00:00.2Z'`],
    ['false', 'ok', '', `NOT ok`],
    ['null', 'at', '', `at IS NULL`],
    ['not null', 'at', '', `at IS NOT NULL`],
  ])('with a condition (%s %s %s) have what Postgres finds', async (operator, column, value, where) => {
    const all = await project.rows(`SELECT id FROM "Visits" WHERE ${where} ORDER BY id`);
    expect(all.length).toBeGreaterThan(0);
    expect(await paged(queryOf(null, [{ column, operator, value }]))).toEqual(all.map(({ id }) => String(id)));
  });
});

describe('a result, arranged in the browser', () => {
  it.each([
    ['INTEGER', ['-9007199254740993', '-9007199254740992', '2', '10', '9007199254740992', '9007199254740993']],
    ['numeric', ['-Infinity', '-1.50', '0.10', '0.1000000000000000000001', '1e3', 'Infinity', 'NaN']],
    [
      'TIMESTAMP',
      ['-infinity', '0044-03-15T12:00:00Z BC', '2026-01-31T12:00:00Z', '2026-01-31T12:00:00.5Z', 'infinity'],
    ],
    ['date', ['0100-01-01 BC', '0044-01-01 BC', '0001-01-01', '2026-01-31', '10000-01-01']],
    ['interval', ['-1 days', '-00:00:01', '23:59:59.5', '1 day', '29 days 23:00:00', '1 mon', '1 year 2 mons']],
    ['time without time zone', ['09:30:00', '09:30:00.5', '10:00:00']],
    ['BOOLEAN', ['false', 'true']],
    ['TEXT', ['', '2 apples', 'apple', 'Banana', 'cherry']],
  ])('orders values of %s as they are', (type, inOrder) => {
    expect(inOrder.toReversed().sort(comparerOf(type))).toEqual(inOrder);
  });

  const result = new Result([
    { name: 'n', type: 'INTEGER' },
    { name: 'name', type: 'TEXT' },
  ]);
  for (const line of ['[3,"Ada"]', '[null,"bob"]', '[20,null]', '[3,"adam"]']) result.take(line);
  result.end('SELECT', 4);
  const cells = (sort: Sort | null, ...conditions: Condition[]) => {
    const rows = arranged(result, { sort, conditions });
    return Array.from({ length: rows.held }, (_, row) => rows.cells(row).join());
  };

  it('puts NULL last, or first if descending, and keeps equal values in their order', () => {
    expect(cells({ column: 'n', isDescending: false })).toEqual(['3,"Ada"', '3,"adam"', '20,null', 'null,"bob"']);
    expect(cells({ column: 'n', isDescending: true })).toEqual(['null,"bob"', '20,null', '3,"Ada"', '3,"adam"']);
  });

  it('keeps the rows that meet all conditions', () => {
    expect(cells(null, { column: 'name', operator: 'contains', value: 'ADA' })).toEqual(['3,"Ada"', '3,"adam"']);
    expect(cells(null, { column: 'name', operator: 'starts', value: 'ada' })).toEqual(['3,"adam"']);
    expect(cells(null, { column: 'n', operator: '<>', value: '3' })).toEqual(['null,"bob"', '20,null']);
    const greater: Condition = { column: 'n', operator: '>', value: ' 2 ' };
    expect(cells(null, greater, { column: 'name', operator: 'not null', value: '' })).toHaveLength(2);
  });

  it('says what is no value of a type', () => {
    expect(faultOf('many', 'INTEGER')).toContain('“many” is not a number');
    expect(faultOf('yesterday', 'TIMESTAMP')).toContain('not a time');
    expect(faultOf('soon', 'interval')).toContain('not an interval');
    expect(
      ['1.5', '2026-01-31 09:30', '1 day', 'x'].map((text, i) =>
        faultOf(text, ['numeric', 'TIMESTAMP', 'interval', 'TEXT'][i] ?? ''),
      ),
    ).toEqual(['', '', '', '']);
  });
});
