/** What a chart shows of a result: the suggestion, the marks, and the axes. */
import { describe, expect, it } from 'vitest';
import { numberAxis, timeAxis } from '../../console/src/chart/axes.js';
import { type ChartChoice, choiceFor } from '../../console/src/chart/choice.js';
import { plotOf } from '../../console/src/chart/plot.js';
import { Result } from '../../console/src/results/result.js';

function resultOf(columns: Record<string, string>, rows: readonly string[]): Result {
  const result = new Result(Object.entries(columns).map(([name, type]) => ({ name, type })));
  for (const row of rows) result.take(row);
  result.end('SELECT', rows.length);
  return result;
}

const suggestion = (columns: Record<string, string>, rows: readonly string[] = []) => {
  const { kind, x, y, series } = choiceFor(resultOf(columns, rows), null);
  return `${kind}: ${y.join()} by ${x}, ${series}`;
};

describe('the suggestion', () => {
  it.each([
    [{ month: 'date', total: 'numeric' }, 'line: total by month, null'],
    [{ id: 'uuid', customer_id: 'INTEGER', city: 'TEXT', age: 'INTEGER', at: 'TIMESTAMP' }, 'line: age by at, null'],
    [{ id: 'uuid', customer_id: 'INTEGER', city: 'TEXT', age: 'INTEGER' }, 'bar: age by city, null'],
    [{ height: 'double precision', weight: 'real' }, 'point: weight by height, null'],
    [{ id: 'bigint', weight: 'real' }, 'point: weight by id, null'],
    [{ n: 'bigint' }, 'line: n by null, null'],
    [{ doc: 'jsonb', list: 'integer[]', price: 'money', n: 'smallint' }, 'bar: n by price, null'],
  ])('for %o is %s', (columns, expected) => {
    expect(suggestion(columns)).toBe(expected);
  });

  it('colors by a column with few values that distinguishes rows at the same position', () => {
    const columns = { month: 'date', region: 'text', total: 'numeric' };
    expect(suggestion(columns, ['["2024-01-01","N",1]', '["2024-01-01","S",2]'])).toContain(', region');
    expect(suggestion(columns, ['["2024-01-01","N",1]', '["2024-02-01","S",2]'])).toContain(', null');
  });

  it('replaces a choice only if its columns are gone', () => {
    const kept: ChartChoice = { kind: 'bar', x: 'b', y: ['a'], series: null };
    expect(choiceFor(resultOf({ a: 'integer', b: 'integer' }, []), kept)).toBe(kept);
    expect(choiceFor(resultOf({ a: 'text', b: 'integer' }, []), kept).y).toEqual(['b']);
  });
});

describe('marks', () => {
  const choice: ChartChoice = { kind: 'line', x: 'x', y: ['y'], series: null };
  const places = (type: string, rows: readonly string[]) =>
    plotOf(resultOf({ x: type, y: 'integer' }, rows), choice).series[0]?.marks.map(({ x, y }) => [x, y]);

  it('of times are in order, and invalid times are left out', () => {
    const rows = [
      '["2024-01-01 00:00:01.5",2]',
      '["2024-01-01 00:00:00",1]',
      '["infinity",3]',
      '["0044-03-15 BC",4]',
      '[null,5]',
    ];
    const start = Date.UTC(2024, 0, 1);
    expect(places('timestamp without time zone', rows)).toEqual([
      [start, 1],
      [start + 1_500, 2],
    ]);
    expect(places('TIMESTAMP', ['["2024-01-01T00:00:00.123456Z",1]'])).toEqual([[start + 123, 1]]);
    expect(places('date', ['["2024-01-01",1]'])).toEqual([[start, 1]]);
  });

  it('of NULL and NaN are gaps; digits beyond a double are rounded', () => {
    expect(places('integer', ['[1,null]', '[2,"NaN"]', '[3,9007199254740993]', '[4,"-Infinity"]'])).toEqual([
      [1, NaN],
      [2, NaN],
      [3, 9007199254740992],
      [4, NaN],
    ]);
  });

  it('of bars are the sums at each position, which the notes say', () => {
    const rows = ['["a",1]', '["b",5]', '["a",2]', '[null,7]'];
    const plot = plotOf(resultOf({ x: 'text', y: 'integer' }, rows), { ...choice, kind: 'bar' });
    expect(plot.categories).toEqual(['a', 'b', 'NULL']);
    expect(plot.series[0]?.marks).toEqual([
      { x: 0, y: 3, rows: [0, 2] },
      { x: 1, y: 5, rows: [1] },
      { x: 2, y: 7, rows: [3] },
    ]);
    expect(plot.notes).toEqual(['Rows of the same x are added up.']);
  });

  it('have limits, which the notes state', () => {
    const rows = Array.from({ length: 10_001 }, (_, n) => `["v${n}",${n}]`);
    const result = resultOf({ x: 'text', y: 'integer' }, rows);
    expect(plotOf(result, choice).notes).toEqual([
      'The first 10,000 of 10,001 rows are drawn. Group them in the query to draw them all.',
      'The first 200 values of x are drawn; 9,800 are not.',
    ]);
    const colored = plotOf(result, { ...choice, x: null, series: 'x' });
    expect(colored.series).toHaveLength(8);
    expect(colored.notes.at(-1)).toBe('The first 8 series are drawn; 9,992 are not.');
  });
});

describe('axes', () => {
  const labels = ({ ticks }: { ticks: readonly { label: string }[] }) => ticks.map(({ label }) => label);

  it('of numbers end at round values of any magnitude', () => {
    expect(labels(numberAxis([3, 97], 300, 60, true))).toEqual(['0', '20', '40', '60', '80', '100']);
    expect(labels(numberAxis([0, 2_400_000], 200, 60, true))).toEqual(['0', '1M', '2M', '3M']);
    expect(labels(numberAxis([1e-9, 3e-9], 200, 60, true))).toEqual(['1E-9', '1.5E-9', '2E-9', '2.5E-9', '3E-9']);
    expect(labels(numberAxis([-0.99, 0.99], 200, 60, true))).toEqual(['-1', '-0.5', '0', '0.5', '1']);
    const alone = numberAxis([5, 5], 100, 60, true);
    expect(alone.at(5)).toBeGreaterThan(0);
    expect(alone.at(5)).toBeLessThan(100);
  });

  it('of times name the larger unit where it begins', () => {
    const axis = (from: string, to: string) => labels(timeAxis([Date.parse(from), Date.parse(to)], 500, 88));
    expect(axis('2023-06-01', '2025-01-10')).toEqual(['Jul', 'Oct', '2024', 'Apr', 'Jul', 'Oct', '2025']);
    expect(axis('2024-02-28T20:00:00Z', '2024-02-29T06:00:00Z')).toEqual(['21:00', 'Feb 29', '03:00', '06:00']);
  });
});
