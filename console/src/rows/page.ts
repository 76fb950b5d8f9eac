/** Reads one page of rows. */
import { isNull, textOf } from '../results/cells.js';
import { Result } from '../results/result.js';
import { currentSession } from '../session.js';
import { type Cursor, orderOf, pageStatements, type RowsQuery } from './statement.js';

/** Rows of a page; of a table without a key, there is only one page. */
export const PAGE_ROWS = 200;
export const ROWS_WITHOUT_KEY = 500;

export const sizeOf = ({ key }: RowsQuery): number => (key === null ? ROWS_WITHOUT_KEY : PAGE_ROWS);

export interface Page {
  readonly result: Result;
  /** Where the next page begins; null: this is the last one, or the table has no key. */
  readonly next: Cursor | null;
  /** Whether there are more rows. */
  readonly isMore: boolean;
  readonly ms: number;
}

/**
 * @param after null: the first page
 * @throws CdpError
 */
export async function readPage(query: RowsQuery, after: Cursor | null, signal: AbortSignal): Promise<Page> {
  const began = performance.now();
  const size = sizeOf(query);
  let result: Result | undefined;
  let seen = 0;
  try {
    // One row more, which tells whether there is a next page.
    for (const { text, params } of pageStatements(query, after, size + 1)) {
      const options = { numbers: 'raw', read_only: true, timeout_ms: 60_000, signal } as const;
      const { columns, batches } = await currentSession().client.sqlArrays(text, params, options);
      result ??= new Result(columns.map(({ name, type }) => ({ name, type: type ?? '' })));
      for await (const batch of batches) {
        for (const line of batch) if (++seen <= size) result.take(line);
      }
      if (seen > size) break;
    }
  } catch (thrown) {
    result?.release();
    throw thrown;
  }
  if (result === undefined) throw new Error('A page has at least one statement');
  // Rows that it has not held because they are too large begin the next page.
  result.end('SELECT', result.held);
  const isMore = seen > result.held;
  return { result, isMore, next: isMore ? cursorOf(query, result) : null, ms: performance.now() - began };
}

/** Where the rows after the last one begin. */
function cursorOf(query: RowsQuery, result: Result): Cursor | null {
  if (query.key === null || result.held === 0) return null;
  const cells = result.cells(result.held - 1);
  return orderOf(query).map((name) => {
    const at = result.columns.findIndex((column) => column.name === name);
    const cell = cells[at] ?? 'null';
    return isNull(cell) ? null : textOf(cell, result.columns[at]?.type ?? '');
  });
}
