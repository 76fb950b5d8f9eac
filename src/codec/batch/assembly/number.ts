/** Converts JSON numbers to the bits of int64 and double. Rare forms are left to the checked path (`cell.ts`). */
import { CASE, isDigit, LOWER_E, MINUS, PLUS, POINT, ZERO } from './bytes';
import { readDouble } from './host';

/** The powers of ten that a double can represent exactly. */
const LAST_POWER: i32 = 22;
const POWERS = memory.data<f64>([
  1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
  1e21, 1e22,
]);

/** The number of decimal digits that always fit in 64 bits. */
const MAX_DIGITS: usize = 19;
/** A double can represent every integer below this. */
const EXACT: u64 = 1 << 53;
const INT64_MAX: u64 = 0x7fff_ffff_ffff_ffff;
const SAFE_EXPONENT_DIGITS: usize = 8;

/** The last integer that was read. */
export let int64: u64 = 0;
export let double: f64 = 0;
/** The end of the integer without its fraction. */
export let wholeEnd: usize = 0;

/** The digits read so far, modulo 2⁶⁴. */
let digits: u64 = 0;

export function power(exponent: i32): f64 {
  return load<f64>(POWERS + (usize(exponent) << 3));
}

/** Reads an integer within int64, which may have a fraction of zeros if `fraction` is true. */
export function integer(start: usize, fraction: bool): usize {
  const negative = load<u8>(start) == MINUS;
  const first = start + usize(negative);
  digits = 0;
  let at = readDigits(first);
  if (!isWhole(first, at) || at - first > MAX_DIGITS || digits > INT64_MAX + u64(negative)) return 0;
  int64 = negative ? 0 - digits : digits;
  wholeEnd = at;
  if (fraction && load<u8>(at) == POINT) {
    const zeros = at + 1;
    at = zeros;
    while (load<u8>(at) == ZERO) at++;
    if (at == zeros || isDigit(load<u8>(at))) return 0;
  }
  const byte: u32 = load<u8>(at);
  return byte == POINT || (byte | CASE) == LOWER_E ? 0 : at;
}

/** Reads a JSON number, rounded to the nearest double. Refuses one that would overflow, or underflow to zero. */
export function float(start: usize): usize {
  const negative = load<u8>(start) == MINUS;
  const first = start + usize(negative);
  digits = 0;
  let at = readDigits(first);
  if (!isWhole(first, at)) return 0;
  let count = at - first;
  let exponent: i32 = 0;
  if (load<u8>(at) == POINT) {
    const fraction = at + 1;
    at = readDigits(fraction);
    if (at == fraction) return 0;
    exponent = i32(fraction - at);
    count += at - fraction;
  }
  if ((load<u8>(at) | CASE) == LOWER_E) {
    const sign: u32 = load<u8>(at + 1);
    const from = at + (sign == PLUS || sign == MINUS ? 2 : 1);
    const mantissa = digits;
    digits = 0;
    at = readDigits(from);
    if (at == from || at - from > SAFE_EXPONENT_DIGITS) return 0;
    exponent += sign == MINUS ? -i32(digits) : i32(digits);
    digits = mantissa;
  }
  const isExact = count <= MAX_DIGITS && digits < EXACT && exponent >= -LAST_POWER && exponent <= LAST_POWER;
  let value: f64;
  if (isExact) {
    // An operation on two exact doubles rounds once, so the result is the nearest double (Clinger 1990).
    value = exponent < 0 ? f64(digits) / power(-exponent) : f64(digits) * power(exponent);
  } else {
    value = readDouble(first, at);
    if (value == Infinity || (value == 0 && hasDigits(first, at))) return 0;
  }
  double = negative ? -value : value;
  return at;
}

/** JSON allows neither 01 nor .5. */
function isWhole(first: usize, end: usize): bool {
  return end > first && (load<u8>(first) != ZERO || end == first + 1);
}

/** Whether a digit is not zero. */
function hasDigits(first: usize, end: usize): bool {
  for (let at = first; at < end && (load<u8>(at) | CASE) != LOWER_E; at++) {
    if (load<u8>(at) > ZERO) return true;
  }
  return false;
}

/**
 * Appends the digits at `at` to those read so far.
 * @returns their end
 */
function readDigits(at: usize): usize {
  let value = digits;
  for (let eight = load<u64>(at); areDigits(eight); eight = load<u64>(at)) {
    value = value * 100_000_000 + ofDigits(eight);
    at += 8;
  }
  for (let digit = load<u8>(at) - ZERO; digit < 10; digit = load<u8>(at) - ZERO) {
    value = value * 10 + digit;
    at++;
  }
  digits = value;
  return at;
}

/** Whether eight bytes are digits: their upper halves are 3, and still are after adding 6. */
function areDigits(eight: u64): bool {
  const upper: u64 = 0xf0f0_f0f0_f0f0_f0f0;
  const threes: u64 = 0x3030_3030_3030_3030;
  return (eight & upper) == threes && ((eight + 0x0606_0606_0606_0606) & upper) == threes;
}

/** The value of eight digits, the first in the lowest byte: combines pairs, then fours, then all. */
function ofDigits(eight: u64): u64 {
  eight = ((eight & 0x0f0f_0f0f_0f0f_0f0f) * 2561) >> 8;
  eight = ((eight & 0x00ff_00ff_00ff_00ff) * 6_553_601) >> 16;
  return ((eight & 0x0000_ffff_0000_ffff) * 42_949_672_960_001) >> 32;
}
