/** Values of each kind, as JSON and as CSV (contract C5.14 to C5.16, C14.12). */
import { writeFewDecimals, writeReal } from './decimals';
import { writeValue } from './host';
import {
  AS_JSON,
  BOOLEAN,
  BYTEA,
  DATE,
  FLOAT4,
  FLOAT8,
  JSON_LINE,
  JSON_LINES,
  NUMBER,
  OTHER,
  PLAIN,
  RAW_NUMBER,
  SMALL_NUMBER,
  TEXT,
  TIMESTAMP,
  TIMESTAMPTZ,
} from './kinds';
import { copy, reserveMore } from './memory';
import { BACKSLASH, MINUS, POINT, QUOTE, writeField, writeOnOneLine, writeString, ZERO } from './text';
import { writeDate, writeTimestamp, writeTimestampTz } from './times';

/** Maximum length of an escape of one byte of text: `\u0000`. */
export const MAX_ESCAPE_BYTES: usize = 6;
/** Room for a value that is not text, and the syntax around it. */
export const FIXED_BYTES: usize = 48;

const LOWER_T: u32 = 0x74;
const LOWER_X: u32 = 0x78;
const TRUE: u32 = 0x65757274;
const FALS: u32 = 0x736c6166;
const LOWER_E: u32 = 0x65;

/** Digits of 2^53 - 1: numbers with fewer digits before the point are numbers in JSON, those with more are strings. */
const SAFE_DIGITS: usize = 16;
const MAX_SAFE_INTEGER: u64 = 9_007_199_254_740_991;

/** @returns the position after the value */
export function writeCell(kind: u32, format: u32, column: u32, from: usize, end: usize, to: usize): usize {
  const size = end - from;
  const isJson = format == AS_JSON;
  switch (kind) {
    case TEXT:
      return isJson ? writeString(from, end, to) : writeField(from, end, format, to);
    case JSON_LINE:
      if (!isJson) return writeField(from, end, format, to);
      copy(from, to, size);
      return to + size;
    case JSON_LINES:
      if (isJson) return writeOnOneLine(from, end, to);
      // The length does not change.
      writeOnOneLine(from, end, from);
      return writeField(from, end, format, to);
    case RAW_NUMBER:
      return writePlain(from, size, isJson && !isNumber(from), to);
    case NUMBER: {
      if (!isJson) return writePlain(from, size, false, to);
      if (!isNumber(from)) break;
      const digits = integerDigits(from, end);
      let isUnsafe = digits > SAFE_DIGITS;
      if (digits == SAFE_DIGITS) {
        const whole = firstDigits(from);
        // The digits after the point decide.
        if (whole == MAX_SAFE_INTEGER) break;
        isUnsafe = whole > MAX_SAFE_INTEGER;
      }
      return writePlain(from, size, isUnsafe, to);
    }
    case PLAIN:
      return writePlain(from, size, isJson, to);
    case SMALL_NUMBER:
      copy(from, to, size);
      return to + size;
    case BOOLEAN: {
      checkSize(size, 1);
      const isTrue = load<u8>(from) == LOWER_T;
      store<u32>(to, isTrue ? TRUE : FALS);
      store<u8>(to + 4, LOWER_E);
      return to + (isTrue ? 4 : 5);
    }
    case BYTEA:
      return writeBytea(from, end, isJson, to);
    case FLOAT8: {
      checkSize(size, 8);
      const after = writeFewDecimals(reinterpret<f64>(bswap(load<u64>(from))), to);
      if (after != 0) return after;
      break;
    }
    case FLOAT4: {
      checkSize(size, 4);
      const after = writeReal(reinterpret<f32>(bswap(load<u32>(from))), to);
      if (after != 0) return after;
      break;
    }
    case TIMESTAMPTZ:
    case TIMESTAMP:
    case DATE: {
      checkSize(size, kind == DATE ? 4 : 8);
      const start = isJson ? to + 1 : to;
      const after =
        kind == DATE
          ? writeDate(bswap(load<i32>(from)), start)
          : kind == TIMESTAMP
            ? writeTimestamp(bswap(load<i64>(from)), start)
            : writeTimestampTz(bswap(load<i64>(from)), start);
      if (after == 0) break;
      if (!isJson) return after;
      store<u8>(to, QUOTE);
      store<u8>(after, QUOTE);
      return after + 1;
    }
    case OTHER:
    default:
  }
  return writeOther(format, column, from, end, to);
}

