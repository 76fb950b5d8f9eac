/** Builds and parses the messages of the protocol (Postgres manual, Message Formats). */
import { protocolViolation } from './errors.js';
import type { Param, Statement } from './sql-tag.js';

/** The bytes before the body of a message: type and length. */
export const MESSAGE_HEADER = 5;

export function int32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  values.forEach((value, i) => bytes.writeInt32BE(value, 4 * i));
  return bytes;
}

const sizeOf = (parts: readonly Buffer[]): number => parts.reduce((sum, part) => sum + part.length, 0);

/** The header for a body of this length. */
function header(type: string, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(MESSAGE_HEADER);
  bytes.write(type, 0, 'latin1');
  bytes.writeInt32BE(4 + length, 1);
  return bytes;
}

/** @param parts of its body */
export const message = (type: string, ...parts: Buffer[]): Buffer =>
  Buffer.concat([header(type, sizeOf(parts)), ...parts]);

/**
 * Parse; Postgres infers the types of parameters.
 * @param name of the prepared statement; '' is the unnamed one
 * @throws Error for U+0000, which would end the text early: a bug in the caller
 */
export function parse(text: string, name = ''): Buffer {
  if (text.includes('\0')) throw new Error('SQL text with U+0000');
  // The final int16: no parameter types follow.
  return message('P', Buffer.from(`${name}\0${text}\0\0\0`));
}

/**
 * Binds a prepared statement to the unnamed portal. `resultFormats` has one code per result column (0 text, 1 binary);
 * if empty, all are text.
 */
export function bind(params: readonly Param[], resultFormats: readonly number[] = [], name = ''): Buffer {
  const encoded = params.map((value) => (typeof value === 'string' ? Buffer.from(value, 'utf8') : value));
  // Without format codes, all are text.
  const formats = params.some((value) => value instanceof Uint8Array)
    ? params.map((value) => Number(value instanceof Uint8Array))
    : [];
  const size = encoded.reduce((sum, value) => sum + 4 + (value?.length ?? 0), 2 * formats.length);
  const bytes = Buffer.allocUnsafe(1 + name.length + 1 + 2 + 2 + size + 2 + 2 * resultFormats.length);
  let at = bytes.write(`\0${name}\0`, 'latin1'); // the unnamed portal, and the statement
  at = bytes.writeUInt16BE(formats.length, at);
  for (const format of formats) at = bytes.writeInt16BE(format, at);
  at = bytes.writeUInt16BE(encoded.length, at);
  for (const value of encoded) {
    at = bytes.writeInt32BE(value === null ? -1 : value.length, at);
    if (value === null) continue;
    bytes.set(value, at);
    at += value.length;
  }
  bytes.writeInt16BE(resultFormats.length, at);
  at += 2;
  for (const format of resultFormats) at = bytes.writeInt16BE(format, at);
  return message('B', bytes);
}

/** Execute the unnamed portal; `maxRows` 0 means all. */
export const execute = (maxRows = 0): Buffer => message('E', Buffer.from('\0'), int32(maxRows));

/** Parse, Bind and Execute of an unnamed statement, with rows in text format. */
export const runUnnamed = ({ text, params }: Statement): Buffer =>
  Buffer.concat([parse(text), bind(params), EXECUTE_ALL]);

/** Closes a prepared statement. */
export const closeStatement = (name: string): Buffer => message('C', Buffer.from(`S${name}\0`));

export const DESCRIBE_STATEMENT = message('D', Buffer.from('S\0'));
export const DESCRIBE_PORTAL = message('D', Buffer.from('P\0'));
export const SYNC = message('S');
export const TERMINATE = message('X');
export const COPY_DONE = message('c');
export const copyFail = (reason: string): Buffer => message('f', Buffer.from(`${reason}\0`));

export const EXECUTE_ALL = execute();

/** The header of a CopyData message; `length` bytes of data follow it. */
const copyDataHeader = (length: number): Buffer => header('d', length);

/** Precedes the rows in binary format: signature, flags, length of an absent extension (Postgres manual, COPY). */
const BINARY_HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** Follows the rows in binary format. */
const BINARY_TRAILER = Buffer.from([0xff, 0xff]);

/**
 * The size of a CopyData message, which need not end with a row. Postgres reads a whole message into memory and reports
 * progress after each, so long data is sent in several.
 */
const MESSAGE_BYTES = 64 * 1024;

