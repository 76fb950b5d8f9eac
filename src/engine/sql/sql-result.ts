/** What one statement of free SQL is answered with. */
import { readCommandTag } from '../../postgres/command-tag.js';
import { outputNames, type ResultColumn, typeName } from '../../postgres/results/columns.js';
import type { RowBytes } from '../../postgres/results/row-bytes.js';
import type { RowMode } from '../../postgres/results/rows.js';
import { sql, statement } from '../../postgres/sql.js';
import type { Session } from '../../postgres/wire/session.js';
import { mainKeyword } from './main-keyword.js';
import type { RowCollector } from './row-collector.js';
import type { SqlRequest } from './statements.js';

export interface SqlResult {
  /** Postgres's command tag without its counts. */
  readonly type: string;
  /** Names and types of the columns, as JSON. */
  readonly columnsJson: string;
  /** The rows as JSON, with commas between them; null where none come back. Whoever has sent them frees them. */
  readonly rows: RowBytes | null;
  /** Rows here, or rows affected where none come back. */
  readonly rowCount: number;
  /** For INSERT, UPDATE, DELETE and MERGE. */
  readonly affectedRows: number | undefined;
  readonly truncated: boolean;
}

export interface CollectRequest extends SqlRequest {
  maxRows: number;
  rowMode: RowMode;
}

/** Statements whose rows are all made before the first is sent. */
export const MODIFYING: ReadonlySet<string> = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE']);

/**
 * @param tag null where the rows were cut off before the statement ended
 * @param rows null for a statement that returns none
 */
export function sqlResult(text: string, tag: string | null, rows: RowCollector | null, columnsJson: string): SqlResult {
  const { type, count } = readCommandTag(tag ?? mainKeyword(text));
  return {
    type,
    columnsJson,
    rows: rows?.bytes ?? null,
    rowCount: rows === null ? (count ?? 0) : rows.count,
    // The tag counts the rows of the last step alone.
    affectedRows: MODIFYING.has(type) ? (rows === null ? count : rows.seen) : undefined,
    truncated: rows?.truncated ?? false,
  };
}

/** Names as they stand in the rows, types as the API calls them; Postgres is asked only for types that are not built in. */
export async function describeColumns(session: Session, columns: readonly ResultColumn[] | null): Promise<string> {
  if (columns === null) return '[]';
  const names = outputNames(columns);
  const types = columns.map(typeName);
  for (const [i, column] of columns.entries()) {
    if (types[i] !== undefined) continue;
    const { typeOid, typeModifier } = column;
    const rows = await session.query(statement(sql`SELECT pg_catalog.format_type(${typeOid}, ${typeModifier})`));
    types[i] = rows[0]?.[0] ?? '';
  }
  return JSON.stringify(columns.map((_, i) => ({ name: names[i] ?? '', type: types[i] ?? '' })));
}
