/**
 * Finds where statements end in what is typed, line by line (Postgres manual, 4.1; psql's psqlscan.l). The service splits by
 * Postgres's grammar, which needs the whole text; here the question is whether there is more to come.
 */

/** What is open at the end of a line: nothing at all, a statement, or something in it; as the prompt of psql says it. */
export type Open = '=' | '-' | "'" | '"' | '$' | '*' | '(';

export type Part =
  | { readonly kind: 'statement'; readonly sql: string }
  /** A backslash and what follows it on its line. */
  | { readonly kind: 'command'; readonly text: string };

const SPACE = /[ \t\n\r\f\v]+/y;
const LINE_COMMENT = /--[^\n]*/y;
const WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y;
const DOLLAR_QUOTE = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;
const NUMBER_OR_PARAMETER = /[\d$][\w.$]*/y;
const COMMENT_EDGE = /\/\*|\*\//g;
const IN_PLAIN_STRING = /[^']*(')?/y;
const IN_ESCAPE_STRING = /[^'\\]*(?:\\[^][^'\\]*)*(')?/y;
const IN_NAME = /[^"]*(")?/y;

/** The first words of a statement whose body may be `BEGIN ATOMIC … END`, where semicolons end nothing. */
const ROUTINE = /^create (?:or replace )?(?:function|procedure)$/;

export class StatementScanner {
  /** Of the statement that has not ended, the lines before. */
  #above: string[] = [];
  /** Of the line, what belongs to no statement that ended. */
  #text = '';
  /** As far as it is read. */
  #at = 0;
  #quote: { kind: "'" | '"' | '$'; end: RegExp } | undefined;
  #comments = 0;
  #parentheses = 0;
  /** `BEGIN` and `CASE` that wait for their `END`. */
  #blocks = 0;
  #words: string[] = [];
  #hasTokens = false;

  get open(): Open {
    if (this.#quote !== undefined) return this.#quote.kind;
    if (this.#comments > 0) return '*';
    if (this.#parentheses > 0) return '(';
    return this.#hasTokens ? '-' : '=';
  }

  /** Whether nothing is there of a next statement, not even a comment. */
  get isEmpty(): boolean {
    return this.#above.length === 0;
  }

  /** What of a statement is there so far. */
  get text(): string {
    return this.#above.join('');
  }

  /** The statements that end on this line, and the command that it holds. What does not end stays for the next line. */
  line(line: string): Part[] {
    this.#text = `${line}\n`;
    this.#at = 0;
    const parts: Part[] = [];
    while (this.#at < this.#text.length) {
      if (this.#quote !== undefined) this.#readQuote(this.#quote.end);
      else if (this.#comments > 0) this.#readComment();
      else this.#readToken(parts);
    }
    if (this.#hasTokens || this.#comments > 0) this.#above.push(this.#text);
    else this.reset();
    return parts;
  }

  /** The statement that has no semicolon, and nothing of it stays. */
  rest(): string | undefined {
    const sql = this.#hasTokens ? this.text.trim() : undefined;
    this.reset();
    return sql;
  }

  reset(): void {
    this.#above = [];
    this.#quote = undefined;
    this.#comments = 0;
    this.#startStatement();
  }

  #startStatement(): void {
    this.#parentheses = 0;
    this.#blocks = 0;
    this.#words = [];
    this.#hasTokens = false;
  }

  #readToken(parts: Part[]): void {
    if (this.#take(SPACE) !== undefined || this.#take(LINE_COMMENT) !== undefined) return;
    const text = this.#text;
    const start = this.#at;
    if (text.startsWith('/*', start)) {
      this.#at += 2;
      this.#comments = 1;
      return;
    }
    if (text[start] === '\\') return this.#readBackslash(parts);
    if (text[start] === ';' && this.#parentheses === 0 && this.#blocks === 0) {
      this.#at++;
      this.#endStatement(parts, start);
      return;
    }
    this.#hasTokens = true;
    const word = this.#take(WORD);
    if (word !== undefined) return this.#readWord(word.toLowerCase());
    const dollars = this.#take(DOLLAR_QUOTE);
    if (dollars !== undefined) {
      this.#quote = { kind: '$', end: new RegExp(`[^]*?(?:(${dollars.replaceAll('$', '\\$')})|$)`, 'y') };
      return;
    }
    if (this.#take(NUMBER_OR_PARAMETER) !== undefined) return;
    const character = text[start];
    this.#at++;
    if (character === "'") this.#quote = { kind: "'", end: IN_PLAIN_STRING };
    else if (character === '"') this.#quote = { kind: '"', end: IN_NAME };
    else if (character === '(') this.#parentheses++;
    else if (character === ')') this.#parentheses = Math.max(0, this.#parentheses - 1);
  }

  /** A quote that is doubled ends one string and begins another, which comes to the same, but for escapes. */
  #readQuote(end: RegExp): void {
    const isClosed = this.#takeGroup(end) !== undefined;
    if (!isClosed) return;
    if (end === IN_ESCAPE_STRING && this.#text[this.#at] === "'") this.#at++;
    else this.#quote = undefined;
  }

  #readComment(): void {
    COMMENT_EDGE.lastIndex = this.#at;
    const edge = COMMENT_EDGE.exec(this.#text);
    this.#comments += edge === null ? 0 : edge[0] === '/*' ? 1 : -1;
    this.#at = edge === null ? this.#text.length : COMMENT_EDGE.lastIndex;
  }

  #readWord(word: string): void {
    if (word === 'e' && this.#text[this.#at] === "'") {
      this.#at++;
      this.#quote = { kind: "'", end: IN_ESCAPE_STRING };
      return;
    }
    if (this.#words.length < 4) this.#words.push(word);
    if (this.#parentheses > 0 || !this.#words.some((_, i) => ROUTINE.test(this.#words.slice(0, i + 1).join(' '))))
      return;
    if (word === 'begin' || (word === 'case' && this.#blocks > 0)) this.#blocks++;
    else if (word === 'end' && this.#blocks > 0) this.#blocks--;
  }

  /** `\;` is a semicolon that does not send: what it parts goes in one request. All else is a command to its line's end. */
  #readBackslash(parts: Part[]): void {
    const start = this.#at;
    if (this.#text[start + 1] === ';') {
      this.#text = this.#text.slice(0, start) + this.#text.slice(start + 1);
      this.#at = start + 1;
      const hadTokens = this.#hasTokens;
      this.#startStatement();
      this.#hasTokens = hadTokens;
      return;
    }
    const end = this.#text.indexOf('\n', start);
    parts.push({ kind: 'command', text: this.#text.slice(start, end).trim() });
    this.#text = this.#text.slice(0, start) + this.#text.slice(end);
  }

  #endStatement(parts: Part[], end: number): void {
    if (this.#hasTokens) parts.push({ kind: 'statement', sql: (this.text + this.#text.slice(0, end)).trim() });
    this.#above = [];
    this.#text = this.#text.slice(this.#at);
    this.#at = 0;
    this.#startStatement();
  }

  #take(token: RegExp): string | undefined {
    token.lastIndex = this.#at;
    const found = token.exec(this.#text)?.[0];
    if (found !== undefined) this.#at = token.lastIndex;
    return found;
  }

  /** Goes behind the match; @returns its group, where it took part */
  #takeGroup(token: RegExp): string | undefined {
    token.lastIndex = this.#at;
    const found = token.exec(this.#text);
    this.#at = token.lastIndex;
    return found?.[1];
  }
}
