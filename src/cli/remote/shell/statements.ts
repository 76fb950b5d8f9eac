/**
 * Finds the end of a statement in the input: a semicolon at the end of a line, unless a string, a quoted name or a
 * comment is open (Postgres manual, 4.1).
 */
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
  private hasRows = false;
  /** Whether a statement before the current one seems to return rows. */
  hasEarlierRows = false;

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
      else if (token.kind !== 'comment') this.take(text.slice(token.from, token.to).toLowerCase());
    }
  }

  private take(token: string): void {
    if (token !== ';') {
      this.hasEarlierRows ||= this.lastToken === ';' && this.hasRows;
      this.hasRows ||= token === 'returning' || (this.lastToken === ';' && RETURNS_ROWS.has(token));
    }
    this.lastToken = token;
    this.hasTokens ||= token !== ';';
  }
}

function unended(text: string, { kind }: Token) {
  if (kind === 'comment') return { text, kind: '*', end: '*/' } as const;
  if (kind === 'quoted') return { text, kind: '"', end: '"' } as const;
  const [tag] = /^\$[^$]*\$/.exec(text) ?? [];
  return tag === undefined ? ({ text, kind: "'", end: "'" } as const) : ({ text, kind: '$', end: tag } as const);
}

/** First words of statements that return rows, as does any statement with RETURNING. */
const RETURNS_ROWS = new Set(['select', 'values', 'table', 'with', 'show', 'explain', 'fetch', 'execute', '(']);

/** Whether a statement before the last seems to return rows. */
export function earlierRows(sql: string): boolean {
  if (/\bbegin\s+atomic\b/i.test(sql)) return false;
  const reader = new StatementReader();
  for (const line of sql.split('\n')) reader.add(line);
  return reader.hasEarlierRows;
}
