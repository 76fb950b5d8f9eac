/**
 * Values in COPY's binary format (Postgres manual, COPY, "Binary Format"): Postgres copies texts unchanged, and need
 * not parse numbers or times.
 */
import { hex, LOWER_T, MINUS, QUOTE } from './bytes';
import { literalEnd, scalarEnd, valueEnd } from './json';
import { BOOLEAN, FLOAT, ID, INTEGER, JSONB, TEXT, TIMESTAMP } from './kinds';
import { outAt, seek } from './memory';
import { double, float, int64, integer } from './number';
import { copied, PLAIN, string } from './strings';
import { microseconds, timestamp } from './timestamp';

/** The version byte before a jsonb in binary format. */
const JSONB_VERSION: u8 = 1;

/** Bytes of a UUID between its hyphens; a byte has two digits. */
const UUID_GROUPS = memory.data<u8>([4, 2, 2, 2, 6]);
const UUID_CHARACTERS: usize = 36;

/**
 * Writes the value, not null, that begins at `at`.
 * @returns its end; 0 for a rare value, whose output so far does not count
 */
export function binaryValue(kind: i32, at: usize): usize {
  const isQuoted = load<u8>(at) == QUOTE;
  switch (kind) {
    case TEXT:
      return isQuoted ? string(at, PLAIN) : copied(at, scalarEnd(at));
    case INTEGER: {
      const end = isQuoted ? skipQuote(integer(at + 1, false)) : integer(at, true);
      write64(int64);
      return end;
    }
    case FLOAT: {
      const end = isQuoted ? skipQuote(float(at + 1)) : float(at);
      write64(reinterpret<u64>(double));
      return end;
    }
    case BOOLEAN:
      store<u8>(outAt, load<u8>(at) == LOWER_T ? 1 : 0);
      seek(outAt + 1);
      return literalEnd(at);
    case TIMESTAMP: {
      if (!isQuoted) return 0;
      const end = skipQuote(timestamp(at + 1));
      write64(u64(microseconds));
      return end;
    }
    case JSONB:
      store<u8>(outAt, JSONB_VERSION);
      seek(outAt + 1);
      return copied(at, valueEnd(at));
    case ID:
      return uuid(at);
    default:
      return 0;
  }
}

/** @returns the position after the closing quote at `at`; 0 if there is none, or `at` is 0 */
export function skipQuote(at: usize): usize {
  return at != 0 && load<u8>(at) == QUOTE ? at + 1 : 0;
}

function write64(value: u64): void {
  store<u64>(outAt, bswap(value));
  seek(outAt + 8);
}

/** Accepts only the usual form, as the checked path does. */
export function uuid(start: usize): usize {
  if (load<u8>(start) != QUOTE || load<u8>(start + 1 + UUID_CHARACTERS) != QUOTE) return 0;
  let at = start + 1;
  let to = outAt;
  let bytes: i32 = 0;
  for (let group: usize = 0; group < 5; group++) {
    if (group > 0 && load<u8>(at++) != MINUS) return 0;
    for (let left = load<u8>(UUID_GROUPS + group); left > 0; left--) {
      const byte = (hex(at) << 4) | hex(at + 1);
      bytes |= byte;
      store<u8>(to++, byte);
      at += 2;
    }
  }
  seek(to);
  return bytes < 0 ? 0 : at + 1;
}