/**
 * The messages with the rows for `COPY … FROM STDIN`.
 * @param rows in one format, without COPY's header and trailer
 */
export function copyMessages(rows: readonly Uint8Array[], isBinary: boolean): Uint8Array[] {
  const data: readonly Uint8Array[] = isBinary ? [BINARY_HEADER, ...rows, BINARY_TRAILER] : rows;
  const length = data.reduce((sum, part) => sum + part.length, 0);
  if (length <= MESSAGE_BYTES) return [copyDataHeader(length), ...data, COPY_DONE];
  return [...data.flatMap(dataMessages), COPY_DONE];
}

/** The CopyData messages with one part of the data. */
export function dataMessages(part: Uint8Array): Uint8Array[] {
  const messages: Uint8Array[] = [];
  for (let at = 0; at < part.length; at += MESSAGE_BYTES) {
    const piece = part.subarray(at, at + MESSAGE_BYTES);
    messages.push(copyDataHeader(piece.length), piece);
  }
  return messages;
}

/** A simple query: any number of statements without parameters. It needs no Sync. */
export const simpleQuery = (text: string): Buffer => message('Q', Buffer.from(`${text}\0`));

/** Also carries the messages of SCRAM. */
export const passwordMessage = (text: string): Buffer => message('p', Buffer.from(text));

export const saslInitialResponse = (mechanism: string, first: string): Buffer =>
  message('p', Buffer.from(`${mechanism}\0`), int32(Buffer.byteLength(first)), Buffer.from(first));

/** A message without a type, sent before or instead of a session. */
const untyped = (...parts: Buffer[]): Buffer => Buffer.concat([int32(4 + sizeOf(parts)), ...parts]);

/** Version 3.0 of the protocol. */
const PROTOCOL_VERSION = int32(3 << 16);

export const SSL_REQUEST = untyped(int32(80877103));

/** StartupMessage; parameters without a value are omitted. */
export function startup(parameters: Readonly<Record<string, string | undefined>>): Buffer {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== '');
  return untyped(PROTOCOL_VERSION, Buffer.from(`${pairs.flat().join('\0')}\0\0`));
}

/** CancelRequest (Postgres manual, Canceling Requests in Progress), sent on a separate connection. */
export const cancelMessage = (processId: number, secretKey: Buffer): Buffer =>
  untyped(int32(80877102, processId), secretKey);

/** Type bytes of the backend messages that a session handles. */
export const BACKEND = {
  authentication: 0x52, // 'R'
  commandComplete: 0x43, // 'C'
  copyData: 0x64, // 'd'
  copyInResponse: 0x47, // 'G'
  copyOutResponse: 0x48, // 'H'
  dataRow: 0x44, // 'D'
  emptyQuery: 0x49, // 'I'
  error: 0x45, // 'E'
  keyData: 0x4b, // 'K'
  notice: 0x4e, // 'N'
  parameterDescription: 0x74, // 't'
  parameterStatus: 0x53, // 'S'
  readyForQuery: 0x5a, // 'Z'
  rowDescription: 0x54, // 'T'
} as const;

/** Type bytes of a client's messages. */
export const FRONTEND = {
  bind: 0x42, // 'B'
  close: 0x43, // 'C'
  copyData: 0x64, // 'd'
  copyDone: 0x63, // 'c'
  copyFail: 0x66, // 'f'
  describe: 0x44, // 'D'
  execute: 0x45, // 'E'
  flush: 0x48, // 'H'
  functionCall: 0x46, // 'F'
  parse: 0x50, // 'P'
  password: 0x70, // 'p'
  query: 0x51, // 'Q'
  sync: 0x53, // 'S'
  terminate: 0x58, // 'X'
} as const;

/* The messages read below share a buffer with others, and the bytes after `end` may belong to other sessions. They are
   never read, even if a message contains wrong lengths. */

/**
 * The position of a string's NUL.
 * @throws ConnectionLost if there is none
 */
function stringEnd(buffer: Buffer, start: number, end: number): number {
  const stop = buffer.indexOf(0, start);
  if (stop < 0 || stop >= end) throw protocolViolation();
  return stop;
}

/** A NUL-terminated string, and the offset after it. */
function cString(buffer: Buffer, start: number, end: number): [text: string, next: number] {
  const stop = stringEnd(buffer, start, end);
  return [buffer.toString('utf8', start, stop), stop + 1];
}

/** Limit for each field of an error, because a statement can make a field of any length. */
const FIELD_BYTES = 8 * 1024;

