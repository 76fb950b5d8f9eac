/** Tokens of SQL, compared with those of Postgres's own scanner. */
import { loadModule, scanSync } from 'libpg-query';
import { beforeAll, describe, expect, it } from 'vitest';
import { tokensOf } from '../../src/contract/sql-tokens.js';

const textsOf = (text: string): string[] => Array.from(tokensOf(text), ({ from, to }) => text.slice(from, to));

/** Those of Postgres: of signs, the characters, since only the scanner knows which of them are one operator. */
function scanned(text: string): string[] {
  const bytes = Buffer.from(text);
  return scanSync(text).tokens.flatMap(({ start, end }) => {
    const token = bytes.subarray(start, end).toString();
    return /^[^\w\s'"$\x80-\uffff]+$/.test(token) && !/^(--|\/\*)/.test(token) ? [...token] : [token];
  });
}

const TEXTS = [
  'SELECT a.b, count(*) FROM data.t WHERE a >= 1 AND b::text <> $1;',
  `'' 'it''s' E'' E'a\\'b' e'\\\\' E'a''b\\\\' 'a\\' N'x;y' B'01' x'1F' U&'d\\0061t' u&'a'`,
  `"a" "a ""b""" U&"a" u&"b" e"c" x "d"`,
  '$$ a $b$ $$ $tag$ $$ $Tag$ ; $tag$ $größe$ $ $größe$ $1 $23 a$1 a$b$c',
  '-- a comment\nSELECT 1 --another\r\n/* a /* nested */ "*/ 2 /**/ 3 /* -- */',
  'Größe été naïve_1 _x x2 ñ\u00a0b 😀',
  'SELECT 1.5e-3, .5, 1_000, 10, 1.e5, 7/2, 3-1, 1<2',
  '\t\n\r\f select\f1',
];

describe('tokens', () => {
  beforeAll(() => loadModule());

  it.each(TEXTS)('match those of Postgres: %s', (text) => {
    expect(textsOf(text)).toEqual(scanned(text));
  });

  it('have kinds', () => {
    const text = `a "b" 'c' $$d$$ $1 2 + /* e */ -- f`;
    expect(Array.from(tokensOf(text), ({ kind }) => kind)).toEqual([
      'word',
      'quoted',
      'string',
      'string',
      'parameter',
      'number',
      'sign',
      'comment',
      'comment',
    ]);
  });

  it.each(["'a''", "E'a\\'", "E'a\\", '"a""', '$x$ $y$ $X$', '/* /* */', "U&'", '/*'])(
    'extend to the end of the text if they are not closed: %s',
    (text) => {
      expect([...tokensOf(`a ${text}`)].map(({ to, isOpen }) => ({ to, isOpen }))).toEqual([
        { to: 1, isOpen: false },
        { to: text.length + 2, isOpen: true },
      ]);
    },
  );

  it('are otherwise not open', () => {
    for (const text of ["''", "E'\\\\'", '""', '$$$$', '/**/', '-- a', '$x', '1', '"a"""']) {
      expect([...tokensOf(text)].filter(({ isOpen }) => isOpen)).toEqual([]);
    }
  });
});
