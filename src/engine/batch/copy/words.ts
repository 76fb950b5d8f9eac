/**
 * Four bytes at a time ("SIMD within a register"): a word of 32 bits, read little-endian, holds its first byte lowest.
 * The tests are those of Bit Twiddling Hacks ("Determine if a word has a zero byte", "… a byte less than n"): the
 * lowest byte that they mark is right, those above it may be marked by mistake.
 */

const ONES = 0x01010101;
const HIGH_BITS = 0x80808080 | 0;
const QUOTES = 0x22222222;
const BACKSLASHES = 0x5c5c5c5c;
const SPACES = 0x20202020;

/** Marks what ends the walk over a JSON string: a quote, a backslash, a control character. 0: nothing does. */
export function stringStops(word: number): number {
  const quote = word ^ QUOTES;
  const backslash = word ^ BACKSLASHES;
  return (
    ((((quote - ONES) | 0) & ~quote) | (((backslash - ONES) | 0) & ~backslash) | (((word - SPACES) | 0) & ~word)) &
    HIGH_BITS
  );
}

/** Marks what ends the walk over a key as bytes: a quote, even an escaped one, or a control character. */
export function keyStops(word: number): number {
  const quote = word ^ QUOTES;
  return ((((quote - ONES) | 0) & ~quote) | (((word - SPACES) | 0) & ~word)) & HIGH_BITS;
}

/** Index, 0 to 3, of the lowest byte that is marked. */
export const firstMarked = (marks: number): number => (31 - Math.clz32(marks & -marks)) >> 3;

/** The `count` lowest bytes of a word, 0 to 3 of them. */
export const lowBytes = (word: number, count: number): number => word & ((1 << (count << 3)) - 1);
