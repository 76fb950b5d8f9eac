/** Ranges and multiranges over dates and times, from binary to Postgres's text: `["2024-01-01 00:00:00","…")`. */
import { COMMA, QUOTE, SPACE } from './ascii.js';
import { notTheProtocol } from '../errors.js';
import type { ByteWriter } from './byte-writer.js';
import type { ValueWriter } from './value.js';

/** Flags of the first byte (rangetypes.h of Postgres). */
const EMPTY = 0x01;
const LOWER_INCLUSIVE = 0x02;
const UPPER_INCLUSIVE = 0x04;
const LOWER_INFINITE = 0x08;
const UPPER_INFINITE = 0x10;

/** Binary format (range_send): a byte of flags, then each bound that is there as int32 length and bytes. */
export function rangeOf(writeBound: ValueWriter): ValueWriter {
  return (input, start, _end, out) => {
    const flags = input[start] as number;
    if (flags & EMPTY) {
      out.ascii('empty');
      return;
    }
    let at = start + 1;
    out.ascii(flags & LOWER_INCLUSIVE ? '[' : '(');
    if (!(flags & LOWER_INFINITE)) at = writeBoundAt(input, at, writeBound, out);
    out.byte(COMMA);
    if (!(flags & UPPER_INFINITE)) writeBoundAt(input, at, writeBound, out);
    out.ascii(flags & UPPER_INCLUSIVE ? ']' : ')');
  };
}

/**
 * Writes the bound whose int32 length is at `at`; returns the position behind it. Postgres quotes a bound with a space
 * in it; no date or time has another character that would need it.
 */
function writeBoundAt(input: Buffer, at: number, write: ValueWriter, out: ByteWriter): number {
  const stop = lengthEnd(input, at);
  const from = out.length;
  out.byte(QUOTE);
  write(input, at + 4, stop, out);
  out.byte(QUOTE);
  if (!out.bytes.subarray(from, out.length).includes(SPACE)) {
    out.bytes.copyWithin(from, from + 1, out.length - 1);
    out.length -= 2;
  }
  return stop;
}

/** Where that ends whose int32 length is at `at`; there is no NULL here. */
function lengthEnd(input: Buffer, at: number): number {
  const length = input.readInt32BE(at);
  if (length < 0) throw notTheProtocol();
  return at + 4 + length;
}

/** Binary format (multirange_send): int32 count, then each range as int32 length and bytes. Text: `{[…),[…)}`. */
export function multirangeOf(writeRange: ValueWriter): ValueWriter {
  return (input, start, _end, out) => {
    const count = input.readInt32BE(start);
    let at = start + 4;
    out.ascii('{');
    for (let i = 0; i < count; i++) {
      if (i > 0) out.byte(COMMA);
      const stop = lengthEnd(input, at);
      writeRange(input, at + 4, stop, out);
      at = stop;
    }
    out.ascii('}');
  };
}
