/** Bytes of the raw wire (Postgres manual, Message Formats; COPY, "Binary Format"). */
import { bind, COPY_DONE, dataMessages, execute, parse, SYNC } from '../dist/pg/messages.js';

const STATEMENT = 'bench';

/** Parse of the statement that {@link runPrepared} and {@link copyBatch} run. */
export const prepare = (sql) => parse(sql, STATEMENT);

/** One prepared statement, parameters as text. */
export const runPrepared = (params) => Buffer.concat([bind(params, [], STATEMENT), execute(), SYNC]);

/** One statement that comes with the request, the unnamed one; parameters as text. */
export const runText = (sql, params = []) => Buffer.concat([parse(sql), bind(params), execute(), SYNC]);

/** A transaction of COPY … FROM STDIN (FORMAT binary), whole. */
export function copyBatch(shape, records) {
  const data = copyBinary(shape, records);
  return Buffer.concat([bind([], [], STATEMENT), execute(), ...dataMessages(data), COPY_DONE, SYNC]);
}

const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const TRAILER = Buffer.from([0xff, 0xff]);

function copyBinary({ columns }, records) {
  const rows = records.map((record) => {
    const count = Buffer.alloc(2);
    count.writeInt16BE(columns.length);
    return [count, ...columns.flatMap(({ name, type }) => field(type, record[name]))];
  });
  return Buffer.concat([SIGNATURE, ...rows.flat(), TRAILER]);
}

const NULL_FIELD = Buffer.from([0xff, 0xff, 0xff, 0xff]);

function field(type, value) {
  if (value === null || value === undefined) return [NULL_FIELD];
  const bytes = BINARY[type](value);
  const length = Buffer.alloc(4);
  length.writeInt32BE(bytes.length);
  return [length, bytes];
}

const POSTGRES_EPOCH_MS = Date.UTC(2000, 0, 1);

/** The values' binary formats, as the types' receive functions take them. */
const BINARY = {
  TEXT: (value) => Buffer.from(value),
  INTEGER: (value) => int64(BigInt(value)),
  FLOAT(value) {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleBE(value);
    return bytes;
  },
  BOOLEAN: (value) => Buffer.from([value ? 1 : 0]),
  TIMESTAMP: (value) => int64(BigInt(Date.parse(value) - POSTGRES_EPOCH_MS) * 1000n),
  JSONB: (value) => Buffer.from(`\x01${JSON.stringify(value)}`),
};

function int64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(value);
  return bytes;
}

/** A value as Postgres reads it in text. */
export const asText = (type, value) => (type === 'JSONB' ? JSON.stringify(value) : String(value));
