/** Which queries count as constant: nothing in them may call anything that a project can create. */
import { describe, expect, it } from 'vitest';
import { isConstantQuery } from '../../../src/engine/sql/constant-query.js';

const isConstant = (sql: string) => isConstantQuery({ sql, params: [] });

describe('a query of constants', () => {
  it.each([
    'SELECT 1',
    'select 1;',
    ' \n SELECT\t1 AS ok ; ',
    'SELECT 1, 2.5 AS n, NULL, true,false',
    `SELECT 'it is', 'ü€' AS "A name", '2'::int AS n`,
    `SELECT '{"a":1}'::jsonb`,
  ])('is %j', (text) => {
    expect(isConstant(text)).toBe(true);
  });

  it.each([
    '',
    'SELECT',
    'SELECT n',
    'SELECT *',
    'SELECT f()',
    'SELECT 1()',
    'SELECT current_user',
    'SELECT random()',
    'SELECT 1 FROM t',
    'SELECT 1 WHERE true',
    'SELECT (SELECT 1)',
    'SELECT 1 INTO t',
    'SELECT 1 AS t, (TABLE t)',
    'SELECT 1 + 1',
    'SELECT -1',
    'SELECT @ 1',
    'SELECT 1::own',
    'SELECT $1',
    `SELECT 'now'::timestamptz`,
    'SELECT 1::float8',
    'SELECT 1::data.int',
    'SELECT 1::int[]',
    'SELECT 1::int8own',
    'SELECT 1::int::own',
    'SELECT 1::"int"',
    'SELECT int 1',
    `SELECT own '1'`,
    `SELECT own'1'`,
    `SELECT 'a' 'b'`,
    `SELECT 'it''s'`,
    `SELECT 'a\\', f(), 'b'`,
    `SELECT E'a'`,
    `SELECT $$a$$`,
    `SELECT $a$b$a$`,
    'SELECT 1 AS "a""b"',
    'SELECT 1 AS "a", f() AS "b"',
    'SELECT 1 -- x',
    'SELECT 1 /* x */',
    'SELECT 1; SELECT f()',
    'SELECT 1\v',
    '\u017fELECT 1',
    'SELECT DISTINCT 1',
    'SELECT 1 ORDER BY f()',
    'SELECT 1 UNION SELECT f()',
    'SELECT 1 FOR UPDATE',
    'SELECT 1,',
    'VALUES (1)',
    'SET work_mem = 1',
    'EXPLAIN SELECT 1',
  ])('is not %j', (text) => {
    expect(isConstant(text)).toBe(false);
  });

  it('has no parameters', () => {
    expect(isConstantQuery({ sql: 'SELECT 1', params: [{ kind: 'null' }] })).toBe(false);
  });

  it('is recognized quickly, however long the text is', () => {
    const startedAt = performance.now();
    expect(isConstant(`SELECT 1${' '.repeat(200_000)}x`)).toBe(false);
    expect(isConstant(`SELECT ${'1, '.repeat(2_000)}f()`)).toBe(false);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });
});
