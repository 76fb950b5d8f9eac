/** Tables for the tests of the fast path, each in one format. */
import { isUtf8 } from 'node:buffer';
import type { BatchFormat, Program } from '../../../src/codec/batch/program.js';
import { programOf } from '../../../src/codec/batch/program.js';
import { runProgram } from '../../../src/codec/batch/wasm-encoder.js';
import type { EncodedBatch } from '../../../src/codec/index.js';
import type { ColumnShape, TableShape } from '../../../src/engine/catalog/table-shape.js';
import { table } from './shapes.js';

export interface Plan {
  readonly table: TableShape;
  readonly program: Program;
}

export function planOf(...columns: ColumnShape[]): Plan {
  return planIn(columns.every(({ type, isId }) => isId || type !== null) ? 'binary' : 'text', columns);
}

/** In the format that a Postgres understands which takes marks for defaults. */
export const markedPlanOf = (...columns: ColumnShape[]): Plan => planIn('marked', columns);

const planIn = (format: BatchFormat, columns: ColumnShape[]): Plan => ({
  table: table(...columns),
  program: programOf(columns, format),
});

/** The batch by the fast path; null if that leaves it to the checked one. */
export function fast({ program }: Plan, body: Uint8Array): EncodedBatch | null {
  return isUtf8(body) ? runProgram(program, body) : null;
}
