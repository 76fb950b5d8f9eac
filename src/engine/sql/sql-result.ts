/** The response to one statement of free SQL. */
import { type BufferList, describeColumns, type ResultColumn } from '../../codec/index.js';
import { readCommandTag, type Session, sql } from '../../pg/index.js';
import type { RowCollector } from './row-collector.js';
import { mainKeyword, MODIFYING } from '../parser/keywords.js';

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
    affectedRows: MODIFYING.has(type) ? (rows === null ? count : rows.seen) : undefined,
    truncated: rows?.truncated ?? false,
  };
}

/** Column names as in the rows; type names as in the API. Only types that are not built in need a query. */
export async function columnsJson(session: Session, columns: readonly ResultColumn[] | null): Promise<string> {
  const described = describeColumns(columns ?? []);
  for (const [i, { typeOid, typeModifier }] of (columns ?? []).entries()) {
    const column = described[i];
    if (column === undefined || column.type !== undefined) continue;
    const rows = await session.query(sql`SELECT pg_catalog.format_type(${typeOid}, ${typeModifier})`);
    described[i] = { ...column, type: rows[0]?.[0] ?? '' };
  }
  return JSON.stringify(described);
}