/**
 * The fields of an ErrorResponse by their one-letter codes (Postgres manual, Error and Notice Message Fields). Long
 * ones are cut.
 */
export function readErrorFields(buffer: Buffer, start: number, end: number): Map<string, string> {
  const fields = new Map<string, string>();
  for (let at = start; at < end && buffer[at] !== 0;) {
    const key = String.fromCharCode(buffer[at] as number);
    const stop = stringEnd(buffer, at + 1, end);
    const cut = stop - at - 1 > FIELD_BYTES;
    fields.set(key, buffer.toString('utf8', at + 1, cut ? at + 1 + FIELD_BYTES : stop) + (cut ? '…' : ''));
    at = stop + 1;
  }
  return fields;
}

/** A result column, as in RowDescription. */
export interface FieldDescription {
  name: string;
  /** The table's column that it shows; both are 0 if it shows none. */
  tableOid: number;
  columnNumber: number;
  typeOid: number;
  /** In bytes; negative if it varies. */
  typeSize: number;
  typeModifier: number;
}

export function readRowDescription(buffer: Buffer, start: number, end: number): FieldDescription[] {
  const count = buffer.readUInt16BE(start);
  const fields: FieldDescription[] = [];
  let at = start + 2;
  for (let i = 0; i < count; i++) {
    const [name, next] = cString(buffer, at, end);
    fields.push({
      name,
      tableOid: buffer.readUInt32BE(next),
      columnNumber: buffer.readInt16BE(next + 4),
      typeOid: buffer.readUInt32BE(next + 6),
      typeSize: buffer.readInt16BE(next + 10),
      typeModifier: buffer.readInt32BE(next + 12),
    });
    at = next + 18;
  }
  if (at !== end) throw protocolViolation();
  return fields;
}

export function readParameterOids(buffer: Buffer, start: number, end: number): number[] {
  const count = buffer.readUInt16BE(start);
  if (start + 2 + 4 * count !== end) throw protocolViolation();
  return Array.from({ length: count }, (_, i) => buffer.readUInt32BE(start + 2 + 4 * i));
}

/** A DataRow with every field in text format. */
export function readTextRow(buffer: Buffer, start: number, end: number): (string | null)[] {
  const count = buffer.readUInt16BE(start);
  const row: (string | null)[] = [];
  let at = start + 2;
  for (let i = 0; i < count; i++) {
    const length = buffer.readInt32BE(at);
    at += 4;
    if (at + length > end) throw protocolViolation();
    row.push(length < 0 ? null : buffer.toString('utf8', at, at + length));
    if (length > 0) at += length;
  }
  if (at !== end) throw protocolViolation();
  return row;
}

export function readTag(buffer: Buffer, start: number, end: number): string {
  return buffer.toString('utf8', start, end - 1);
}

export function readParameterStatus(buffer: Buffer, start: number, end: number): [name: string, value: string] {
  const [name, next] = cString(buffer, start, end);
  return [name, cString(buffer, next, end)[0]];
}

/** Shorter parts are joined: copying them costs less than writing one more part. */
const LARGE_PART = 16 * 1024;

/** @returns the same bytes in fewer parts; large parts are not copied */
export function joinSmall(parts: readonly Uint8Array[]): Uint8Array[] {
  const joined: Uint8Array[] = [];
  let small: Uint8Array[] = [];
  const join = () => {
    if (small.length > 0) joined.push(small.length === 1 ? (small[0] as Uint8Array) : Buffer.concat(small));
    small = [];
  };
  for (const part of parts) {
    if (part.length < LARGE_PART) small.push(part);
    else {
      join();
      joined.push(part);
    }
  }
  join();
  return joined;
}

/** Status byte of ReadyForQuery: no transaction block is open. */
export const IDLE = 0x49; // 'I'

/** The lowest oid of objects that users create (FirstNormalObjectId); those below are built in. */
export const FIRST_NORMAL_OID = 16_384;

/**
 * Parses CommandComplete's tag (Postgres manual, Message Formats): `INSERT 0 5` is INSERT and 5. `count` is undefined
 * if the tag has none.
 */
export function readCommandTag(tag: string): { type: string; count: number | undefined } {
  const typeEnd = tag.search(/ \d/);
  if (typeEnd < 0) return { type: tag, count: undefined };
  return { type: tag.slice(0, typeEnd), count: Number(tag.slice(tag.lastIndexOf(' ') + 1)) };
}
