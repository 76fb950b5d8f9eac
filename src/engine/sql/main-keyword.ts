/** What a statement that returns rows will be called, where it is cut off before Postgres tells. */
import { blockCommentEnd, leadingKeyword, lineEnd } from './leading-keyword.js';

/** What the structure of a statement shows in, and the openings of what hides it (Postgres manual 4.1). */
const TOKEN =
  /--|\/\*|[eE]?'|"|\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$|[A-Za-z_\x80-\uffff][\w$\x80-\uffff]*|[(),]/g;

const MAIN = new Set(['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'MERGE', 'VALUES', 'TABLE']);

/** Behind these words of a WITH clause, and behind a comma, stands a name, whatever it reads like. */
const BEFORE_NAME = new Set(['WITH', 'RECURSIVE', ',', 'BY', 'SET', 'CYCLE', 'USING']);

/**
 * The command tag that a statement with rows will have, as far as its text tells: `SELECT` for queries; behind a WITH
 * clause the word that follows it outside all parentheses. Takes time in proportion to the text, whatever it holds.
 */
export function mainKeyword(text: string): string {
  const first = leadingKeyword(text) ?? '';
  if (first !== 'WITH') return queryOr(first);
  let depth = 0;
  let before = '';
  for (const token of visibleTokens(text)) {
    if (token === '(') depth++;
    else if (token === ')') depth--;
    if (depth > 0) continue;
    if (MAIN.has(token) && !BEFORE_NAME.has(before)) return queryOr(token);
    before = token;
  }
  return 'SELECT';
}

const queryOr = (word: string): string => (['', 'VALUES', 'TABLE'].includes(word) ? 'SELECT' : word);

/** Words in capitals, parentheses and commas outside comments, strings and quoted names. */
export function* visibleTokens(text: string): Generator<string, undefined> {
  for (let at = 0; ;) {
    TOKEN.lastIndex = at;
    const [token] = TOKEN.exec(text) ?? [];
    if (token === undefined) return;
    const end = TOKEN.lastIndex;
    at = hiddenEnd(text, token, end) ?? end;
    if (at === end) yield token.toUpperCase();
  }
}

/** Where that ends which `token` opens; null where it opens nothing. What has no end hides the rest. */
function hiddenEnd(text: string, token: string, end: number): number | null {
  if (token === '--') return lineEnd(text, end);
  if (token === '/*') return blockCommentEnd(text, end - 2) ?? text.length;
  if (token.endsWith("'")) return quoteEnd(text, end, "'", token.length > 1);
  if (token === '"') return quoteEnd(text, end, '"', false);
  if (!token.startsWith('$')) return null;
  const close = text.indexOf(token, end);
  return close < 0 ? text.length : close + token.length;
}

/** Doubled, a quote stands for itself; `escapes`: behind a backslash too. */
function quoteEnd(text: string, start: number, quote: string, escapes: boolean): number {
  for (let at = start; at < text.length; at++) {
    if (escapes && text[at] === '\\') at++;
    else if (text[at] === quote) {
      if (text[at + 1] !== quote) return at + 1;
      at++;
    }
  }
  return text.length;
}
