/**
 * Encodes rows of a result as bytes of a response, directly from the bytes of DataRow messages, without an object or a
 * string per row. WebAssembly (`assembly/rows.ts`) splits the messages and writes the values of all common types; for
 * other values it calls the encoder of their type ({@link TypeEncoder}).
 */
import { isUtf8 } from 'node:buffer';
import { allocBuffer } from '../buffers.js';
import { AS_CSV, AS_CSV_ALONE, AS_JSON, ELEMENT } from './assembly/kinds.js';
import { encodeLongRow } from './long-rows.js';
import { outputNames, type ResultColumn, type RowFormat, type RowMode } from './result-columns.js';
import { MalformedRow, plainText, TEXT_FORMAT, type TypeEncoder } from './type-encoder.js';
import { encoderOf, type Values } from './types.js';
import { WasmInstance } from '../wasm.js';

/** Rows in their own memory. */
export interface EncodedRows {
  readonly bytes: Buffer;
  readonly count: number;
  /** The offset of the first message not taken. */
  readonly end: number;
}

export interface RowEncoder {
  /**
   * The format codes for Bind: 1 (binary) if the text of a type depends on settings that a statement can change,
   * otherwise 0.
   */
  readonly formats: readonly (0 | 1)[];
  /** Precedes the rows: in CSV the names of the columns as the first record, in JSON nothing. */
  readonly header: Buffer;
  /**
   * Encodes the rows of complete messages in `buffer[start, end)`, the first of which is a DataRow: at least one,
   * however long it becomes, and at most `maxRows`.
   * @param maxBytes limit for several rows together
   * @throws Error if Postgres violates its protocol
   */
  encode(buffer: Buffer, start: number, end: number, maxRows: number, maxBytes: number): EncodedRows;
  /**
   * Encodes a row in a thread, however long it becomes.
   * @param message a complete DataRow with memory of its own, which is taken away
   * @throws Error if Postgres violates its protocol
   */
  encodeLong(message: Uint8Array<ArrayBuffer>): Promise<EncodedRows>;
}

export function rowEncoder(
  columns: readonly ResultColumn[],
  format: RowFormat,
  mode: RowMode,
  values?: Values,
): RowEncoder {
  const encoders = columns.map(({ typeOid }) => encoderOf(typeOid, values));
  const names = outputNames(columns);
  const layout: RowLayout = format === 'csv' ? csvLayout(encoders) : jsonLayout(encoders, names, format, mode);
  return {
    formats: encoders.map((encoder) => encoder.format),
    header: format === 'csv' ? csvHeader(names) : Buffer.alloc(0),
    encode: (buffer, start, end, maxRows, maxBytes) => run(layout, buffer, start, end, maxRows, maxBytes),
    encodeLong: async (message) => {
      const end = message.length;
      return { bytes: await encodeLongRow({ message, columns, format, mode, values }), count: 1, end };
    },
  };
}