/** With another size, the sender violates the protocol, and the bytes that follow must not be disclosed. */
function checkSize(size: usize, expected: usize): void {
  if (size != expected) unreachable();
}

/** The address of the cell, that of the host's value, and whether the value needs no quoting. */
let valueTo: usize = 0;
let valueAt: usize = 0;
let isRaw: bool = false;

function writeOther(format: u32, column: u32, from: usize, end: usize, to: usize): usize {
  valueTo = to;
  isRaw = format == AS_JSON;
  const size = writeValue(column, from, end);
  return isRaw ? to + size : writeField(valueAt, valueAt + size, format, to);
}

/**
 * @returns the address for a value of `length` bytes from the host: its final one, or if it must be quoted, one after
 * the room for the result
 */
export function allocValue(length: usize): usize {
  reserveMore(valueTo, isRaw ? length : 3 * length + FIXED_BYTES);
  valueAt = isRaw ? valueTo : valueTo + 2 * length + FIXED_BYTES;
  return valueAt;
}

/** Otherwise NaN or an infinity. */
function isNumber(from: usize): bool {
  return load<u8>(unsigned(from)) - ZERO <= 9;
}

/** The position of the first digit. */
function unsigned(from: usize): usize {
  return load<u8>(from) == MINUS ? from + 1 : from;
}

/** The number of digits before the point: 0 if there are clearly fewer than in 2^53 - 1, at most one more. */
function integerDigits(from: usize, end: usize): usize {
  const first = unsigned(from);
  if (end - first < SAFE_DIGITS) return 0;
  const last = min(end, first + SAFE_DIGITS + 1);
  let at = first;
  while (at < last && load<u8>(at) != POINT) at++;
  return at - first;
}

/** The value of as many digits as 2^53 - 1 has. */
function firstDigits(from: usize): u64 {
  let at = unsigned(from);
  let number: u64 = 0;
  for (let i: usize = 0; i < SAFE_DIGITS; i++) number = number * 10 + load<u8>(at++) - ZERO;
  return number;
}

function writePlain(from: usize, size: usize, isQuoted: bool, to: usize): usize {
  if (!isQuoted) {
    copy(from, to, size);
    return to + size;
  }
  store<u8>(to, QUOTE);
  copy(from, to + 1, size);
  store<u8>(to + 1 + size, QUOTE);
  return to + 2 + size;
}

/** Hex format, such as `\x00ff`; in JSON with two backslashes. */
function writeBytea(from: usize, end: usize, isJson: bool, to: usize): usize {
  if (isJson) {
    store<u16>(to, QUOTE | (BACKSLASH << 8));
    to += 2;
  }
  store<u16>(to, BACKSLASH | (LOWER_X << 8));
  to += 2;
  for (let at = from; at < end; at += 8) {
    const bytes = v128.load64_zero(at);
    const high = v128.and(i16x8.shr_u(bytes, 4), i8x16.splat(0x0f));
    const low = v128.and(bytes, i8x16.splat(0x0f));
    const digits = v128.shuffle<u8>(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    // 'a' comes 39 after the character that follows '9'.
    const letters = v128.and(i8x16.gt_u(digits, i8x16.splat(9)), i8x16.splat(39));
    v128.store(to + 2 * (at - from), i8x16.add(i8x16.add(digits, i8x16.splat(0x30)), letters));
  }
  to += 2 * (end - from);
  if (!isJson) return to;
  store<u8>(to, QUOTE);
  return to + 1;
}
