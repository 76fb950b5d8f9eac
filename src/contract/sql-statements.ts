/** Splits a text into statements as psql does, so that exactly what the user sees is run. */
import { type Token, tokensOf } from './sql-tokens.js';

export interface StatementText {
  /** Without leading white space and comments, and without the semicolon. */
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

export function splitStatements(text: string): StatementText[] {
  const statements: StatementText[] = [];
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
    const tokenText = text.slice(token.from, token.to);
    if (token.kind === 'sign' && tokenText === ';' && nesting.isOutside) {
      end();
      continue;
    }
    nesting.take(token, tokenText);
    first ??= token;
    last = token;
  }
  end();
  return statements;
}

const statement = (text: string, from: number, to: number): StatementText => ({ from, to, text: text.slice(from, to) });

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

  take({ kind }: Token, tokenText: string): void {
    if (kind === 'sign') {
      if (tokenText === '(') this.#parentheses++;
      if (tokenText === ')') this.#parentheses = Math.max(0, this.#parentheses - 1);
    }
    if (kind !== 'word' || this.#parentheses > 0) return;
    const word = tokenText.toLowerCase();
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
