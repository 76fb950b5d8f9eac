/**
 * The fast path of a batch: from the bytes of a JSON array directly to the rows of COPY, in one pass, without an object
 * or a string for a record. It never reports what is wrong: it leaves everything that it does not recognize, wrong or
 * merely rare, to the checked path (`read-records.ts`, `check-records.ts`).
 */
import { isUtf8 } from 'node:buffer';
import type { BatchColumn } from './column.js';
import type { EncodedBatch } from './encoded-batch.js';
import { programOf } from './program.js';
import { runProgram } from './wasm-encoder.js';

export interface BatchEncoder {
  /** @returns null: the checked path must read the batch */
  encode(body: Uint8Array): EncodedBatch | null;
}

/**
 * @param columns of the table, in its order
 * @param marksDefaults Postgres supports a mark for a column's default (16 and later), so records may lack different
 * columns
 * @returns null: no batch for this table can be encoded
 */
export function batchEncoder(columns: readonly BatchColumn[], marksDefaults: boolean): BatchEncoder | null {
  // A name that JSON cannot write without an escape is found only in its decoded form.
  if (columns.some(({ name }) => JSON.stringify(name).includes('\\'))) return null;
  const format = columns.every(({ type, isId }) => isId || type !== null) ? 'binary' : 'text';
  const program = programOf(columns, format);
  const withMarks = marksDefaults ? programOf(columns, 'marked') : null;
  return {
    encode(body) {
      if (!isUtf8(body)) return null;
      return runProgram(program, body) ?? (withMarks === null ? null : runProgram(withMarks, body));
    },
  };
}
