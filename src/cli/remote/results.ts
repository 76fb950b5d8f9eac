/** Results of SQL for people: every value as the service sent it, with all its digits. */
import type { CdpClient } from '../../client/client.js';
import type { AsText, QueryOptions, QueryResult } from '../../client/sql.js';
import type { Warning } from '../../contract/wire/sql.js';
import { fitting, grid, records } from '../terminal/grid.js';
import { warn } from '../terminal/output.js';
import { countedRows } from '../terminal/progress.js';
import { printable } from '../terminal/text.js';

interface Result extends Omit<QueryResult<never>, 'rows' | 'results'> {
  /** null is NULL. */
  rows: (string | null)[][];
}

export interface Layout {
  /** One value per line; `auto`: if the rows are wider than the terminal. */
  expanded: boolean | 'auto';
  /** Columns of the terminal. */
  width: number;
  /** A hint how to get the remaining rows. */
  more: string;
}

interface Results {
  /** One for each statement. */
  readonly results: Result[];
  readonly warnings: readonly Warning[];
}

export async function queryResults(
  client: CdpClient,
  sql: string,
  params: readonly unknown[],
  options: AsText<QueryOptions>,
): Promise<Results> {
  return resultsIn(await client.queryJson(sql, params, { ...options, row_mode: 'array' }));
}

/** @param text a response with rows as arrays */
export function resultsIn(text: string): Results {
  const response = parseExactly(text) as QueryResult<unknown[]>;
  const all = (response.results ?? [response]) as readonly QueryResult<unknown[]>[];
  const results = all.map(({ rows, ...result }) => ({ ...result, rows: rows.map((row) => row.map(cell)) }));
  return { results, warnings: response.warnings ?? [] };
}

const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** Marks a number that was turned into a string. No Postgres text contains this character. */
const MARK = '\0';

/** Numbers that a double would spell differently (`1.50`) become marked strings. */
const parseExactly = (text: string): unknown =>
  JSON.parse(
    text.replace(STRING_OR_NUMBER, (token) =>
      token.startsWith('"') || String(Number(token)) === token ? token : JSON.stringify(MARK + token),
    ),
  );

function cell(value: unknown): string | null {
  if (value === null) return null;
  if (typeof value === 'string') return value.startsWith(MARK) ? value.slice(MARK.length) : value;
  return JSON.stringify(value).replace(/"\\u0000([-+.\deE]+)"/g, '$1');
}

const NUMBERS = /^(INTEGER|FLOAT|integer|smallint|real|numeric.*|oid)$/;
/** Tags that count rows; that of CREATE TABLE AS is SELECT. */
const COUNTS = /^(INSERT|UPDATE|DELETE|MERGE|COPY|SELECT|MOVE)$/;

/** What a statement without rows has done: `DELETE 1343`. */
export const tagLine = ({ type, row_count: count }: Pick<Result, 'type' | 'row_count'>): string =>
  printable(COUNTS.test(type) ? `${type} ${count}` : type);

/** Postgres's warnings, on standard error. */
export function printWarnings(warnings: readonly Warning[]): void {
  for (const { message, detail, hint } of warnings) {
    const lines = [`Warning: ${message}`, detail, hint].filter((line) => line !== undefined);
    warn(lines.map(printable).join('\n'));
  }
}

/** The lines for a terminal. */
export function resultLines(
  { type, rows, columns, row_count: count, truncated: isTruncated }: Result,
  { expanded, width, more }: Layout,
): string[] {
  if (columns.length === 0) return [tagLine({ type, row_count: count })];
  const heads = columns.map(({ name, type: of }) => ({ name, isNumber: NUMBERS.test(of) }));
  const lines = expanded === 'auto' ? fitting(heads, rows, width) : (expanded ? records : grid)(heads, rows);
  return [...lines, `(${isTruncated ? `the first ${countedRows(count)}; ${more}` : countedRows(count)})`];
}
