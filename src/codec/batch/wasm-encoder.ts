/**
 * Runs the encoder of batches, `assembly/encode.ts`, which the build compiles to WebAssembly. It has its own memory: a
 * body is copied into it, and rows out of it. For single rare cells it calls {@link readCell}, so that there is only
 * one grammar. A call never waits, so one instance serves all tables.
 */
import { randomBytes } from 'node:crypto';
import { LIMITS } from '../../contract/limits.js';
import { readJson } from '../json/read-json.js';
import { allocBuffer } from '../buffers.js';
import { readCell } from './cell.js';
import { CellError } from './cell-error.js';
import type { BatchColumn } from './column.js';
import { EncodedBatch } from './encoded-batch.js';
import type { Program } from './program.js';
import { WasmInstance } from '../wasm.js';

interface Global {
  readonly value: number;
}

/** The exports of the encoder. An address is an offset in its memory; 0 means none, or false. */
interface WasmExports {
  readonly memory: { readonly buffer: ArrayBuffer };
  placeProgram(length: number): number;
  useProgram(): number;
  placeBatch(length: number): number;
  encode(): number;
  hasColumn(index: number): number;
  placeText(length: number): number;
  readonly records: Global;
  readonly rows: Global;
  readonly rowsEnd: Global;
  /** While this does not change, neither do the results of {@link hasColumn}. */
  readonly placement: Global;
}

/**
 * WebAssembly memory never shrinks, so an instance that has used more than this is discarded. The largest body and its
 * rows take less, unless it consists of escapes. Fresh memory costs ten times as much as writing to used memory.
 */
const KEPT_BYTES = 32 * 1024 * 1024;

const NOT_HERE = -1;

let instance: WasmEncoder | null = null;

/** @returns null: the checked path must read the batch */
export function runProgram(program: Program, body: Uint8Array): EncodedBatch | null {
  instance ??= new WasmEncoder();
  const batch = instance.run(program, body);
  if (instance.used > KEPT_BYTES) instance = null;
  return batch;
}

class WasmEncoder {
  private readonly instance: WasmInstance<WasmExports>;
  private readonly wasm: WasmExports;
  /** The program in the instance's memory. */
  private program: Program | null = null;
  /** The columns of the last batch; null: it had another program. */
  private columns: readonly number[] | null = null;
  private placement = 0;

  constructor() {
    this.instance = new WasmInstance(new URL('encode.wasm', import.meta.url), {
      recordsPerBatch: LIMITS.recordsPerBatch,
      jsonDepth: LIMITS.jsonDepth,
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

  run(program: Program, body: Uint8Array): EncodedBatch | null {
    const { wasm } = this;
    if (!this.use(program) || !this.place(body, wasm.placeBatch(body.length)) || wasm.encode() === 0) return null;
    const [start, end] = [wasm.rows.value, wasm.rowsEnd.value];
    const data = allocBuffer(end - start);
    this.instance.bytes.copy(data, 0, start, end);
    return new EncodedBatch(wasm.records.value, program.format, this.columnsOf(program), data);
  }

  private use(program: Program): boolean {
    if (this.program === program) return true;
    this.program = null;
    this.columns = null;
    const { bytes } = program;
    if (!this.place(bytes, this.wasm.placeProgram(bytes.length)) || this.wasm.useProgram() === 0) return false;
    this.program = program;
    return true;
  }

  /** @param address 0: there is no memory */
  private place(bytes: Uint8Array, address: number): boolean {
    if (address !== 0) this.instance.bytes.set(bytes, address);
    return address !== 0;
  }

  /** Usually returns the array of the previous batch. */
  private columnsOf({ columns }: Program): readonly number[] {
    const placement = this.wasm.placement.value;
    if (this.columns === null || this.placement !== placement) {
      this.placement = placement;
      this.columns = [...columns.keys()].filter((index) => this.wasm.hasColumn(index) !== 0);
    }
    return this.columns;
  }

  /**
   * Reads the valid JSON of a rare cell from `start` to `end` in the memory, by the checked path, and writes the cell:
   * in binary to `to`, in text where there is room for it.
   * @returns the bytes written; -1: the checked path must read the batch
   */
  private readCell(index: number, start: number, end: number, to: number): number {
    const { program } = this;
    const column = program?.columns[index];
    if (program === null || column === undefined) return NOT_HERE;
    const cell = readCell(column, readJson(this.instance.bytes.subarray(start, end), undefined, 0));
    if (cell === null || cell instanceof CellError) return NOT_HERE;
    return program.format === 'binary' ? this.writeBinary(column, cell, to) : this.writeText(cell);
  }

  /** Not for times: the checked path writes them as text for Postgres to parse. */
  private writeBinary({ type }: BatchColumn, text: string, to: number): number {
    if (type === 'INTEGER') return this.instance.bytes.writeBigInt64BE(BigInt(text), to) - to;
    return type === 'FLOAT' ? this.instance.bytes.writeDoubleBE(Number(text), to) - to : NOT_HERE;
  }

  /** Places the text; the instance then escapes it. */
  private writeText(text: string): number {
    const length = Buffer.byteLength(text);
    const address = this.wasm.placeText(length);
    return address === 0 ? NOT_HERE : this.instance.bytes.write(text, address);
  }
}
