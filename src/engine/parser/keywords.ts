/**
 * Facts about an SQL text that its words show without a parser. Each function takes time linear in the length of the
 * text.
 */
import { tokensOf } from '../../contract/sql-tokens.js';

/** Statements that produce all rows before sending the first. */
export const MODIFYING: ReadonlySet<string> = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE']);

const WORD = /[A-Za-z]*/y;

/**
 * The first word in capitals; `''` if the text starts with something else (a parenthesis, an unclosed comment), and
 * `null` if it holds nothing but white space, comments and semicolons.
 */
export function leadingKeyword(text: string): string | null {
  for (const { kind, from, isOpen } of tokensOf(text)) {
    if (text[from] === ';' || (kind === 'comment' && !isOpen)) continue;
    WORD.lastIndex = from;
    return WORD.exec(text)?.[0].toUpperCase() ?? '';
  }
  return null;
}

const MAIN = new Set(['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'MERGE', 'VALUES', 'TABLE']);

/** In a WITH clause, the token after one of these is a name, even if it looks like a keyword. */
const BEFORE_NAME = new Set(['WITH', 'RECURSIVE', ',', 'BY', 'SET', 'CYCLE', 'USING']);

/**
 * The expected command tag of a statement with rows, for results that are cut off before Postgres sends it: `SELECT`
 * for queries; after a WITH clause, the first main keyword outside all parentheses.
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

/** DO and CALL may run any of these. So may a function, which shows at the first "permission denied". */
const CHANGES_RIGHTS = new Set(['GRANT', 'REVOKE', 'REASSIGN', 'DO', 'CALL']);
const CHANGES_RIGHTS_IN_TWO = new Set(['DROP OWNED', 'ALTER DEFAULT', 'ALTER ROLE', 'ALTER USER', 'ALTER GROUP']);

/** Whether a statement may revoke rights of the project's own roles, or change how they log in. */
export function mayChangeRights(text: string): boolean {
  const tokens = visibleTokens(text);
  const first: string = tokens.next().value ?? '';
  return CHANGES_RIGHTS.has(first) || CHANGES_RIGHTS_IN_TWO.has(`${first} ${tokens.next().value ?? ''}`);
}

/** The characters of an operator (`op_chars` of scan.l). */
const OPERATOR = /[~!@#^&|`?+\-*/%<>=]+/y;

/** A run of operator characters that is longer than in almost any text. */
const LONG_RUN = /[~!@#^&|`?+\-*/%<>=]{257}/;

/** Postgres's parser reads as many characters in a small part of a second. */
const MAX_READ = 64 * 1024 * 1024;

/**
 * Whether Postgres's lexer would take seconds. At each operator and each comment, also a nested one, it first reads all operator
 * characters that follow and then goes back, so a long run such as `/*` again and again takes quadratic time.
 */
export function isSlowToRead(text: string): boolean {
  if (!LONG_RUN.test(text)) return false;
  let read = 0;
  let runEnd = 0;
  const readRun = (at: number): void => {
    if (at >= runEnd) {
      OPERATOR.lastIndex = at;
      runEnd = OPERATOR.test(text) ? OPERATOR.lastIndex : at;
    }
    read += runEnd - at;
  };
  for (const { kind, from, to } of tokensOf(text)) {
    if (kind === 'sign') readRun(from);
    if (kind !== 'comment' || text[from] !== '/') continue;
    for (let at = from; at >= 0 && at < to && read <= MAX_READ; at = text.indexOf('/*', at + 2)) readRun(at);
    if (read > MAX_READ) return true;
  }
  return read > MAX_READ;
}

/** Words in capitals, parentheses and commas outside comments, strings and quoted names. */
function* visibleTokens(text: string): Generator<string, undefined> {
  for (const { kind, from, to } of tokensOf(text)) {
    if (kind === 'word' || '(),'.includes(text.charAt(from))) yield text.slice(from, to).toUpperCase();
  }
}
