/** ASCII bytes and classes of bytes, one byte at a time and sixteen at a time. */

export const TAB: u32 = 0x09;
export const LINE_FEED: u32 = 0x0a;
export const CARRIAGE_RETURN: u32 = 0x0d;
export const SPACE: u32 = 0x20;
export const QUOTE: u32 = 0x22;
export const PLUS: u32 = 0x2b;
export const COMMA: u32 = 0x2c;
export const MINUS: u32 = 0x2d;
export const POINT: u32 = 0x2e;
export const ZERO: u32 = 0x30;
export const COLON: u32 = 0x3a;
export const UPPER_D: u32 = 0x44;
export const UPPER_N: u32 = 0x4e;
export const OPEN_BRACKET: u32 = 0x5b;
export const BACKSLASH: u32 = 0x5c;
export const CLOSE_BRACKET: u32 = 0x5d;
export const LOWER_E: u32 = 0x65;
export const LOWER_F: u32 = 0x66;
export const LOWER_N: u32 = 0x6e;
export const LOWER_R: u32 = 0x72;
export const LOWER_T: u32 = 0x74;
export const OPEN_BRACE: u32 = 0x7b;
export const CLOSE_BRACE: u32 = 0x7d;

/** The bit that distinguishes a lowercase letter from its uppercase form. */
export const CASE: u32 = 0x20;

export function isDigit(byte: u32): bool {
  return byte - ZERO < 10;
}

/** The value of a byte that is not a hexadecimal digit. A number composed with it is negative. */
const NO_DIGIT: i32 = -1;

/** Values by byte. Digits look random to the CPU, so the code must not branch on them. */
const HEX = memory.data(256);
for (let byte: u32 = 0; byte < 256; byte++) {
  const letter = (byte | CASE) - 0x61;
  store<i8>(HEX + usize(byte), isDigit(byte) ? byte - ZERO : letter < 6 ? letter + 10 : NO_DIGIT);
}

/** The value of the hexadecimal digit at `at`, or {@link NO_DIGIT}. */
export function hex(at: usize): i32 {
  return load<i8>(HEX + usize(load<u8>(at)));
}

/**
 * A bit for each of the 16 bytes at `at` that ends an unescaped run of a JSON string: a quote, a backslash or a control
 * character.
 */
export function stringStops(at: usize): u32 {
  const bytes = v128.load(at);
  const ends = v128.or(i8x16.eq(bytes, i8x16.splat(0x22)), i8x16.eq(bytes, i8x16.splat(0x5c)));
  return i8x16.bitmask(v128.or(ends, controls(bytes)));
}

/** Bits for bytes that end a key: a quote, even an escaped one, or a control character. */
export function keyStops(at: usize): u32 {
  const bytes = v128.load(at);
  return i8x16.bitmask(v128.or(i8x16.eq(bytes, i8x16.splat(0x22)), controls(bytes)));
}

/** Bits for bytes of JSON that COPY text must escape: a backslash, and white space except the space. */
export function copyStops(at: usize): u32 {
  const bytes = v128.load(at);
  return i8x16.bitmask(v128.or(i8x16.eq(bytes, i8x16.splat(0x5c)), controls(bytes)));
}

/** Bits for bytes that are not JSON's white space (RFC 8259 section 2). */
export function noSpaces(at: usize): u32 {
  const bytes = v128.load(at);
  const lines = v128.or(i8x16.eq(bytes, i8x16.splat(0x0a)), i8x16.eq(bytes, i8x16.splat(0x0d)));
  const gaps = v128.or(i8x16.eq(bytes, i8x16.splat(0x20)), i8x16.eq(bytes, i8x16.splat(0x09)));
  return ~i8x16.bitmask(v128.or(lines, gaps)) & 0xffff;
}

/** A byte is below 0x20 if the smaller of it and 0x1f is the byte itself. */
function controls(bytes: v128): v128 {
  return i8x16.eq(i8x16.min_u(bytes, i8x16.splat(0x1f)), bytes);
}
