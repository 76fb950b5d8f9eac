/** Text on a terminal: aligned columns, carets below the right character, and no control characters. */
import { describe, expect, it } from 'vitest';
import { errorPlace } from '../../src/cli/exit.js';
import { fitting, grid, records, tableLines } from '../../src/cli/terminal/grid.js';
import { printable, printableJson, printableLines, widthOf } from '../../src/cli/terminal/text.js';

it.each([
  ['abc', 3],
  ['日本、「語」', 12],
  ['ｶﾅ', 2],
  ['カナ', 4],
  ['한국어', 6],
  ['￥１', 4],
  ['e\u0301te\u0301', 3],
  ['👍🏽', 2],
  ['größe', 5],
])('%s takes %i cells', (text, width) => {
  expect(widthOf(text)).toBe(width);
});

it('escapes control and format characters', () => {
  const bad = '\u001b[2J\u0007\u009b\u202e\u2066\u200b\u2028\ufeff\r';
  expect(printable(`${bad}\n\t`)).toMatch(/^[\x20-\x7e]+$/);
  expect(printableLines(`a\n\tb${bad}`)).toMatch(/^a\n\tb[\x20-\x7e]+$/);
  expect(printable('größe 日本 👍')).toBe('größe 日本 👍');
  const value = { größe: `${bad}\n👍\u{e0001}` };
  expect(printableJson(value)).toMatch(/^[\x20-\x7eöß👍]+$/u);
  expect(JSON.parse(printableJson(value))).toEqual(value);
});

it('puts values in columns, or one to a line with their own lines', () => {
  const rows = [
    ['日本', '1'],
    ['a', '22'],
  ];
  expect(grid([{ name: 't' }, { name: 'n', isNumber: true }], rows)).toEqual([
    't    |  n',
    '-----+---',
    '日本 |  1',
    'a    | 22',
  ]);
  expect(records([{ name: '名' }, { name: 'text' }], [['x', 'a\nb\u001b']])).toEqual([
    '-[ 1 ]',
    '名   | x',
    'text | a',
    '     | b\\u{1b}',
  ]);
});

it('lists one value to a line if a row is wider than the terminal', () => {
  const [columns, rows] = [[{ name: 'a' }, { name: 'b' }], [['1', 'x'.repeat(10)]]] as const;
  const folded = ['-[ 1 ]', 'a | 1', `b | ${'x'.repeat(10)}`];
  expect(fitting(columns, rows, 14)).toEqual(grid(columns, rows));
  expect(fitting(columns, rows, 13)).toEqual(folded);
  expect(tableLines(['a', 'b'], rows, 13)).toEqual(['a  b', `1  ${'x'.repeat(10)}`]);
  expect(tableLines(['a', 'b'], rows, 12)).toEqual(folded);
});

describe('the position of an error', () => {
  it('is below its character, after tabs and wide characters', () => {
    expect(errorPlace(`SELECT\n\t'日本', x`, 15)).toEqual([`LINE 2:  '日本', x`, '                 ^']);
    expect(errorPlace('SELECT 1 +', 11)).toEqual(['LINE 1: SELECT 1 +', '                  ^']);
  });

  it('is on the screen, however long the line is', () => {
    const sql = `SELECT ${'a, '.repeat(100)}HERE${', b'.repeat(100)}`;
    const [line = '', caret = ''] = errorPlace(sql, sql.indexOf('HERE') + 1, 60);
    expect(line.length).toBeLessThanOrEqual(60);
    expect(line.slice(caret.length - 1)).toMatch(/^HERE.*\.\.\.$/);
    expect(line).toMatch(/^LINE 1: \.\.\./);
  });
});
