/**
 * Finds the end of a statement in the input: a semicolon at the end of a line, unless a string, a quoted name or a
 * comment is open (Postgres manual, 4.1).
 */
import { splitStatements } from '../../../contract/sql-statements.js';
import { type Token, tokensOf } from '../../../contract/sql-tokens.js';

/** The open construct at the end of a line, as in psql's prompt; `=`: none, `-`: a statement. */
export type Open = '=' | '-' | "'" | '"' | '$' | '*';

/** In such a body, semicolons at the ends of lines do not end the statement. */
const UNFINISHED_BODY = /^\s*create\b[^]*\bbegin\s+atomic\b(?![^]*;\s*end\s*;\s*$)/i;

export class StatementReader {
  private lines: string[] = [];
  /** The text of an unfinished token, and the text that will end it. */
  private unended: { text: string; kind: Open; end: string } | undefined;
  private hasTokens = false;
  private lastToken = ';';

  get open(): Open {
    return this.unended?.kind ?? (this.hasTokens ? '-' : '=');
  }

  /** @returns the statement that ends with this line, if one does */
  add(line: string): string | undefined {
    this.lines.push(line);
    this.read(line);
    if (this.open === '=') this.reset();
    if (this.open !== '-' || this.lastToken !== ';') return undefined;
    const sql = this.lines.join('\n');
    if (UNFINISHED_BODY.test(sql)) return undefined;
    this.reset();
    return sql;
  }

  reset(): void {
    this.lines = [];
    this.unended = undefined;
    this.hasTokens = false;
    this.lastToken = ';';
  }

  private read(line: string): void {
    const text = this.unended === undefined ? line : `${this.unended.text}\n${line}`;
    if (this.unended !== undefined && !line.includes(this.unended.end)) {
      this.unended.text = text;
      return;
    }
    this.unended = undefined;
    for (const token of tokensOf(text)) {
      if (token.isOpen) this.unended = unended(text.slice(token.from), token);
      else if (token.kind !== 'comment') {
        this.lastToken = text.slice(token.from, token.to);
        this.hasTokens ||= this.lastToken !== ';';
      }
    }
  }
}

function unended(text: string, { kind }: Token) {
  if (kind === 'comment') return { text, kind: '*', end: '*/' } as const;
  if (kind === 'quoted') return { text, kind: '"', end: '"' } as const;
  const [tag] = /^\$[^$]*\$/.exec(text) ?? [];
  return tag === undefined ? ({ text, kind: "'", end: "'" } as const) : ({ text, kind: '$', end: tag } as const);
}

/** Statements that return rows, as does any that changes rows with RETURNING. */
const RETURNS_ROWS = /^(?:\(|(?:select|values|table|with|show|explain|fetch|execute)\b)/i;
const CHANGES_ROWS = /^(?:insert|update|delete|merge)\b/i;

/** Whether a statement before the last seems to return rows. */
export const earlierRows = (sql: string): boolean =>
  splitStatements(sql)
    .slice(0, -1)
    .some(({ text }) => RETURNS_ROWS.test(text) || (CHANGES_ROWS.test(text) && hasReturning(text)));

const hasReturning = (sql: string): boolean =>
  [...tokensOf(sql)].some(({ from, to }) => sql.slice(from, to).toLowerCase() === 'returning');
