/** Plans of Postgres as the console reads them: as EXPLAIN (FORMAT JSON) of Postgres 18 wrote them, shortened. */
import { describe, expect, it } from 'vitest';
import { exactDuration } from '../../console/src/parts/formats.js';
import { type PlanNode, readPlan } from '../../console/src/sql/plan.js';
import { toExplain } from '../../console/src/sql/statements.js';

const written = (plan: object): string => JSON.stringify([{ Plan: plan, 'Execution Time': 1 }]);

/** Every step as `title own share`. */
const flat = ({ title, own, share, children }: PlanNode): string[] => [
  `${title} ${own.toFixed(2)} ${Math.round(share * 100)} %`,
  ...children.flatMap(flat),
];

const stepsOf = (plan: object): string[] => {
  const read = readPlan(written(plan));
  return read === undefined ? [] : flat(read.root);
};

describe('a plan', () => {
  it('that was not run shows the cost of each step without its children', () => {
    const scan = {
      'Node Type': 'Seq Scan',
      'Relation Name': 'customers',
      Alias: 'c',
      'Total Cost': 18,
      'Plan Rows': 800,
    };
    const sort = { 'Node Type': 'Sort', 'Total Cost': 20, 'Plan Rows': 800, 'Sort Key': ['c.email'], Plans: [scan] };
    expect(stepsOf(sort)).toEqual(['Sort 2.00 10 %', 'Seq Scan on customers as c 18.00 90 %']);
    const plan = readPlan(written(sort));
    expect(plan).toMatchObject({ isTimed: false, total: 20, root: { details: ['by c.email'], actualRows: undefined } });
  });

  it('that was run shows the time of all loops of each step', () => {
    const timed = (type: string, time: number, loops: number, rows: number, more: object = {}) => ({
      'Node Type': type,
      'Actual Total Time': time,
      'Actual Loops': loops,
      'Actual Rows': rows,
      'Plan Rows': rows,
      ...more,
    });
    const inner = timed('Index Scan', 0.01, 500, 1, { 'Relation Name': 'orders' });
    const outer = timed('Seq Scan', 2, 1, 500, { 'Relation Name': 'customers' });
    const join = timed('Nested Loop', 8, 1, 500, { 'Join Type': 'Left', Plans: [outer, inner] });
    expect(stepsOf(join)).toEqual([
      'Nested Left Loop 1.00 13 %',
      'Seq Scan on customers 2.00 25 %',
      'Index Scan on orders 5.00 63 %',
    ]);
    expect(readPlan(written(join))?.root.children[1]?.actualRows).toBe(500);
  });

  it('in parallel counts the time of concurrent processes once', () => {
    const scan = {
      'Node Type': 'Seq Scan',
      'Relation Name': 'events',
      'Parallel Aware': true,
      'Actual Total Time': 90,
      'Actual Loops': 3,
      'Actual Rows': 333_333,
      'Plan Rows': 416_667,
    };
    const aggregate = {
      ...scan,
      'Node Type': 'Aggregate',
      'Relation Name': undefined,
      'Actual Total Time': 120,
      Plans: [scan],
    };
    const gather = {
      'Node Type': 'Gather',
      'Workers Planned': 2,
      'Workers Launched': 2,
      'Actual Total Time': 125,
      'Actual Loops': 1,
      'Actual Rows': 3,
      'Plan Rows': 2,
      Plans: [aggregate],
    };
    const root = { 'Node Type': 'Aggregate', 'Actual Total Time': 130, 'Actual Loops': 1, Plans: [gather] };
    expect(stepsOf(root)).toEqual([
      'Aggregate 5.00 4 %',
      'Gather 5.00 4 %',
      'Aggregate 30.00 23 %',
      'Seq Scan on events 90.00 69 %',
    ]);
    const [found] = readPlan(written(root))?.root.children[0]?.children[0]?.children ?? [];
    expect(found?.actualRows).toBe(999_999);
  });

  it('hints at what may help', () => {
    const scan = {
      'Node Type': 'Seq Scan',
      'Actual Total Time': 9,
      'Actual Loops': 1,
      'Actual Rows': 1,
      'Plan Rows': 50_000,
      'Rows Removed by Filter': 99_999,
    };
    expect(readPlan(written(scan))?.root.hints).toEqual([
      'Most rows were read and dropped: an index on the filtered columns may help.',
      'The estimate is far off: ANALYZE the table.',
    ]);
  });

  it.each(['', '[]', '{}', '[{"Plan": 1', 'Seq Scan on customers'])('cannot be read from %j', (text) => {
    expect(readPlan(text)).toBeUndefined();
  });
});

describe('the statement to explain', () => {
  it.each([
    ['SELECT 1', 'SELECT 1', 0],
    ['  -- first\nSELECT 1; SELECT 2', 'SELECT 1', 11],
    ['EXPLAIN SELECT 1', 'SELECT 1', 8],
    ['explain analyze verbose SELECT 1', 'SELECT 1', 24],
    ['EXPLAIN (ANALYZE, BUFFERS) SELECT 1', 'SELECT 1', 27],
    ['EXPLAIN(FORMAT JSON)SELECT 1', 'SELECT 1', 20],
    ['SELECT explain FROM t', 'SELECT explain FROM t', 0],
  ])('of %j is one statement without an EXPLAIN of its own', (text, statement, from) => {
    expect(toExplain(text)).toEqual({ text: statement, from });
  });

  it('does not exist in an empty text', () => {
    expect(toExplain(' ; -- nothing')).toBeUndefined();
  });
});

it.each([
  [0, '0 ms'],
  [0.042, '0.042 ms'],
  [3.14159, '3.1 ms'],
  [9.96, '10 ms'],
  [1_234, '1.2 s'],
])('formats %d ms as %s', (ms, text) => {
  expect(exactDuration(ms)).toBe(text);
});
