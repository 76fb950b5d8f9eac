/**
 * The lexical structure of Postgres's SQL (Postgres manual, Lexical Structure): where strings, comments, names and
 * words begin and end. Never fails, and takes linear time. A token without an end extends to the end of the text.
 */

type TokenKind = 'comment' | 'string' | 'quoted' | 'word' | 'parameter' | 'number' | 'sign';

export interface Token {
  readonly kind: TokenKind;
  readonly from: number;
  readonly to: number;
  /** The text ends before the comment, string or name does. */
  readonly isOpen: boolean;
}

/** @returns the end of the token that starts with `opening`; -1 if the text ends first */
type FindEnd = (text: string, at: number, opening: string) => number;

/** Tried in this order. */
const BEGINNINGS: readonly (readonly [TokenKind, RegExp, FindEnd?])[] = [
  ['comment', /--[^\n\r]*/y],
  ['comment', /\/\*/y, commentEnd],
  // The backslash escapes only in E'…'; U&'…', B'…' and X'…' end like '…'.
  ['string', /[eE]'/y, escapeStringEnd],
  ['string', /(?:[uU]&|[bBxX])?'/y, quoteEnd],
  ['quoted', /(?:[uU]&)?"/y, quoteEnd],
  ['string', /\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$/y, dollarEnd],
  ['parameter', /\$\d+/y],
  ['word', /[A-Za-z_\x80-\uffff][\w$\x80-\uffff]*/y],
  ['number', /(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?/y],
  ['sign', /[^]/y],
];

/** White space of scan.l; Postgres 16 added \v. */
const SPACE = /[ \t\n\r\f\v]*/y;

export function* tokensOf(text: string): Generator<Token, undefined> {
  for (let at = matchEnd(SPACE, text, 0); at < text.length;) {
    const token = tokenAt(text, at);
    yield token;
    at = matchEnd(SPACE, text, token.to);
  }
}

function tokenAt(text: string, from: number): Token {
  for (const [kind, beginning, end] of BEGINNINGS) {
    const to = matchEnd(beginning, text, from);
    if (to < 0) continue;
    if (end === undefined) return { kind, from, to, isOpen: false };
    const close = end(text, to, text.slice(from, to));
    return { kind, from, to: close < 0 ? text.length : close, isOpen: close < 0 };
  }
  throw new Error('Every character begins a token');
}

/** The end of a match that begins at `at`; -1 if there is none. */
function matchEnd(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : -1;
}

/** Block comments nest. */
function commentEnd(text: string, start: number): number {
  const edge = /\/\*|\*\//g;
  edge.lastIndex = start;
  for (let depth = 1; depth > 0;) {
    const match = edge.exec(text);
    if (match === null) return -1;
    depth += match[0] === '/*' ? 1 : -1;
  }
  return edge.lastIndex;
}

/** A doubled quote stands for one quote. */
function quoteEnd(text: string, start: number, opening: string): number {
  const quote = opening.slice(-1);
  let at = text.indexOf(quote, start);
  while (at >= 0 && text[at + 1] === quote) at = text.indexOf(quote, at + 2);
  return at < 0 ? -1 : at + 1;
}

/** A quote after a backslash or a doubled quote does not end the string. */
function escapeStringEnd(text: string, start: number): number {
  for (let at = start; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === "'" && text[++at] !== "'") return at;
  }
  return -1;
}

function dollarEnd(text: string, start: number, opening: string): number {
  const close = text.indexOf(opening, start);
  return close < 0 ? -1 : close + opening.length;
}
