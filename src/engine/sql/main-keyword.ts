/** What a statement that returns rows will be called, where it is cut off before Postgres tells. */
import { leadingKeyword } from './leading-keyword.js';

/** Strings, quoted names, dollar quotes and comments (skipped), and what the structure of a statement shows in. */
const TOKEN =
  /'(?:[^']|'')*'|"(?:[^"]|"")*"|\$([A-Za-z_]\w*)?\$[^]*?\$\1\$|--[^\n\r]*|\/\*[^]*?\*\/|[A-Za-z_]\w*|[(),]/g;
const MAIN = new Set(['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'MERGE', 'VALUES', 'TABLE']);
const BEFORE_CTE_NAME = new Set(['WITH', 'RECURSIVE', ',']);

/**
 * The command tag that a statement with rows will have, as far as its text tells: `SELECT` for queries; behind a WITH
 * clause the word that follows it outside all parentheses.
 */
export function mainKeyword(text: string): string {
  const first = leadingKeyword(text) ?? '';
  if (first !== 'WITH') return queryOr(first);
  let depth = 0;
  let before = '';
  for (const [token] of text.matchAll(TOKEN)) {
    const word = token.toUpperCase();
    if (token === '(') depth++;
    else if (token === ')') depth--;
    else if (depth === 0 && MAIN.has(word) && !BEFORE_CTE_NAME.has(before)) return queryOr(word);
    if (depth === 0 && /^[A-Za-z_,)]/.test(token)) before = word;
  }
  return 'SELECT';
}

const queryOr = (word: string): string => (['', 'VALUES', 'TABLE'].includes(word) ? 'SELECT' : word);
