/** Rows built by hand and encoded, for the tests in this folder. */
import { expect } from 'vitest';
import { type Numbers, type ResultColumn, rowEncoder, type RowMode } from '../../../src/codec/index.js';
import { outputNames, type RowFormat } from '../../../src/codec/results/result-columns.js';
import { ELEMENT } from '../../../src/codec/results/assembly/kinds.js';
import { plainText } from '../../../src/codec/results/type-encoder.js';
import { encoderOf } from '../../../src/codec/results/types.js';
import { arrayOf } from './array-reference.js';

export type Field = string | Buffer | null;

export function column(name: string, typeOid: number): ResultColumn {
  return { name, typeOid, typeModifier: -1 };
}

/** A DataRow message, between other bytes that no encoder may touch. */
export function dataRow(fields: readonly Field[]): { message: Buffer; start: number; end: number } {
  const parts: Buffer[] = [int16(fields.length)];
  for (const field of fields) {
    const bytes = field === null ? Buffer.alloc(0) : Buffer.from(field as string);
    parts.push(int32(field === null ? -1 : bytes.length), bytes);
  }
  const body = Buffer.concat(parts);
  const message = Buffer.concat([Buffer.from('before'), Buffer.from('D'), int32(4 + body.length), body]);
  return { message: Buffer.concat([message, Buffer.from('.behind')]), start: 6, end: message.length };
}

/** What the encoder makes of one row, which is what the encoders of the types make of it. */
export function encode(
  columns: readonly ResultColumn[],
  format: RowFormat,
  mode: RowMode,
  message: Buffer,
  start: number,
  end = message.length,
  numbers?: Numbers,
): string {
  const { bytes, count } = rowEncoder(columns, format, mode, numbers).encode(message, start, end, 1, ANY_LENGTH);
  expect(count).toBe(1);
  const text = bytes.toString();
  expect(text).toBe(byTypes(columns, format, mode, message, start + HEADER, numbers));
  return text;
}

const ANY_LENGTH = 2 ** 24;

/** Type, length, count of fields. */
const HEADER = 7;

/** The row whose first field's length is at `at`, without WebAssembly. */
function byTypes(
  columns: readonly ResultColumn[],
  format: RowFormat,
  mode: RowMode,
  message: Buffer,
  at: number,
  numbers: Numbers | undefined,
) {
  const isAlone = columns.length === 1;
  const values = columns.map(({ typeOid }) => {
    const length = message.readInt32BE(at);
    const start = at + 4;
    at = start + Math.max(0, length);
    if (length < 0) return format === 'csv' ? '' : 'null';
    const written = encoderOf(typeOid, numbers);
    const encoder = written.kind > ELEMENT ? arrayOf(written) : written;
    const plain = plainText(encoder, message.subarray(start, at));
    if (format !== 'csv') return encoder.json(plain);
    const isQuoted = plain === '' || /[",\r\n]/.test(plain) || (isAlone && plain === '\\.');
    return isQuoted ? `"${plain.replaceAll('"', '""')}"` : plain;
  });
  if (format === 'csv') return `${values.join()}\n`;
  const names = outputNames(columns);
  const row =
    mode === 'array' ? `[${values.join()}]` : `{${values.map((v, i) => `${JSON.stringify(names[i])}:${v}`).join()}}`;
  return format === 'list' ? `,${row}` : `${row}\n`;
}

export function jsonRow(columns: readonly ResultColumn[], fields: readonly Field[], mode: RowMode = 'object'): string {
  const { message, start } = dataRow(fields);
  return encode(columns, 'lines', mode, message, start).slice(0, -1);
}

export function csvRow(columns: readonly ResultColumn[], fields: readonly Field[]): string {
  const { message, start } = dataRow(fields);
  return encode(columns, 'csv', 'array', message, start);
}

/** One value of a type as JSON. */
export function json(typeOid: number, value: Field, numbers?: Numbers): string {
  const { message, start } = dataRow([value]);
  return encode([column('v', typeOid)], 'lines', 'array', message, start, message.length, numbers).slice(1, -2);
}

/** One value of a type as a CSV field beside another. */
export function csv(typeOid: number, value: Field): string {
  return csvRow([column('v', typeOid), column('w', typeOid)], [value, null]).slice(0, -2);
}

export function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

export function int64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(value);
  return bytes;
}

export function float8(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return bytes;
}

export function float4(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatBE(value);
  return bytes;
}

/** oids of pg_type. */
export const OID = {
  bool: 16,
  bytea: 17,
  char: 18,
  int8: 20,
  int2: 21,
  int4: 23,
  text: 25,
  oid: 26,
  json: 114,
  float4: 700,
  float8: 701,
  money: 790,
  date: 1082,
  timestamp: 1114,
  timestamptz: 1184,
  interval: 1186,
  numeric: 1700,
  uuid: 2950,
  jsonb: 3802,
  tsrange: 3908,
  boolArray: 1000,
  int4Array: 1007,
  textArray: 1009,
  int8Array: 1016,
  float8Array: 1022,
  timestamptzArray: 1185,
  numericArray: 1231,
  jsonArray: 199,
  jsonbArray: 3807,
  /** Types that a project makes have oids from 16384 on. */
  ownEnum: 16_400,
  ownEnumArray: 16_401,
} as const;
