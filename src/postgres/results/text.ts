/** Values in Postgres's text format: strings, numbers, booleans and JSON (contract section 4). */
import { BACKSLASH, CARRIAGE_RETURN, LINE_FEED, LOWER_T, MINUS, NINE, POINT, QUOTE, SPACE, ZERO } from './ascii.js';
import type { ByteWriter } from './byte-writer.js';

/** RFC 8259 section 7: quote, backslash and U+0000 to U+001F must be escaped. One entry a byte, '' if it may stand. */
const ESCAPES: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  byte < 0x20 || byte === QUOTE || byte === BACKSLASH ? JSON.stringify(String.fromCharCode(byte)).slice(1, -1) : '',
);
/** How many bytes more the escape of a byte has. */
const EXTRA_BYTES = Uint8Array.from(ESCAPES, (escape) => Math.max(0, escape.length - 1));

/** The bytes as they are. */
export function writeVerbatim(input: Buffer, start: number, end: number, out: ByteWriter): void {
  out.copy(input, start, end);
}

/** UTF-8 text as a JSON string. */
export function writeJsonString(input: Buffer, start: number, end: number, out: ByteWriter): void {
  out.byte(QUOTE);
  const from = out.length;
  out.copy(input, start, end);
  escapeJson(from, out);
  out.byte(QUOTE);
}

/**
 * Escapes in place what was written from `from` on, so that it can stand in a JSON string. Copying first and looking
 * then is the fastest way, because nearly every text needs no escape.
 */
export function escapeJson(from: number, out: ByteWriter): void {
  const { bytes, length } = out;
  let extra = 0;
  for (let at = from; at < length; at++) extra += EXTRA_BYTES[bytes[at] as number] as number;
  if (extra > 0) insertEscapes(from, extra, out);
}

/** Moves the bytes from the last to the first, each to its place, so that none is overwritten before it is read. */
function insertEscapes(from: number, extra: number, out: ByteWriter): void {
  let read = out.length - 1;
  out.ensure(extra);
  out.length += extra;
  const { bytes } = out;
  let write = out.length;
  for (; read >= from; read--) {
    const byte = bytes[read] as number;
    const escape = ESCAPES[byte] as string;
    if (escape === '') bytes[--write] = byte;
    else for (let i = escape.length - 1; i >= 0; i--) bytes[--write] = escape.charCodeAt(i);
  }
}

/**
 * JSON text on one line. Inside a JSON string a line break is always escaped, so a raw one is white space between
 * tokens and a space does as well; NDJSON needs a row to stay one line. (`jsonb` never has one, `json` is as sent.)
 */
export function writeJsonOnOneLine(input: Buffer, start: number, end: number, out: ByteWriter): void {
  const from = out.length;
  out.copy(input, start, end);
  for (let at = from; at < out.length; at++) {
    const byte = out.bytes[at];
    if (byte === LINE_FEED || byte === CARRIAGE_RETURN) out.bytes[at] = SPACE;
  }
}

/** `t` and `f` of Postgres. */
export function writeBoolean(input: Buffer, start: number, _end: number, out: ByteWriter): void {
  out.ascii(input[start] === LOWER_T ? 'true' : 'false');
}

/**
 * The text of a bigint or numeric as a JSON number with all its digits, or as a string where it is beyond
 * ±(2^53-1) or not a number (`NaN`, `Infinity`).
 */
export function writeJsonNumber(input: Buffer, start: number, end: number, out: ByteWriter): void {
  const isNumber = isWithinSafeIntegers(input, start, end);
  if (!isNumber) out.byte(QUOTE);
  out.copy(input, start, end);
  if (!isNumber) out.byte(QUOTE);
}

const LARGEST = Buffer.from(String(Number.MAX_SAFE_INTEGER), 'ascii');

/** Compares digits, because a double cannot tell 2^53 - 1 + 0.1 from 2^53 - 1. Postgres writes no leading zeros. */
function isWithinSafeIntegers(input: Buffer, start: number, end: number): boolean {
  const first = input[start] === MINUS ? start + 1 : start;
  if (end - first < LARGEST.length) return isDigit(input[first] as number);
  let point = first;
  while (point < end && input[point] !== POINT) point++;
  const integerDigits = point - first;
  if (integerDigits !== LARGEST.length) return integerDigits < LARGEST.length;
  const order = input.compare(LARGEST, 0, LARGEST.length, first, point);
  return order === 0 ? isAllZeros(input, point + 1, end) : order < 0;
}

function isAllZeros(input: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (input[at] !== ZERO) return false;
  return true;
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}
