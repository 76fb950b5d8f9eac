/**
 * A batch as rows of COPY; or its columns as arrays in Postgres's binary format (array_recv in the sources of
 * Postgres).
 */
import { type ColumnType, TYPE_OIDS } from '../../contract/column-types.js';
import { freeBuffer } from '../buffers.js';
import type { BatchColumn, BatchFormat } from './table-layout.js';

const UUID_OID = 2950;

/** Number of dimensions, flag for NULLs, element type, number of elements, lower bound. */
const HEADER_BYTES = 20;

export class EncodedBatch {
  constructor(
    readonly recordCount: number,
    /** `marked`: text in which `\D` represents a column's default. */
    readonly format: BatchFormat,
    /** Indexes of the table's columns, in the order of a row's cells. */
    readonly columns: readonly number[],
    /** Without COPY's header and trailer. */
    readonly data: Uint8Array,
  ) {}

  /**
   * Relies on COPY fields and array elements having the same format: the length and the bytes, or -1 for NULL.
   * @returns an array for each column of the batch; null if the batch is not binary
   */
  columnArrays(table: readonly BatchColumn[]): Buffer[] | null {
    const { recordCount, format, columns, data } = this;
    if (format !== 'binary') return null;
    const cells = columns.map((): Uint8Array[] => []);
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
    let at = 0;
    for (let record = 0; record < recordCount; record++) {
      at += 2; // the number of the row's fields
      for (const ofColumn of cells) {
        const end = at + 4 + Math.max(0, bytes.readInt32BE(at));
        ofColumn.push(bytes.subarray(at, end));
        at = end;
      }
    }
    return cells.map((ofColumn, i) =>
      Buffer.concat([headerOf(recordCount, table[columns[i] ?? 0]?.type ?? null), ...ofColumn]),
    );
  }

  /** The rows must not be read afterwards. */
  free(): void {
    freeBuffer(this.data);
  }
}

function headerOf(length: number, type: ColumnType | null): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeInt32BE(1, 0);
  header.writeInt32BE(1, 4);
  header.writeInt32BE(type === null ? UUID_OID : TYPE_OIDS[type], 8);
  header.writeInt32BE(length, 12);
  header.writeInt32BE(1, 16);
  return header;
}
