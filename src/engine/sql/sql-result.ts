/** The response to one statement of free SQL, and how it is stored under an Idempotency-Key. */
import { BufferList, describeColumns, type ResultColumn } from '../../codec/index.js';
import { LIMITS } from '../../contract/limits.js';
import { type Static, Type } from '../../contract/schema.js';
import { Warning } from '../../contract/wire/sql.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { readCommandTag, sql } from '../../pg/index.js';
import { mainKeyword, MODIFYING } from '../parser/keywords.js';
import type { RowCollector } from './row-collector.js';

export interface SqlResult {
  /** Postgres's command tag without its counts. */
  readonly type: string;
  /** Names and types of the columns, as JSON. */
  readonly columnsJson: string;
  /** The rows as JSON, each after a comma; null if it returns none. The sender frees them. */
  readonly rows: BufferList | null;
  /** Rows in `rows`, or affected rows if it returns none. */
  readonly rowCount: number;
  /** For INSERT, UPDATE, DELETE and MERGE. */
  readonly affectedRows: number | undefined;
  readonly truncated: boolean;
}

export interface SqlAnswer {
  /** One for each statement. */
  readonly results: readonly SqlResult[];
  /** Of all statements and the commit. */
  readonly warnings: readonly Warning[];
}

/**
 * @param tag null if the rows were cut off before the statement ended
 * @param rows null for a statement that returns none
 */
export function sqlResult(text: string, tag: string | null, rows: RowCollector | null, columnsJson: string): SqlResult {
  const { type, count } = readCommandTag(tag ?? mainKeyword(text));
  return {
    type,
    columnsJson,
    rows: rows?.bytes ?? null,
    rowCount: rows === null ? (count ?? 0) : rows.count,
    // The tag counts only the rows of the last step.
    affectedRows: MODIFYING.has(type) ? (rows === null ? count : rows.received) : undefined,
    truncated: rows?.truncated ?? false,
  };
}

/** Column names as in the rows; type names as in the API. Only types that are not built in need a query. */
export async function columnsJson(db: QueryRunner, columns: readonly ResultColumn[] | null): Promise<string> {
  const columnList = describeColumns(columns ?? []);
  for (const [i, { typeOid, typeModifier }] of (columns ?? []).entries()) {
    const column = columnList[i];
    if (column === undefined || column.type !== undefined) continue;
    const rows = await db.query(sql`SELECT pg_catalog.format_type(${typeOid}, ${typeModifier})`);
    columnList[i] = { ...column, type: rows[0]?.[0] ?? '' };
  }
  return JSON.stringify(columnList);
}

// Results of free SQL as stored under an Idempotency-Key: with rows up to a size limit, without them above it.

export const StoredResults = Type.Array(
  Type.Object({
    type: Type.String(),
    columns: Type.String(),
    rows: Type.Nullable(Type.String()),
    row_count: Type.Integer(),
    affected_rows: Type.Optional(Type.Integer()),
    truncated: Type.Boolean(),
    /** Of all statements; only in the last result. */
    warnings: Type.Optional(Type.Array(Warning)),
  }),
  { minItems: 1 },
);
export type StoredResults = Static<typeof StoredResults>;

/** @param warnings those before the commit */
export function storedResults(results: readonly SqlResult[], warnings: readonly Warning[]): StoredResults {
  const bytes = results.reduce((sum, { rows, columnsJson }) => sum + columnsJson.length + (rows?.length ?? 0), 0);
  const keepsRows = bytes <= LIMITS.idempotencyResponseBytes;
  return results.map(({ type, columnsJson, rows, rowCount, affectedRows, truncated }, i) => {
    const leavesOut = !keepsRows && rows !== null && rowCount > 0;
    return {
      type,
      columns: columnsJson,
      rows: rows === null ? null : leavesOut ? '' : Buffer.concat(rows.buffers).toString(),
      row_count: leavesOut ? 0 : rowCount,
      ...(affectedRows === undefined ? {} : { affected_rows: affectedRows }),
      truncated: truncated || leavesOut,
      ...(warnings.length > 0 && i === results.length - 1 ? { warnings: [...warnings] } : {}),
    };
  });
}

export const restoredResults = (stored: StoredResults): SqlAnswer => ({
  results: stored.map(({ type, columns, rows, row_count, affected_rows, truncated }) => ({
    type,
    columnsJson: columns,
    rows: rows === null ? null : listOf(rows),
    rowCount: row_count,
    affectedRows: affected_rows,
    truncated,
  })),
  warnings: stored.at(-1)?.warnings ?? [],
});

function listOf(text: string): BufferList {
  const list = new BufferList();
  if (text !== '') list.push(Buffer.from(text));
  return list;
}
