/** Escapes of a JSON string in bytes (RFC 8259 section 7). */
import { BACKSLASH, HEX, LOWER_U } from './bytes.js';

/** What the letter behind a backslash stands for; 0 for `u`, and for a letter that may not stand there. */
const MEANT = new Uint8Array(256);
for (const [letter, meant] of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t']) {
  MEANT[(letter as string).charCodeAt(0)] = (meant as string).charCodeAt(0);
}

const LETTER_BYTES = 2;
const UNIT_BYTES = 6;
const PAIR_BYTES = 12;

/**
 * @param at of the backslash
 * @returns bytes of the escape, of both where two make a surrogate pair; 0 where it is none that Postgres can store
 *   (U+0000, half of a pair) or none at all
 */
export function escapeLength(bytes: Uint8Array, at: number): number {
  if (MEANT[bytes[at + 1] as number] !== 0) return LETTER_BYTES;
  const unit = unitAt(bytes, at);
  if (unit <= 0) return 0;
  if (unit < HIGH_SURROGATE || unit > LAST_SURROGATE) return UNIT_BYTES;
  return unit < LOW_SURROGATE && isLow(unitAt(bytes, at + UNIT_BYTES)) ? PAIR_BYTES : 0;
}

/** The code point of an escape of this length, by {@link escapeLength}. */
export function escapedCodePoint(bytes: Uint8Array, at: number, length: number): number {
  if (length === LETTER_BYTES) return MEANT[bytes[at + 1] as number] as number;
  const unit = unitAt(bytes, at);
  if (length === UNIT_BYTES) return unit;
  return 0x10000 + ((unit - HIGH_SURROGATE) << 10) + (unitAt(bytes, at + UNIT_BYTES) - LOW_SURROGATE);
}

const HIGH_SURROGATE = 0xd800;
const LOW_SURROGATE = 0xdc00;
const LAST_SURROGATE = 0xdfff;

const isLow = (unit: number): boolean => unit >= LOW_SURROGATE && unit <= LAST_SURROGATE;

/** The code unit of `\uXXXX`; below 0 where no such thing stands there. */
function unitAt(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== BACKSLASH || bytes[at + 1] !== LOWER_U) return -1;
  // A sum with any -1 is negative: it has all the high bits.
  return (
    ((HEX[bytes[at + 2] as number] as number) << 12) |
    ((HEX[bytes[at + 3] as number] as number) << 8) |
    ((HEX[bytes[at + 4] as number] as number) << 4) |
    (HEX[bytes[at + 5] as number] as number)
  );
}
