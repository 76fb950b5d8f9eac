/** The console's splitter, compared with Postgres's own parser, which splits for the service. */
import { loadModule, parse } from 'libpg-query';
import { describe, expect, it } from 'vitest';
import { offsetOf, parameterCount, statementAt } from '../../console/src/sql/statements.js';
import { nameOf, quoted } from '../../console/src/sql/sql-names.js';
import { splitStatements } from '../../src/contract/sql-statements.js';
import { tokensOf } from '../../src/contract/sql-tokens.js';

/** As Postgres splits, without the comments and white space around each statement. */
async function split(text: string): Promise<string[]> {
  await loadModule();
  const bytes = Buffer.from(text);
  const { stmts = [] } = (await parse(text)) as { stmts?: { stmt_location?: number; stmt_len?: number }[] };
  return stmts.map(({ stmt_location: from = 0, stmt_len: length = 0 }) => {
    const part = bytes.subarray(from, length === 0 ? undefined : from + length).toString();
    const tokens = [...tokensOf(part)].filter(({ kind }) => kind !== 'comment');
    return part.slice(tokens[0]?.from, tokens.findLast(({ from: at }) => part[at] !== ';')?.to);
  });
}

const TEXTS = [
  'SELECT 1; SELECT 2',
  `SELECT ';', 'it''s; ok', E'a\\';b', e'\\\\'; SELECT 2`,
  `SELECT U&'d\\0061t\\+000061;', B'01', X'1F', N'x;y'; SELECT "a;""b"`,
  'SELECT $$ ; $$, $tag$ $$ ; $other$ $tag$; SELECT 2',
  'SELECT 1 -- ; not here\n; /* ; /* nested ; */ ; */ SELECT 2 -- ;',
  'CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1; SELECT 2 $$; SELECT f()',
  'CREATE FUNCTION g(a int) RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN a > 0 THEN 1 ELSE 2 END; END; SELECT 2',
  'CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT 3',
  'CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2); SELECT 3',
  'SELECT a$1, $1 FROM t; SELECT $2::text; SELECT 1.5e-3, .5, 1_000',
  ';;SELECT 1;;; SELECT 2;;',
  'SELECT 1 AS "größe", \'😀;\' AS é; SELECT 2',
  'BEGIN; SELECT 1; END; SELECT 2',
  `SELECT 'a'\n'b;c'; SELECT 1`,
  'SELECT 1<2, 3-- ;\n-4; SELECT 5',
];

describe('statements', () => {
  it.each(TEXTS)('splits as Postgres does: %s', async (text) => {
    expect(splitStatements(text).map((statement) => statement.text)).toEqual(await split(text));
  });

  it('includes everything up to the end in what is not closed, and never fails', () => {
    for (const text of [
      `SELECT 'a; b`,
      'SELECT "a; b',
      'SELECT $x$ a; b',
      '/* a; /* b */',
      `SELECT E'\\`,
      '$',
      '(((;',
    ]) {
      expect(splitStatements(text).length).toBeLessThanOrEqual(1);
    }
    expect(splitStatements('')).toEqual([]);
    expect(splitStatements(' -- nothing\n ; ')).toEqual([]);
  });

  it('finds the statement at the cursor', () => {
    const text = 'SELECT 1;\n\nSELECT\n  2;  SELECT 3 -- end\n';
    const at = (cursor: number) => statementAt(text, cursor)?.text;
    expect([0, 8, 9].map(at)).toEqual(['SELECT 1', 'SELECT 1', 'SELECT 1']);
    expect(at(10)).toBe('SELECT\n  2');
    expect(at(text.indexOf('2') + 1)).toBe('SELECT\n  2');
    expect(at(text.indexOf('2') + 2)).toBe('SELECT\n  2');
    expect(at(text.length)).toBe('SELECT 3');
    expect(statementAt('', 0)).toBeUndefined();
  });

  it('counts parameters, except in strings, comments and names', () => {
    expect(parameterCount('SELECT $1, $3')).toBe(3);
    expect(parameterCount(`SELECT '$1', "$2", a$3 -- $4\n, $$ $5 $$`)).toBe(0);
  });

  it('converts Postgres positions, which count characters, into offsets', () => {
    const text = `SELECT '😀', x`;
    expect(text.slice(offsetOf(text, [...text].indexOf('x') + 1))).toBe('x');
    expect(offsetOf(text, 1)).toBe(0);
    expect(offsetOf(text, 999)).toBe(text.length);
  });

  it('quotes and unquotes names', () => {
    const text = 'Größe "Odd ""name"""';
    expect([...tokensOf(text)].map((token) => nameOf(text, token))).toEqual(['größe', 'Odd "name"']);
    expect(['plain', 'Mixed', 'select', 'a"b', '1st'].map(quoted)).toEqual([
      'plain',
      '"Mixed"',
      '"select"',
      '"a""b"',
      '"1st"',
    ]);
  });

  it('reads a string of a megabyte', () => {
    const text = `SELECT '${"''".repeat(500_000)}'; SELECT 2`;
    expect(splitStatements(text)).toHaveLength(2);
  });
});
