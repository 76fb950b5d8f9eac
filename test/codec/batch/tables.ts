/** Tables for the tests of the fast path, each in one format. */
import { isUtf8 } from 'node:buffer';
import { encodeBatch } from '../../../src/codec/batch/batch-encoder.js';
import { type BatchFormat, type TableLayout, tableLayoutOf } from '../../../src/codec/batch/table-layout.js';
import type { EncodedBatch } from '../../../src/codec/index.js';
import type { Column, Table } from '../../../src/engine/catalog/catalog.js';
import { table } from './shapes.js';

export interface TestTable {
  readonly table: Table;
  readonly layout: TableLayout;
}

export function tableOf(...columns: Column[]): TestTable {
  return tableIn(columns.every(({ type, isId }) => isId || type !== null) ? 'binary' : 'text', columns);
}

/** In the format that a Postgres understands which takes marks for defaults. */
export const markedTableOf = (...columns: Column[]): TestTable => tableIn('marked', columns);

const tableIn = (format: BatchFormat, columns: Column[]): TestTable => ({
  table: table(...columns),
  layout: tableLayoutOf(columns, format),
});

/** The batch by the fast path; null if that leaves it to the checked one. */
export function fast({ layout }: TestTable, body: Uint8Array): EncodedBatch | null {
  return isUtf8(body) ? encodeBatch(layout, body) : null;
}
