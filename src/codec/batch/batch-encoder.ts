/**
 * The fast path of a batch: from the bytes of a JSON array directly to the rows of COPY, in one pass, without an object
 * or a string for a record. It never reports what is wrong: it leaves everything that it does not recognize, wrong or
 * merely rare, to the checked path (`read-records.ts`, `check-records.ts`).
 *
 * The encoder itself is `assembly/encode.ts`, which the build compiles to WebAssembly. It has its own memory: a body is
 * copied into it, and rows out of it. For single rare cells it calls {@link readCell}, so that there is only one
 * grammar.
 */
import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { LIMITS } from '../../contract/limits.js';
import { allocBuffer } from '../buffers.js';
import { readJson } from '../json/read-json.js';
import { WasmInstance } from '../wasm.js';
import { readCell } from './cell.js';
import { CellError } from './cell-error.js';
import { type BatchColumn, type TableLayout, tableLayoutOf } from './table-layout.js';
import { EncodedBatch } from './encoded-batch.js';

export interface BatchEncoder {
  /** @returns null: the checked path must read the batch */
  encode(body: Uint8Array): EncodedBatch | null;
  /**
   * The same for records in lines.
   * @param count the number of lines that are not blank
   */
  encodeLines(lines: Uint8Array, count: number): EncodedBatch | null;
}

/**
 * @param columns of the table, in its order
 * @param marksDefaults Postgres supports a mark for a column's default (16 and later), so records may lack different
 * columns
 */
export function batchEncoder(columns: readonly BatchColumn[], marksDefaults: boolean): BatchEncoder {
  const format = columns.every(({ type, isId }) => isId || type !== null) ? 'binary' : 'text';
  const layout = tableLayoutOf(columns, format);
  const markedLayout = marksDefaults ? tableLayoutOf(columns, 'marked') : null;
  const encode = (body: Uint8Array, lines: number | null) => {
    if (!isUtf8(body)) return null;
    return encodeBatch(layout, body, lines) ?? (markedLayout === null ? null : encodeBatch(markedLayout, body, lines));
  };
  return { encode: (body) => encode(body, null), encodeLines: encode };
}

/**
 * WebAssembly memory never shrinks, so an instance that has used more than this is discarded. The largest body and its
 * rows take less, unless it consists of escapes. Fresh memory costs ten times as much as writing to used memory.
 */
const KEPT_BYTES = 32 * 1024 * 1024;

/** One for all tables, since a call never waits. */
let encoder: WasmEncoder | null = null;

/**
 * @param lines the number of records, one in each line; null: the body is an array
 * @returns null: the checked path must read the batch
 */
export function encodeBatch(layout: TableLayout, body: Uint8Array, lines: number | null = null): EncodedBatch | null {
  encoder ??= new WasmEncoder();
  const batch = encoder.run(layout, body, lines);
  if (encoder.used > KEPT_BYTES) encoder = null;
  return batch;
}

interface Global {
  readonly value: number;
}

/** The exports of the encoder. An address is an offset in its memory; 0 means none, or false. */
interface WasmExports {
  readonly memory: { readonly buffer: ArrayBuffer };
  allocLayout(length: number): number;
  useLayout(): number;
  allocBody(length: number): number;
  encode(mostRecords: number, inLines: number): number;
  isListed(column: number): number;
  allocText(length: number): number;
  readonly records: Global;
  readonly rows: Global;
  readonly rowsEnd: Global;
}

/** No cell was written: the checked path must read the batch. */
const NOT_WRITTEN = -1;

class WasmEncoder {
  private readonly instance: WasmInstance<WasmExports>;
  private readonly wasm: WasmExports;
  /** The layout in the instance's memory. */
  private layout: TableLayout | null = null;

  constructor() {
    this.instance = new WasmInstance(new URL('encode.wasm', import.meta.url), {
      jsonDepth: LIMITS.jsonDepth,
      valuesPerCell: LIMITS.values,
      hashFactor: randomBytes(8).readBigUInt64LE() | 1n,
      readCell: (column: number, start: number, end: number, to: number) => this.readCell(column, start, end, to),
      readDouble: (start: number, end: number) => Number(this.instance.bytes.toString('latin1', start, end)),
    });
    this.wasm = this.instance.exports;
  }

  /** Bytes of its memory that the last batch has used. */
  get used(): number {
    return this.wasm.rowsEnd.value;
  }

  run(layout: TableLayout, body: Uint8Array, lines: number | null): EncodedBatch | null {
    const { wasm } = this;
    if (!this.use(layout) || !this.store(body, wasm.allocBody(body.length))) return null;
    if (wasm.encode(lines ?? LIMITS.recordsPerBatch, Number(lines !== null)) === 0) return null;
    // A record that spans lines is none of the lines.
    if (lines !== null && wasm.records.value !== lines) return null;
    const [start, end] = [wasm.rows.value, wasm.rowsEnd.value];
    const data = allocBuffer(end - start);
    this.instance.bytes.copy(data, 0, start, end);
    return new EncodedBatch(wasm.records.value, layout.format, this.listedOf(layout), data);
  }

  private use(layout: TableLayout): boolean {
    if (this.layout === layout) return true;
    this.layout = null;
    const { bytes } = layout;
    if (!this.store(bytes, this.wasm.allocLayout(bytes.length)) || this.wasm.useLayout() === 0) return false;
    this.layout = layout;
    return true;
  }

  /** @param address 0: there is no memory */
  private store(bytes: Uint8Array, address: number): boolean {
    if (address !== 0) this.instance.bytes.set(bytes, address);
    return address !== 0;
  }

  /** The indexes of the columns that the rows contain. */
  private listedOf({ columns }: TableLayout): number[] {
    const columnIndexes: number[] = [];
    for (let i = 0; i < columns.length; i++) if (this.wasm.isListed(i) !== 0) columnIndexes.push(i);
    return columnIndexes;
  }

  /**
   * Reads the valid JSON of a rare cell from `start` to `end` in the memory, by the checked path, and writes the cell:
   * in binary to `to`, in text where there is room for it.
   * @returns the bytes written; -1: the checked path must read the batch
   */
  private readCell(index: number, start: number, end: number, to: number): number {
    const { layout } = this;
    const column = layout?.columns[index];
    if (layout === null || column === undefined) return NOT_WRITTEN;
    const cell = readCell(column, readJson(this.instance.bytes.subarray(start, end), 0));
    if (cell === null || cell instanceof CellError) return NOT_WRITTEN;
    return layout.format === 'binary' ? this.writeBinary(column, cell, to) : this.writeText(cell);
  }

  /** Not for times: the checked path writes them as text for Postgres to parse. */
  private writeBinary({ type }: BatchColumn, text: string, to: number): number {
    if (type === 'INTEGER') return this.instance.bytes.writeBigInt64BE(BigInt(text), to) - to;
    return type === 'FLOAT' ? this.instance.bytes.writeDoubleBE(Number(text), to) - to : NOT_WRITTEN;
  }

  /** The encoder then escapes the text. */
  private writeText(text: string): number {
    const length = Buffer.byteLength(text);
    const address = this.wasm.allocText(length);
    return address === 0 ? NOT_WRITTEN : this.instance.bytes.write(text, address);
  }
}
