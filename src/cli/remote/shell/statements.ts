/**
 * Finds the end of a statement in the input: a semicolon at the end of a line, unless a string, a quoted name or a
 * comment is open (Postgres manual, Lexical Structure).
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
const RETURNS_ROWS = /^(?:\(|(?:select|values|table|show|explain|fetch|execute)\b)/i;
/** May return rows too: those of OUT parameters. */
const CALLS = /^call\b/i;
const CHANGES_ROWS = /^(?:insert|update|delete|merge)\b/i;
const MAIN = /^(?:select|values|table|insert|update|delete|merge)$/i;

/** Whether a statement before the last seems to return rows. */
export const earlierRows = (sql: string): boolean =>
  splitStatements(sql)
    .slice(0, -1)
    .some(({ text }) => returnsRows(text));

/** Whether there is a statement, and none seems to return rows. */
export function returnsNothing(sql: string): boolean {
  const statements = splitStatements(sql);
  return statements.length > 0 && !statements.some(({ text }) => CALLS.test(text) || returnsRows(text));
}

function returnsRows(text: string): boolean {
  const main = afterWith(text);
  return RETURNS_ROWS.test(main) || (CHANGES_ROWS.test(main) && hasReturning(main));
}

/** A statement from the first word that follows its WITH and is not within parentheses; it may be the name of a query. */
function afterWith(text: string): string {
  if (!/^with\b/i.test(text)) return text;
  let depth = 0;
  for (const { from, to, kind } of tokensOf(text)) {
    const token = text.slice(from, to);
    if (token === '(') depth++;
    else if (token === ')') depth--;
    else if (kind === 'word' && depth === 0 && MAIN.test(token)) return text.slice(from);
  }
  return text;
}

const hasReturning = (sql: string): boolean =>
  [...tokensOf(sql)].some(({ from, to }) => sql.slice(from, to).toLowerCase() === 'returning');
