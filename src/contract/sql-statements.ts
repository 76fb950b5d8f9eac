/** Splits a text into statements as psql does, so that exactly what the user sees is run. */
import { type Token, tokensOf } from './sql-tokens.js';

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
