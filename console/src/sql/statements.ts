/** Splits a text into statements as psql does, so that exactly what the user sees is run. */
import { type Token, tokensOf } from '../../../src/contract/sql-tokens.js';

export interface Statement {
  /** Without leading white space and comments, and without the semicolon. */
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

export function splitStatements(text: string): Statement[] {
  const statements: Statement[] = [];
  let first: Token | undefined;
  let last: Token | undefined;
  let nesting = new Nesting();
  const end = () => {
    if (first !== undefined && last !== undefined) statements.push(statement(text, first.from, last.to));
    first = last = undefined;
    nesting = new Nesting();
  };
  for (const token of tokensOf(text)) {
    if (token.kind === 'comment') continue;
    const written = text.slice(token.from, token.to);
    if (token.kind === 'sign' && written === ';' && nesting.isOutside) {
      end();
      continue;
    }
    nesting.take(token, written);
    first ??= token;
    last = token;
  }
  end();
  return statements;
}

const statement = (text: string, from: number, to: number): Statement => ({ from, to, text: text.slice(from, to) });

/**
 * Tracks whether a semicolon ends the statement: it does not within parentheses, or in a function body between BEGIN
 * ATOMIC and END.
 */
class Nesting {
  #parentheses = 0;
  #blocks = 0;
  #words: string[] = [];

  get isOutside(): boolean {
    return this.#parentheses === 0 && this.#blocks === 0;
  }

  take({ kind }: Token, written: string): void {
    if (kind === 'sign') {
      if (written === '(') this.#parentheses++;
      if (written === ')') this.#parentheses = Math.max(0, this.#parentheses - 1);
    }
    if (kind !== 'word' || this.#parentheses > 0) return;
    const word = written.toLowerCase();
    if (this.#words.length < 4) this.#words.push(word);
    if (!this.#isRoutine()) return;
    if (word === 'begin' || (this.#blocks > 0 && word === 'case')) this.#blocks++;
    else if (this.#blocks > 0 && word === 'end') this.#blocks--;
  }

  #isRoutine(): boolean {
    const [create, ...rest] = this.#words;
    const kind = rest[0] === 'or' && rest[1] === 'replace' ? rest[2] : rest[0];
    return create === 'create' && (kind === 'function' || kind === 'procedure');
  }
}

/** The statement at the cursor, or before it on the same line; otherwise the next one; otherwise the last one. */
export function statementAt(text: string, cursor: number): Statement | undefined {
  const statements = splitStatements(text);
  const within = statements.find(({ from, to }) => from <= cursor && cursor <= to + 1);
  if (within !== undefined) return within;
  const before = statements.findLast(({ to }) => to < cursor);
  if (before !== undefined && !text.slice(before.to, cursor).includes('\n')) return before;
  return statements.find(({ from }) => from > cursor) ?? before;
}

/** The first statement of a text and its start, without an EXPLAIN that the user typed before it. */
export function toExplain(text: string): { text: string; from: number } | undefined {
  const [first] = splitStatements(text);
  if (first === undefined) return undefined;
  const [typed = ''] = /^explain\b\s*(?:\([^)]*\)|(?:analy[sz]e\b\s*)?(?:verbose\b)?)\s*/i.exec(first.text) ?? [];
  return { text: first.text.slice(typed.length), from: first.from + typed.length };
}

/** The number of parameters of a statement: the highest n of `$n`. */
export function parameterCount(text: string): number {
  let count = 0;
  for (const { kind, from, to } of tokensOf(text)) {
    if (kind === 'parameter') count = Math.max(count, Number(text.slice(from + 1, to)));
  }
  return Math.min(count, 100);
}

/** Postgres counts characters from 1, JavaScript counts UTF-16 units from 0. */
export function offsetOf(text: string, position: number): number {
  let offset = 0;
  for (let n = 1; n < position && offset < text.length; n++) offset += (text.codePointAt(offset) ?? 0) > 0xffff ? 2 : 1;
  return offset;
}
