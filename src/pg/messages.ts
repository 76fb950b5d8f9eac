/** The messages of the protocol as bytes (Postgres manual 54.7): those that are sent are built, those that come are read. */
import { protocolViolation } from './errors.js';
import { FixedStatement, type Statement } from './sql.js';

/** Bytes of a message, whoever sends it, before its body: type and length. */
export const MESSAGE_HEADER = 5;

const EMPTY = Buffer.alloc(0);

function message(type: string, length: number): { bytes: Buffer; body: number } {
  const bytes = Buffer.allocUnsafe(MESSAGE_HEADER + length);
  bytes.write(type, 0, 'latin1');
  bytes.writeInt32BE(4 + length, 1);
  return { bytes, body: MESSAGE_HEADER };
}

/**
 * Parse; parameter types are left to Postgres.
 * @param name of the prepared statement; '' is the unnamed one
 * @throws Error for U+0000, which would end the text early: whoever lets it come here has a defect
 */
export function parse(text: string, name = ''): Buffer {
  if (text.includes('\0')) throw new Error('SQL text with U+0000');
  const size = Buffer.byteLength(text);
  const { bytes, body } = message('P', name.length + 1 + size + 1 + 2);
  const at = writeCString(bytes, name, body);
  bytes.write(text, at, 'utf8');
  bytes[at + size] = 0;
  bytes.writeInt16BE(0, at + size + 1);
  return bytes;
}

/**
 * Bind a prepared statement to the unnamed portal. Parameters are text or NULL; `resultFormats` has one code per
 * result column (0 text, 1 binary), or is empty for text throughout.
 */
export function bind(params: readonly (string | null)[], resultFormats: readonly number[] = [], name = ''): Buffer {
  const encoded = params.map((value) => (value === null ? null : Buffer.from(value, 'utf8')));
  const size = encoded.reduce((sum, value) => sum + 4 + (value?.length ?? 0), 0);
  const { bytes, body } = message('B', 1 + name.length + 1 + 2 + 2 + size + 2 + 2 * resultFormats.length);
  bytes[body] = 0; // the unnamed portal
  let at = writeCString(bytes, name, body + 1);
  bytes.writeInt16BE(0, at); // every parameter is in text format
  bytes.writeUInt16BE(encoded.length, at + 2);
  at += 4;
  for (const value of encoded) {
    bytes.writeInt32BE(value === null ? -1 : value.length, at);
    at += 4;
    if (value !== null) at += value.copy(bytes, at);
  }
  bytes.writeInt16BE(resultFormats.length, at);
  at += 2;
  for (const format of resultFormats) at = bytes.writeInt16BE(format, at);
  return bytes;
}

/** Execute the unnamed portal; `maxRows` 0 means all. */
export function execute(maxRows = 0): Buffer {
  const { bytes, body } = message('E', 1 + 4);
  bytes[body] = 0;
  bytes.writeInt32BE(maxRows, body + 1);
  return bytes;
}

/** Parse, Bind and Execute of an unnamed statement, its rows as text. Those of a constant one are built once. */
export function runUnnamed(statement: Statement): Buffer {
  if (statement instanceof FixedStatement) return (statement.messages ??= messagesOf(statement));
  return messagesOf(statement);
}

const messagesOf = ({ text, params }: Statement): Buffer => Buffer.concat([parse(text), bind(params), EXECUTE_ALL]);

/** A name of our own, ASCII, with the NUL behind it. @returns the offset behind that */
function writeCString(bytes: Buffer, name: string, at: number): number {
  bytes.write(name, at, 'latin1');
  bytes[at + name.length] = 0;
  return at + name.length + 1;
}

/** Close of a prepared statement. */
export function closeStatement(name: string): Buffer {
  return constant('C', Buffer.from(`S${name}\0`));
}

/** The head of a CopyData message; `length` bytes of data follow it. */
export function copyDataHeader(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(MESSAGE_HEADER);
  bytes.write('d', 0, 'latin1');
  bytes.writeInt32BE(4 + length, 1);
  return bytes;
}

const constant = (type: string, content: Buffer = EMPTY): Buffer => {
  const { bytes, body } = message(type, content.length);
  content.copy(bytes, body);
  return bytes;
};

