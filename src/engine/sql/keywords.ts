/** What the words of an SQL text show without a parser. Each function takes time in proportion to the length of the text. */

/** Statements whose rows are all made before the first is sent. */
export const MODIFYING: ReadonlySet<string> = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE']);

/** What Postgres skips between tokens (scan.l, `space`; \v since 16), and the semicolons of empty statements. */
const SPACE = ' \t\n\r\f\v;';
const WORD = /[A-Za-z]*/y;

/**
 * The first word in capitals; `''` if the text starts with something else (a parenthesis, an unclosed comment), and `null`
 * if it holds nothing but white space, comments and semicolons.
 */
export function leadingKeyword(text: string): string | null {
  let at = 0;
  while (at < text.length) {
    if (SPACE.includes(text.charAt(at))) at++;
    else if (text.startsWith('--', at)) at = lineEnd(text, at);
    else if (text.startsWith('/*', at)) {
      const end = blockCommentEnd(text, at);
      if (end === null) return '';
      at = end;
    } else {
      WORD.lastIndex = at;
      return WORD.exec(text)?.[0].toUpperCase() ?? '';
    }
  }
  return null;
}

const MAIN = new Set(['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'MERGE', 'VALUES', 'TABLE']);

/** In a WITH clause, the token after one of these is a name, even if it looks like a keyword. */
const BEFORE_NAME = new Set(['WITH', 'RECURSIVE', ',', 'BY', 'SET', 'CYCLE', 'USING']);

/**
 * The command tag that a statement with rows will have, for when it is cut off before Postgres says so: `SELECT` for queries;
 * after a WITH clause the first main keyword outside all parentheses.
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

/** Nobody sees what a DO or a CALL runs. A function may do the same, which shows at the first denied permission. */
const CHANGES_RIGHTS = new Set(['GRANT', 'REVOKE', 'REASSIGN', 'DO', 'CALL']);
const CHANGES_RIGHTS_IN_TWO = new Set(['DROP OWNED', 'ALTER DEFAULT', 'ALTER ROLE', 'ALTER USER', 'ALTER GROUP']);

/** Whether a statement may take rights from the project's own roles, or change how they log in. */
export function mayChangeRights(text: string): boolean {
  const tokens = visibleTokens(text);
  const first: string = tokens.next().value ?? '';
  return CHANGES_RIGHTS.has(first) || CHANGES_RIGHTS_IN_TWO.has(`${first} ${tokens.next().value ?? ''}`);
}

/** What shows the structure of a statement, and the openings of what hides it (Postgres manual 4.1). */
const TOKEN =
  /--|\/\*|[eE]?'|"|\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$|[A-Za-z_\x80-\uffff][\w$\x80-\uffff]*|[(),]/g;

/** Words in capitals, parentheses and commas outside comments, strings and quoted names. */
function* visibleTokens(text: string): Generator<string, undefined> {
  for (let at = 0; ;) {
    TOKEN.lastIndex = at;
    const [token] = TOKEN.exec(text) ?? [];
    if (token === undefined) return;
    const end = TOKEN.lastIndex;
    at = hiddenEnd(text, token, end) ?? end;
    if (at === end) yield token.toUpperCase();
  }
}

/** Where ends what `token` opens; null if it opens nothing. What has no end hides the rest. */
function hiddenEnd(text: string, token: string, end: number): number | null {
  if (token === '--') return lineEnd(text, end);
  if (token === '/*') return blockCommentEnd(text, end - 2) ?? text.length;
  if (token.endsWith("'")) return quoteEnd(text, end, "'", token.length > 1);
  if (token === '"') return quoteEnd(text, end, '"', false);
  if (!token.startsWith('$')) return null;
  const close = text.indexOf(token, end);
  return close < 0 ? text.length : close + token.length;
}

function lineEnd(text: string, start: number): number {
  let at = start;
  while (at < text.length && text[at] !== '\n' && text[at] !== '\r') at++;
  return at;
}

/** Block comments nest (Postgres manual 4.1.5); `null` if the comment does not end. */
function blockCommentEnd(text: string, start: number): number | null {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '/' && text[at + 1] === '*') depth++;
    else if (text[at] === '*' && text[at + 1] === '/') depth--;
    else continue;
    at++;
    if (depth === 0) return at + 1;
  }
  return null;
}

/** A doubled quote stands for itself; `escapes`: one after a backslash too. */
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
