/** What the fast path needs to know of a table, prepared once for each shape of it. */
import type { TableShape } from '../../../postgres/table-shape.js';
import { ident, join, sql, statement, trusted } from '../../../postgres/sql.js';

import { BINARY_HEADER, BINARY_TRAILER, hasBinaryForm } from './binary-cells.js';
import { KeyTable } from './key-table.js';

export interface CopyPlan {
  readonly table: TableShape;
  readonly keys: KeyTable;
  /** Binary where every column has a binary form that is known here. */
  readonly format: 'binary' | 'text';
}

/** null where COPY cannot do what an INSERT does: project code, views, row level security (Postgres manual, COPY). */
export function copyPlan(table: TableShape): CopyPlan | null {
  if (table.runsProjectCode) return null;
  const names = table.columns.map(({ name }) => name);
  // A name that JSON cannot write without an escape is found by its decoded form alone, which only the reference knows.
  if (names.some((name) => JSON.stringify(name).includes('\\'))) return null;
  const format = table.columns.every(hasBinaryForm) ? 'binary' : 'text';
  return { table, keys: new KeyTable(names), format };
}

/** `COPY … FROM STDIN` for the columns of these indices, in their order. */
export function copyStatement({ table, format }: CopyPlan, indices: readonly number[]): string {
  const names = indices.map((index) => ident(table.columns[index]?.name ?? ''));
  return statement(sql`COPY ${ident(table.schema, table.name)} (${join(names)}) FROM STDIN (FORMAT ${trusted(format)})`)
    .text;
}

/** What {@link copyStatement} is sent: the rows of several batches, with what the format puts around them. */
export function copyData({ format }: CopyPlan, batches: readonly { readonly data: Uint8Array }[]): Uint8Array[] {
  const rows = batches.map(({ data }) => data);
  return format === 'binary' ? [BINARY_HEADER, ...rows, BINARY_TRAILER] : rows;
}