export const DESCRIBE_STATEMENT = constant('D', Buffer.from('S\0'));
export const DESCRIBE_PORTAL = constant('D', Buffer.from('P\0'));
export const SYNC = constant('S');
export const TERMINATE = constant('X');
export const COPY_DONE = constant('c');
export const COPY_FAIL = constant('f', Buffer.from('COPY has no place here\0'));

export const EXECUTE_ALL = execute();

/** A simple query: any number of statements without parameters, and a Sync of its own. */
export const simpleQuery = (text: string): Buffer => constant('Q', Buffer.from(`${text}\0`));

/** Also the answers of SCRAM. */
export const passwordMessage = (text: string): Buffer => constant('p', Buffer.from(text));

export const saslInitialResponse = (mechanism: string, first: string): Buffer =>
  constant('p', Buffer.concat([Buffer.from(`${mechanism}\0`), int32(Buffer.byteLength(first)), Buffer.from(first)]));

/** A message without a type, of before or instead of a session. */
const untyped = (...parts: Buffer[]): Buffer =>
  Buffer.concat([int32(4 + parts.reduce((sum, part) => sum + part.length, 0)), ...parts]);

const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};

/** Version 3.0 of the protocol. */
const PROTOCOL_VERSION = int32(3 << 16);

export const SSL_REQUEST = untyped(int32(80877103));

/** StartupMessage; parameters without a value are left out. */
export function startup(parameters: Readonly<Record<string, string | undefined>>): Buffer {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== '');
  return untyped(PROTOCOL_VERSION, Buffer.from(`${pairs.flat().join('\0')}\0\0`));
}

/** CancelRequest (Postgres manual 54.2.8), sent on a connection of its own. */
export const cancelMessage = (processId: number, secretKey: Buffer): Buffer =>
  untyped(int32(80877102), int32(processId), secretKey);

/** First bytes of the backend messages that a session understands. */
export const BACKEND = {
  authentication: 0x52, // 'R'
  bindComplete: 0x32, // '2'
  closeComplete: 0x33, // '3'
  commandComplete: 0x43, // 'C'
  copyInResponse: 0x47, // 'G'
  copyOutResponse: 0x48, // 'H'
  dataRow: 0x44, // 'D'
  emptyQuery: 0x49, // 'I'
  error: 0x45, // 'E'
  keyData: 0x4b, // 'K'
  noData: 0x6e, // 'n'
  notice: 0x4e, // 'N'
  parameterDescription: 0x74, // 't'
  parameterStatus: 0x53, // 'S'
  parseComplete: 0x31, // '1'
  readyForQuery: 0x5a, // 'Z'
  rowDescription: 0x54, // 'T'
} as const;

/*
 * What is read below lies in memory where other messages lie too, and behind `end` those of other sessions. Nothing is
 * read from there, whatever the message says of its own lengths.
 */

/** Where the NUL of a string is. @throws ConnectionLost where it has none */
function stringEnd(buffer: Buffer, start: number, end: number): number {
  const stop = buffer.indexOf(0, start);
  if (stop < 0 || stop >= end) throw protocolViolation();
  return stop;
}

/** A NUL-terminated string and the offset behind it. */
function cString(buffer: Buffer, start: number, end: number): [text: string, next: number] {
  const stop = stringEnd(buffer, start, end);
  return [buffer.toString('utf8', start, stop), stop + 1];
}

/** Of each field of an error: a statement can make one of any length. */
const FIELD_BYTES = 8 * 1024;

/** ErrorResponse fields by their one-letter code (Postgres manual 54.8), the longest ones cut. */
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

/** A result column as RowDescription tells it. */
export interface FieldDescription {
  name: string;
  typeOid: number;
  typeModifier: number;
}

export function readRowDescription(buffer: Buffer, start: number, end: number): FieldDescription[] {
  const count = buffer.readUInt16BE(start);
  const fields: FieldDescription[] = [];
  let at = start + 2;
  for (let i = 0; i < count; i++) {
    const [name, next] = cString(buffer, at, end);
    fields.push({ name, typeOid: buffer.readUInt32BE(next + 6), typeModifier: buffer.readInt32BE(next + 12) });
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

/** A DataRow with every field as text. */
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

/** CommandComplete's tag without its NUL. */
export function readTag(buffer: Buffer, start: number, end: number): string {
  return buffer.toString('utf8', start, end - 1);
}

export function readParameterStatus(buffer: Buffer, start: number, end: number): [name: string, value: string] {
  const [name, next] = cString(buffer, start, end);
  return [name, cString(buffer, next, end)[0]];
}
