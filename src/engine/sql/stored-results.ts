/** Results of free SQL as stored under an Idempotency-Key: with rows up to a size limit, without them above it. */
import { BufferList } from '../../codec/index.js';
import { LIMITS } from '../../contract/limits.js';
import { type Static, Type } from '../../contract/schema.js';
import type { SqlResult } from './sql-result.js';

export const StoredResults = Type.Array(
  Type.Object({
    type: Type.String(),
    columns: Type.String(),
    rows: Type.Nullable(Type.String()),
    row_count: Type.Integer(),
    affected_rows: Type.Optional(Type.Integer()),
    truncated: Type.Boolean(),
  }),
  { minItems: 1 },
);
export type StoredResults = Static<typeof StoredResults>;

export function storedResults(results: readonly SqlResult[]): StoredResults {
  const bytes = results.reduce((sum, { rows, columnsJson }) => sum + columnsJson.length + (rows?.length ?? 0), 0);
  const keepsRows = bytes <= LIMITS.idempotencyResponseBytes;
  return results.map(({ type, columnsJson, rows, rowCount, affectedRows, truncated }) => {
    const leavesOut = !keepsRows && rows !== null && rowCount > 0;
    return {
      type,
      columns: columnsJson,
      rows: rows === null ? null : leavesOut ? '' : Buffer.concat(rows.buffers).toString(),
      row_count: leavesOut ? 0 : rowCount,
      ...(affectedRows === undefined ? {} : { affected_rows: affectedRows }),
      truncated: truncated || leavesOut,
    };
  });
}

export const restoredResults = (stored: StoredResults): SqlResult[] =>
  stored.map(({ type, columns, rows, row_count, affected_rows, truncated }) => ({
    type,
    columnsJson: columns,
    rows: rows === null ? null : listOf(rows),
    rowCount: row_count,
    affectedRows: affected_rows,
    truncated,
  }));

function listOf(text: string): BufferList {
  const list = new BufferList();
  if (text !== '') list.push(Buffer.from(text));
  return list;
}
