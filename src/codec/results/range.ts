/**
 * Converts ranges and multiranges over dates and times from binary format to Postgres's text: `["2024-01-01
 * 00:00:00","…")`.
 */
import { MalformedRow } from './type-encoder.js';

type BinaryText = (bytes: Buffer) => string;

/** Flags of the first byte (rangetypes.h of Postgres). */
const EMPTY = 0x01;
const LOWER_INCLUSIVE = 0x02;
const UPPER_INCLUSIVE = 0x04;
const LOWER_INFINITE = 0x08;
const UPPER_INFINITE = 0x10;

/** Binary format (range_send): a byte of flags, then each existing bound as int32 length and bytes. */
export function rangeText(boundText: BinaryText): BinaryText {
  return (bytes) => {
    const flags = bytes.readUInt8();
    if (flags & EMPTY) return 'empty';
    const bounds = fields(bytes, 1).map(boundText).map(quotedBound);
    const lower = flags & LOWER_INFINITE ? '' : bounds.shift();
    const upper = flags & UPPER_INFINITE ? '' : bounds.shift();
    return `${flags & LOWER_INCLUSIVE ? '[' : '('}${lower},${upper}${flags & UPPER_INCLUSIVE ? ']' : ')'}`;
  };
}

/** Postgres quotes a bound that contains a space. Dates and times have no other characters that need quotes. */
const quotedBound = (text: string): string => (text.includes(' ') ? `"${text}"` : text);

/** Binary format (multirange_send): int32 count, then each range as int32 length and bytes. Text: `{[…),[…)}`. */
export const multirangeText = (boundText: BinaryText): BinaryText => {
  const range = rangeText(boundText);
  return (bytes) => `{${fields(bytes, 4).map(range).join()}}`;
};

/** The fields from `at` on, each as int32 length and bytes. None is NULL. */
function fields(bytes: Buffer, at: number): Buffer[] {
  const found: Buffer[] = [];
  while (at < bytes.length) {
    const start = at + 4;
    at = start + bytes.readUInt32BE(at);
    if (at > bytes.length) throw new MalformedRow();
    found.push(bytes.subarray(start, at));
  }
  return found;
}
