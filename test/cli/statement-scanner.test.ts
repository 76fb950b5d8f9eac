/** Where statements end in what is typed into the shell, and what its prompt says of the rest. */
import { describe, expect, it } from 'vitest';
import { type Open, StatementScanner } from '../../src/cli/remote/shell/scanner.js';

/** What ends on which line, and what is open behind each. */
function scan(text: string): { ended: string[]; open: Open[]; rest: string | undefined } {
  const scanner = new StatementScanner();
  const ended: string[] = [];
  const open: Open[] = [];
  for (const line of text.split('\n')) {
    for (const part of scanner.line(line)) ended.push(part.kind === 'statement' ? part.sql : part.text);
    open.push(scanner.open);
  }
  return { ended, open, rest: scanner.rest() };
}

const statements = (text: string): string[] => scan(text).ended;

describe('a statement ends', () => {
  it('at its semicolon, wherever in the lines that is', () => {
    expect(scan('select 1;')).toEqual({ ended: ['select 1'], open: ['='], rest: undefined });
    expect(scan('select\n  1\n;').ended).toEqual(['select\n  1']);
    expect(scan('select 1; select 2; select')).toEqual({
      ended: ['select 1', 'select 2'],
      open: ['-'],
      rest: 'select',
    });
    expect(statements(';;;\n  ;')).toEqual([]);
  });

  it.each([
    [`select ';' || 'it''s;'`],
    [`select E'\\';' || E'a'';b\\\\'`],
    [`select ";""" from ";"`],
    [`select $$;$$ || $a$;$$;$a$`],
    ['select $1 + a$b$c'],
    ["select 1 /* ; /* ; */ ; */ + 1 -- ; '\n+ 2"],
    ['create rule r as on insert to t do (select 1; select 2)'],
    ['create or replace function f() returns int begin atomic select case when true then 1 end; select 2; end'],
    ["select U&'d\\0061t;a', B'1', x'ff'"],
    ['select "größe$", größe$x from größe'],
  ])('not within %s', (sql) => {
    expect(scan(`${sql};`)).toMatchObject({ ended: [sql], rest: undefined });
    expect(statements(`${sql}; select 2;`)).toEqual([sql, 'select 2']);
  });

  it('nowhere within strings, comments and parentheses over several lines, which the prompt shows', () => {
    expect(scan(`select 'a;\nb';`)).toEqual({ ended: [`select 'a;\nb'`], open: ["'", '='], rest: undefined });
    expect(scan(`select E'a;\\\n\\';b';`).open).toEqual(["'", '=']);
    expect(scan('select "a;\nb";').open).toEqual(['"', '=']);
    expect(scan('do $x$ begin;\n$$\nend; $x$;').open).toEqual(['$', '$', '=']);
    expect(scan('/* a\n/* b */;\n*/ select 1;')).toMatchObject({
      open: ['*', '*', '='],
      ended: ['/* a\n/* b */;\n*/ select 1'],
    });
    expect(scan('select (1,\n2);').open).toEqual(['(', '=']);
    expect(scan('-- a comment; alone\n').open).toEqual(['=', '=']);
  });
});

describe('a backslash', () => {
  it('begins a command, which takes the rest of its line and leaves the statement', () => {
    expect(scan('\\d people')).toEqual({ ended: ['\\d people'], open: ['='], rest: undefined });
    expect(scan('select 1 \\gx')).toEqual({ ended: ['\\gx'], open: ['-'], rest: 'select 1' });
    expect(scan('select 1; \\x on;')).toMatchObject({ ended: ['select 1', '\\x on;'] });
    expect(statements(`select '\\d';`)).toEqual([`select '\\d'`]);
  });

  it('before a semicolon keeps statements together', () => {
    expect(statements('insert into t values (1)\\; select 1;')).toEqual(['insert into t values (1); select 1']);
    expect(scan('select 1\\;\nselect 2;')).toMatchObject({ ended: ['select 1;\nselect 2'], open: ['-', '='] });
  });
});

it('reads a statement of many lines in one pass', () => {
  const scanner = new StatementScanner();
  const start = process.cpuUsage();
  scanner.line('insert into t values');
  for (let i = 0; i < 50_000; i++) scanner.line(`(${i}, 'a text; of some length', $$more$$),`);
  const [part] = scanner.line('(1);');
  expect(part).toMatchObject({ kind: 'statement' });
  // It takes a tenth of a second; were each line to read all before it, minutes.
  expect(process.cpuUsage(start).user / 1e6).toBeLessThan(10);
});