function csvHeader(names: readonly string[]): Buffer {
  const isAlone = names.length === 1;
  const fields = names.map((name) =>
    name === '' || /[",\r\n]/.test(name) || (isAlone && name === '\\.') ? `"${name.replaceAll('"', '""')}"` : name,
  );
  return Buffer.from(`${fields.join()}\n`);
}

/** How to write the rows of one result. */
interface RowLayout {
  /** In the format that `assembly/rows.ts` reads. */
  readonly bytes: Uint8Array;
  /** For values that WebAssembly does not write. */
  readonly encoders: readonly TypeEncoder[];
  readonly isJson: boolean;
}

function jsonLayout(encoders: readonly TypeEncoder[], names: string[], format: RowFormat, mode: RowMode): RowLayout {
  const open = `${format === 'list' ? ',' : ''}${mode === 'object' ? '{' : '['}`;
  const close = `${mode === 'object' ? '}' : ']'}${format === 'lines' ? '\n' : ''}`;
  const keys = names.map((name, i) => `${i === 0 ? open : ','}${mode === 'object' ? `${JSON.stringify(name)}:` : ''}`);
  return {
    bytes: planBytes(encoders, AS_JSON, keys, names.length === 0 ? open + close : close),
    encoders,
    isJson: true,
  };
}

function csvLayout(encoders: readonly TypeEncoder[]): RowLayout {
  const keys = encoders.map((_, i) => (i === 0 ? '' : ','));
  return {
    bytes: planBytes(encoders, encoders.length === 1 ? AS_CSV_ALONE : AS_CSV, keys, '\n'),
    encoders,
    isJson: false,
  };
}

function planBytes(encoders: readonly TypeEncoder[], format: number, keys: readonly string[], ending: string): Buffer {
  const keyBytes = keys.map((key) => Buffer.from(key));
  const words = [encoders.length, format, ending.length, 0, Buffer.concat(keyBytes).length];
  encoders.forEach(({ kind }, i) => words.push(kind, keyBytes[i]?.length ?? 0));
  const head = Buffer.from(Int32Array.from(words).buffer);
  head.write(ending, 12);
  return Buffer.concat([head, ...keyBytes]);
}

/** Addresses are offsets in its memory. */
interface WasmExports {
  readonly memory: { readonly buffer: ArrayBuffer };
  allocLayout(length: number): number;
  allocMessages(length: number): number;
  allocValue(length: number): number;
  encode(end: number, maxRows: number, maxBytes: number): number;
  readonly rows: { readonly value: number };
  readonly read: { readonly value: number };
  readonly count: { readonly value: number };
}

/** Bytes of messages taken at once, unless one is longer; and bytes written at once, unless a row is longer. */
const MESSAGE_BYTES = 128 * 1024;
const ROW_BYTES = 1024 * 1024;

/** WebAssembly memory never shrinks, so an instance that has taken more, for very long rows, is discarded. */
const KEPT_BYTES = 8 * 1024 * 1024;

let instance: WasmInstance<WasmExports> | null = null;
/** The layout in the instance's memory. */
let current: RowLayout | null = null;

/** Never waits, so one instance serves all results. */
function run(
  layout: RowLayout,
  buffer: Buffer,
  start: number,
  end: number,
  maxRows: number,
  maxBytes: number,
): EncodedRows {
  instance ??= new WasmInstance<WasmExports>(new URL('rows.wasm', import.meta.url), { writeValue });
  const { exports: wasm } = instance;
  if (layout !== current) {
    const address = wasm.allocLayout(layout.bytes.length);
    instance.bytes.set(layout.bytes, address);
    current = layout;
  }
  const first = 1 + buffer.readUInt32BE(start + 1);
  const size = Math.min(end - start, Math.max(first, MESSAGE_BYTES));
  const messages = wasm.allocMessages(size);
  buffer.copy(instance.bytes, messages, start, start + size);
  const written = wasm.encode(messages + size, maxRows, Math.min(maxBytes, ROW_BYTES));
  const [count, read] = [wasm.count.value, wasm.read.value - messages];
  if (count === 0) throw new MalformedRow();
  const bytes = allocBuffer(written);
  instance.bytes.copy(bytes, 0, wasm.rows.value, wasm.rows.value + written);
  if (instance.bytes.length > KEPT_BYTES) instance = current = null;
  return { bytes, count, end: start + read };
}

function writeValue(column: number, start: number, end: number): number {
  const encoder = current?.encoders[column];
  if (instance === null || current === null || encoder === undefined) throw new Error('No rows are being written');
  const value = instance.bytes.subarray(start, end);
  // Text that is not UTF-8 is not decoded, so that the caller can detect it.
  if (encoder.format === TEXT_FORMAT && !isUtf8(value)) {
    // The memory may grow, and then `value` is empty.
    const bytes = Buffer.from(value);
    const address = instance.exports.allocValue(bytes.length);
    bytes.copy(instance.bytes, address);
    return bytes.length;
  }
  const plain = plainText(encoder, value);
  const text = current.isJson || encoder.kind > ELEMENT ? encoder.json(plain) : plain;
  const address = instance.exports.allocValue(Buffer.byteLength(text));
  return instance.bytes.write(text, address);
}
