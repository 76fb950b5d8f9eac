/** Where a statement ends in what is typed: at a semicolon at the end of a line, unless something is open (Postgres manual, 4.1). */

/** What is open at the end of a line, as psql's prompt shows it; `=`: nothing, `-`: a statement. */
export type Open = '=' | '-' | "'" | '"' | '$' | '*';

const TOKEN =
  /--.*|\/\*|e?'|"|\$(?:[a-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$|[\w\u0080-\uffff][\w$\u0080-\uffff]*|\S/giy;
const COMMENT_EDGE = /\/\*|\*\//g;
const ESCAPE_STRING_END = /[^'\\]*(?:(?:\\.|'')[^'\\]*)*'(?!')/y;

/** In such a body, semicolons at the ends of lines end nothing. */
const UNFINISHED_BODY = /^\s*create\b[^]*\bbegin\s+atomic\b(?![^]*;\s*end\s*;\s*$)/i;

export class StatementReader {
  private lines: string[] = [];
  private quote: { kind: Open; end: RegExp } | undefined;
  /** Depth of the comment that is open. */
  private comments = 0;
  private hasTokens = false;
  private lastToken = ';';
  private hasRows = false;
  /** Whether a statement before the one that is being read seems to return rows. */
  hasEarlierRows = false;

  get open(): Open {
    if (this.quote !== undefined) return this.quote.kind;
    if (this.comments > 0) return '*';
    return this.hasTokens ? '-' : '=';
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
    this.quote = undefined;
    this.comments = 0;
    this.hasTokens = false;
    this.lastToken = ';';
  }

  private read(line: string): void {
    for (let at = 0; at < line.length;) {
      if (this.quote !== undefined) {
        const end = matchAt(this.quote.end, line, at);
        if (end !== undefined) this.quote = undefined;
        at = end ?? line.length;
      } else if (this.comments > 0) {
        const end = matchAt(COMMENT_EDGE, line, at);
        if (end !== undefined) this.comments += line[end - 1] === '*' ? 1 : -1;
        at = end ?? line.length;
      } else if (/\s/.test(line.charAt(at))) {
        at++;
      } else {
        const end = matchAt(TOKEN, line, at) ?? line.length;
        this.take(line.slice(at, end).toLowerCase());
        at = end;
      }
    }
  }

  private take(token: string): void {
    if (token.startsWith('--')) return;
    if (token === '/*') {
      this.comments = 1;
      return;
    }
    if (token !== ';') {
      this.hasEarlierRows ||= this.lastToken === ';' && this.hasRows;
      this.hasRows ||= token === 'returning' || (this.lastToken === ';' && RETURNS_ROWS.has(token));
    }
    this.lastToken = token;
    this.hasTokens ||= token !== ';';
    // A doubled quote ends one string and begins another, which comes to the same.
    if (token === "'" || token === '"') this.quote = { kind: token, end: new RegExp(token, 'g') };
    else if (token === "e'") this.quote = { kind: "'", end: ESCAPE_STRING_END };
    else if (/^\$.*\$$/.test(token)) this.quote = { kind: '$', end: new RegExp(token.replaceAll('$', '\\$'), 'gi') };
  }
}

/** They return rows, as does any statement with RETURNING. */
const RETURNS_ROWS = new Set(['select', 'values', 'table', 'with', 'show', 'explain', 'fetch', 'execute', '(']);

/** Whether a statement before the last seems to return rows. */
export function earlierRows(sql: string): boolean {
  if (/\bbegin\s+atomic\b/i.test(sql)) return false;
  const reader = new StatementReader();
  for (const line of sql.split('\n')) reader.add(line);
  return reader.hasEarlierRows;
}

/** Where the first match from there on ends. */
function matchAt(pattern: RegExp, text: string, from: number): number | undefined {
  pattern.lastIndex = from;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}
