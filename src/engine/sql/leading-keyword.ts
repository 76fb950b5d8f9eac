/** The first word of an SQL text, found without a parser: it tells whether a lone statement needs a closer look. */

/** What Postgres skips between tokens (scan.l, `space`; \v since 16), and the semicolons of empty statements. */
const SPACE = ' \t\n\r\f\v;';
const WORD = /[A-Za-z]*/y;

/**
 * The first word in capitals; `''` where the text starts with something else (a parenthesis, an unclosed comment), and
 * `null` where it holds nothing but white space, comments and semicolons.
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

export function lineEnd(text: string, start: number): number {
  let at = start;
  while (at < text.length && text[at] !== '\n' && text[at] !== '\r') at++;
  return at;
}

/** Block comments nest (Postgres manual 4.1.5); `null` where the comment does not end. */
export function blockCommentEnd(text: string, start: number): number | null {
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
