/** Values in Postgres's text format: strings, numbers, booleans and JSON (contract section 4). */
import { CARRIAGE_RETURN, LINE_FEED, LOWER_T, MINUS, NINE, POINT, QUOTE, SPACE, ZERO } from './ascii.js';
import type { ByteWriter } from './byte-writer.js';
import { escapeJson } from './escape.js';
import { quoted } from './value.js';

/** The bytes as they are. */
export function writeVerbatim(input: Buffer, start: number, end: number, out: ByteWriter): void {
  out.copy(input, start, end);
}

/** Text without a character to escape as a JSON string. */
export const writeQuoted = quoted(writeVerbatim);

/** UTF-8 text as a JSON string. */
export function writeJsonString(input: Buffer, start: number, end: number, out: ByteWriter): void {
  out.byte(QUOTE);
  const from = out.length;
  out.copy(input, start, end);
  escapeJson(from, out);
  out.byte(QUOTE);
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

/** Numbers of fewer characters are within the bound. */
const SAFE_DIGITS = LARGEST.length;

/** Compares digits, because a double cannot tell 2^53 - 1 + 0.1 from 2^53 - 1. Postgres writes no leading zeros. */
function isWithinSafeIntegers(input: Buffer, start: number, end: number): boolean {
  const first = input[start] === MINUS ? start + 1 : start;
  if (end - first < SAFE_DIGITS) return isDigit(input[first] as number);
  let point = first;
  while (point < end && input[point] !== POINT) point++;
  const integerDigits = point - first;
  if (integerDigits !== SAFE_DIGITS) return integerDigits < SAFE_DIGITS;
  const order = input.compare(LARGEST, 0, SAFE_DIGITS, first, point);
  return order === 0 ? isAllZeros(input, point + 1, end) : order < 0;
}

function isAllZeros(input: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (input[at] !== ZERO) return false;
  return true;
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}
