/** The statements of the editor: the one at the cursor, the one to explain, parameters and positions. */
import { splitStatements, type StatementText } from '../../../src/contract/sql-statements.js';
import { tokensOf } from '../../../src/contract/sql-tokens.js';

/** The statement at the cursor, or before it on the same line; otherwise the next one; otherwise the last one. */
export function statementAt(text: string, cursor: number): StatementText | undefined {
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
