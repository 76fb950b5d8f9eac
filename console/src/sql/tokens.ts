/**
 * The lexical structure of Postgres's SQL, as far as an editor needs it: where strings, comments and names begin and end
 * (manual, 4.1). Never fails: what is not closed goes to the end of the text.
 */
import { RESERVED_WORDS } from '../../../src/import/column-names.js';

export type TokenKind = 'comment' | 'string' | 'quoted' | 'word' | 'parameter' | 'number' | 'sign';

export interface Token {
  readonly kind: TokenKind;
  readonly from: number;
  readonly to: number;
}

/** In the order in which they are tried. White space is no token. */
const PATTERNS: readonly (readonly [TokenKind, RegExp])[] = [
  ['comment', /--[^\n\r]*/y],
  // E'…' alone knows the backslash; U&'…', B'…', X'…' and N'…' end like '…'.
  ['string', /[eE]'[^'\\]*(?:(?:''|\\[^])[^'\\]*)*(?:'|$)/y],
  ['string', /(?:[uU]&|[bBxXnN])?'[^']*(?:''[^']*)*(?:'|$)/y],
  ['quoted', /(?:[uU]&)?"[^"]*(?:""[^"]*)*(?:"|$)/y],
  ['string', /\$((?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?)\$[^]*?(?:\$\1\$|$(?![^]))/y],
  ['parameter', /\$\d+/y],
  ['word', /[A-Za-z_\x80-\uffff][\w$\x80-\uffff]*/y],
  ['number', /(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?/y],
  ['sign', /[^\s]/y],
];

const SPACE = /\s+/y;

export function* tokensOf(text: string, from = 0): Generator<Token> {
  let at = from;
  while (at < text.length) {
    const space = matchAt(SPACE, text, at);
    if (space > at) {
      at = space;
      continue;
    }
    const token = text.startsWith('/*', at) ? blockComment(text, at) : plainToken(text, at);
    yield token;
    at = token.to;
  }
}

function plainToken(text: string, from: number): Token {
  for (const [kind, pattern] of PATTERNS) {
    const to = matchAt(pattern, text, from);
    if (to > from) return { kind, from, to };
  }
  return { kind: 'sign', from, to: from + 1 };
}

/** Block comments nest in Postgres. */
function blockComment(text: string, from: number): Token {
  const mark = /\/\*|\*\//g;
  mark.lastIndex = from;
  let depth = 0;
  for (let found = mark.exec(text); found !== null; found = mark.exec(text)) {
    depth += found[0] === '/*' ? 1 : -1;
    if (depth === 0) return { kind: 'comment', from, to: mark.lastIndex };
  }
  return { kind: 'comment', from, to: text.length };
}

/** The end of a match that begins exactly there; `at` if there is none. */
function matchAt(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

/** What a name token stands for: folded to lower case, or unquoted. */
export function nameOf(text: string, { kind, from, to }: Token): string {
  const written = text.slice(from, to);
  return kind === 'quoted' ? written.slice(1, -1).replaceAll('""', '"') : written.toLowerCase();
}

/** A name as it must be written. */
export const quoted = (name: string): string =>
  /^[a-z_][a-z0-9_]*$/.test(name) && !RESERVED_WORDS.has(name) ? name : `"${name.replaceAll('"', '""')}"`;
