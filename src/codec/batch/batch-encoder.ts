/**
 * The fast path of a batch: from the bytes of a JSON array straight to the rows of COPY, in one pass, without an object
 * or a string for a record. It never says what is wrong: it leaves everything that it does not understand at once,
 * wrong or merely rare, to the checked path (`read-records.ts`, `check-records.ts`).
 */
import { isUtf8 } from 'node:buffer';
import type { BatchColumn } from './column.js';
import type { EncodedBatch } from './encoded-batch.js';
import { programOf } from './program.js';
import { runProgram } from './wasm-encoder.js';

/** Encodes the batches for one table. */
export interface BatchEncoder {
  /** Bytes of memory that it keeps. */
  readonly size: number;
  /** @returns null: the checked path has to look at the batch */
  encode(body: Uint8Array): EncodedBatch | null;
}

/**
 * @param columns of the table, in its order
 * @param marksDefaults Postgres understands a mark for a column's default (16 and later), so that each record may leave
 *   out different columns
 * @returns null: no batch for this table can be encoded
 */
export function batchEncoder(columns: readonly BatchColumn[], marksDefaults: boolean): BatchEncoder | null {
  // Only its decoded form finds a name that JSON cannot write without an escape.
  if (columns.some(({ name }) => JSON.stringify(name).includes('\\'))) return null;
  const format = columns.every(({ type, isId }) => isId || type !== null) ? 'binary' : 'text';
  const program = programOf(columns, format);
  const withMarks = marksDefaults ? programOf(columns, 'marked') : null;
  return {
    size: program.bytes.length + (withMarks?.bytes.length ?? 0),
    encode(body) {
      if (!isUtf8(body)) return null;
      return runProgram(program, body) ?? (withMarks === null ? null : runProgram(withMarks, body));
    },
  };
}
