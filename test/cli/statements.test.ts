/** Where statements end in the input of the shell, and what its prompt shows about an open one. */
import { describe, expect, it } from 'vitest';
import { earlierRows, type Open, returnsNothing, StatementReader } from '../../src/cli/remote/shell/statements.js';

/** What ends on which line, and what is open at the end of each. */
function read(text: string): { ended: string[]; open: Open[] } {
  const reader = new StatementReader();
  const ended: string[] = [];
  const open: Open[] = [];
  for (const line of text.split('\n')) {
    const sql = reader.add(line);
    if (sql !== undefined) ended.push(sql);
    open.push(reader.open);
  }
  return { ended, open };
}

const statements = (text: string): string[] => read(text).ended;

describe('a statement ends', () => {
  it('at a semicolon at the end of a line', () => {
    expect(read('select 1;')).toEqual({ ended: ['select 1;'], open: ['='] });
    expect(statements('select\n  1\n;  -- so\nselect 2;')).toEqual(['select\n  1\n;  -- so', 'select 2;']);
    expect(read('select 1; select 2; select')).toEqual({ ended: [], open: ['-'] });
    expect(statements('select 1; select 2;')).toEqual(['select 1; select 2;']);
    expect(read(';;;\n  ;\n-- a comment;\n')).toEqual({ ended: [], open: ['=', '=', '=', '='] });
  });

  it.each([
    [`select 'a;\nit''s;\nb'`],
    [`select E'a\\';\n' || E'a'';\nb\\\\'`],
    [`select ";\n""" from ";"`],
    ['do $$;\n$$'],
    ['select $1 + a$b$c, $a$;\n$$;\n$a$'],
    ["select 1 /* ; /* ; */ ;\n*/ + 1 -- ; '\n+ 2"],
    ['create or replace function f() returns int begin atomic\nselect case when true then 1 end;\nselect 2;\nend'],
    ["select U&'d\\0061t;\na', B'1', x'ff'"],
    ['select "größe$", größe$x\nfrom größe'],
  ])('not within %s', (sql) => {
    expect(read(`${sql};`).ended).toEqual([`${sql};`]);
    expect(statements(`${sql};\nselect 2;`)).toEqual([`${sql};`, 'select 2;']);
  });

  it('and the prompt shows what is open until then', () => {
    expect(read(`select 'a;\nb';`).open).toEqual(["'", '=']);
    expect(read(`select E'a;\\\n\\';b';`).open).toEqual(["'", '=']);
    expect(read('select "a;\nb";').open).toEqual(['"', '=']);
    expect(read('do $x$ begin;\n$$\nend; $x$;').open).toEqual(['$', '$', '=']);
    expect(read('/* a\n/* b */;\n*/ select 1;').open).toEqual(['*', '*', '=']);
    expect(read('select\n1;').open).toEqual(['-', '=']);
  });
});

it('reads a statement of many lines in one pass', () => {
  const reader = new StatementReader();
  const start = process.cpuUsage();
  reader.add('insert into t values');
  for (let i = 0; i < 50_000; i++) reader.add(`(${i}, 'a text; of some length', $$more$$),`);
  expect(reader.add('(1);')).toContain('insert');
  // It takes a tenth of a second; if each line read all lines before it, it would take minutes.
  expect(process.cpuUsage(start).user / 1e6).toBeLessThan(10);
});

it.each([
  ['SELECT 1; SELECT 2', true],
  ['  select 1\n;;\n-- so\nselect 2;', true],
  ['DELETE FROM t RETURNING a; SELECT 2', true],
  ['(SELECT 1); SELECT 2', true],
  ['SELECT 1;', false],
  ["SELECT 'a; SELECT 2'; -- SELECT 3;", false],
  ['CREATE TABLE t (a int); INSERT INTO t SELECT 1; SELECT a FROM t', false],
  ['CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT 2; END', false],
  ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT f(); SELECT 1', true],
  ['CREATE FUNCTION f() RETURNS int BEGIN ATOMIC UPDATE t SET a = 1 RETURNING a; END; SELECT f()', false],
  ["INSERT INTO t VALUES ('returning'); SELECT 1", false],
  ['UPDATE t SET a = 1 RETURNING a; COMMIT', true],
])('tells whether %j has rows before those of its last statement: %s', (sql, has) =>
  expect(earlierRows(sql)).toBe(has),
);

it.each([
  ['delete from t', true],
  ['/* x */ insert into t values (1); create table u (n int);', true],
  ['with a as (insert into t values (1) returning n) delete from u using a', true],
  ['with a as (delete from t) select 1', false],
  ['with a as (select 1) delete from t returning n', false],
  ['delete from t; select 1', false],
  ['call p()', false],
  ['', false],
])('knows whether %s returns no rows', (sql, nothing) => expect(returnsNothing(sql)).toBe(nothing));
