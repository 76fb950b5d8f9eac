/** What the fast path needs to know of a table, prepared once for each shape of it. */
import type { ColumnShape, TableShape } from '../../../postgres/table-shape.js';
import { ident, join, sql, statement } from '../../../postgres/sql.js';

export interface CopyColumn {
  readonly shape: ColumnShape;
  /** The key in a record, quotes included. */
  readonly key: Uint8Array;
}

export interface CopyPlan {
  readonly table: TableShape;
  readonly columns: readonly CopyColumn[];
  readonly indexByName: ReadonlyMap<string, number>;
}

/** null where COPY cannot do what an INSERT does: project code, views, row level security (Postgres manual, COPY). */
export function copyPlan(table: TableShape): CopyPlan | null {
  if (table.runsProjectCode) return null;
  const columns = table.columns.map((shape) => ({ shape, key: Buffer.from(JSON.stringify(shape.name)) }));
  // A name that JSON writes with an escape is found by its decoded form alone, which only the reference knows.
  if (table.columns.some(({ name }) => JSON.stringify(name).includes('\\'))) return null;
  return { table, columns, indexByName: new Map(table.columns.map(({ name }, index) => [name, index])) };
}

/** `COPY … FROM STDIN` in text format for the columns of these indices, in their order. */
export function copyStatement({ table }: CopyPlan, indices: readonly number[]): string {
  const names = indices.map((index) => ident(table.columns[index]?.name ?? ''));
  return statement(sql`COPY ${ident(table.schema, table.name)} (${join(names)}) FROM STDIN`).text;
}
