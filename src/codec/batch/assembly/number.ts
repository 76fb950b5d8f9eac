/** Numbers of JSON to the bits of int64 and of double; what is rare is for the checked path (`numbers.ts`). */
import { CASE, isDigit, LOWER_E, MINUS, PLUS, POINT, ZERO } from './bytes';
import { readDouble } from './host';

/** The powers of ten that a double holds exactly. */
const LAST_POWER: i32 = 22;
const POWERS = memory.data<f64>([
  1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
  1e21, 1e22,
]);

/** 10^(16 × step) from the first to the last step, each as the nearest double and what that lacks. */
const FIRST_STEP: i32 = -18;
const LAST_STEP: i32 = 18;
const STEPS = memory.data<f64>([
  1e-288, -5.773549044406861e-305, 1e-272, 6.9813387397471505e-289, 1e-256, 2.2671708827212437e-273, 1e-240,
  3.063212017229988e-257, 1e-224, -1.8884204507472098e-241, 1e-208, -9.790617015372999e-225, 1e-192,
  -9.671974634103305e-209, 1e-176, 4.085789420184388e-194, 1e-160, 1.1363352439814277e-177, 1e-144,
  4.952540739454408e-161, 1e-128, -5.401408859568103e-145, 1e-112, 5.03408013151029e-129, 1e-96, 9.37078945091382e-113,
  1e-80, 3.857468248661244e-97, 1e-64, 3.469426116645307e-81, 1e-48, 2.5618263404376953e-65, 1e-32,
  -5.59673099762419e-49, 1e-16, 2.0902213275965398e-33, 1, 0, 1e16, 0, 1e32, -5366162204393472, 1e48,
  -4.38458430450762e31, 1e64, -2.1320419009454396e47, 1e80, -2.6609864708367274e61, 1e96, -4.9861653971908895e79, 1e112,
  6.988006530736956e95, 1e128, -7.51744869165182e111, 1e144, -2.3745432358651106e127, 1e160, -6.528407745068227e142,
  1e176, -7.44898050207432e158, 1e192, -4.09008802087614e175, 1e208, 1.8136930169189052e191, 1e224,
  3.0450964820516807e207, 1e240, -1.3946113804119925e223, 1e256, -3.012765990014054e239, 1e272, -6.552261095746788e255,
  1e288, -7.6304735395750355e270,
]);

/** Below and above, what is computed on the way may be beyond the range of doubles. */
const SMALLEST: f64 = 1e-270;
const LARGEST: f64 = 1e300;

/** Decimal digits that 64 bits hold whatever they are. */
const MAX_DIGITS: usize = 19;
/** Doubles hold every integer below it. */
const EXACT: u64 = 1 << 53;
const INT64_MAX: u64 = 0x7fff_ffff_ffff_ffff;
const SAFE_EXPONENT_DIGITS: usize = 8;

/** What was read, until the next call. */
export let int64: u64 = 0;
export let double: f64 = 0;
/** Where an integer ends without its fraction. */
export let wholeEnd: usize = 0;

/** The digits that were read, modulo 2⁶⁴. */
let digits: u64 = 0;

export function power(exponent: i32): f64 {
  return load<f64>(POWERS + (usize(exponent) << 3));
}

/** A whole number within int64; with a fraction of zeros, where `fraction` says that it may have one. */
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

/** A number of JSON, rounded to the nearest double; none that becomes infinite, or zero without being zero. */
export function float(start: usize): usize {
  const negative = load<u8>(start) == MINUS;
  const first = start + usize(negative);
  digits = 0;
  let at = readDigits(first);
  if (!isWhole(first, at)) return 0;
  let significant = at - first;
  let exponent: i32 = 0;
  if (load<u8>(at) == POINT) {
    const fraction = at + 1;
    at = readDigits(fraction);
    if (at == fraction) return 0;
    exponent = i32(fraction - at);
    significant += at - fraction;
    if (significant > MAX_DIGITS) significant -= leadingZeros(first, fraction, at);
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
  let value = significant > MAX_DIGITS ? NaN : nearestDouble(digits, exponent);
  if (isNaN(value)) {
    value = readDouble(first, at);
    if (value == Infinity || (value == 0 && hasDigits(first, at))) return 0;
  }
  double = negative ? -value : value;
  return at;
}

/** JSON has no 01 and no .5 */
function isWhole(first: usize, end: usize): bool {
  return end > first && (load<u8>(first) != ZERO || end == first + 1);
}

/** Of a number with a fraction: the zeros in front of the first digit that counts. */
function leadingZeros(first: usize, fraction: usize, end: usize): usize {
  if (load<u8>(first) != ZERO) return 0;
  let at = fraction;
  while (at < end && load<u8>(at) == ZERO) at++;
  return at - fraction + 1;
}

/** Whether the number is not zero: its digits are more than 64 bits hold. */
function hasDigits(first: usize, end: usize): bool {
  for (let at = first; at < end && (load<u8>(at) | CASE) != LOWER_E; at++) {
    if (load<u8>(at) > ZERO) return true;
  }
  return false;
}

/** Adds the digits that stand at `at` to those that were read. @returns where they end */
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

/** Whether eight bytes are digits: their upper halves are 3, also when 6 is added. */
function areDigits(eight: u64): bool {
  const upper: u64 = 0xf0f0_f0f0_f0f0_f0f0;
  const threes: u64 = 0x3030_3030_3030_3030;
  return (eight & upper) == threes && ((eight + 0x0606_0606_0606_0606) & upper) == threes;
}

/** The number of eight digits, the first one lowest: of pairs, of fours, of all. */
function ofDigits(eight: u64): u64 {
  eight = ((eight & 0x0f0f_0f0f_0f0f_0f0f) * 2561) >> 8;
  eight = ((eight & 0x00ff_00ff_00ff_00ff) * 6_553_601) >> 16;
  return ((eight & 0x0000_ffff_0000_ffff) * 42_949_672_960_001) >> 32;
}

/** `value` × 10^`exponent`; NaN where it cannot be told here. */
function nearestDouble(value: u64, exponent: i32): f64 {
  if (value == 0) return 0;
  const large = f64(value);
  const small = f64(i64(value - u64(large)));
  if (exponent < -LAST_POWER || exponent > LAST_POWER) return nearestOfScaled(large, small, exponent);
  // One rounding of two exact doubles is the nearest double (Clinger 1990).
  if (value < EXACT) return exponent < 0 ? large / power(-exponent) : large * power(exponent);
  return nearestOfPair(large, small, exponent);
}

/**
 * (`large` + `small`) × 10^`exponent`, of exact doubles, `small` less than half a last place of `large`, by twice the
 * precision of a double (Dekker 1971). NaN where the result is so near the middle of two doubles that this does not tell
 * them apart.
 */
function nearestOfPair(large: f64, small: f64, exponent: i32): f64 {
  if (exponent >= 0) {
    const factor = power(exponent);
    const product = large * factor;
    return rounded(product, productError(large, factor, product) + small * factor);
  }
  const divisor = power(-exponent);
  const quotient = large / divisor;
  const product = quotient * divisor;
  return rounded(quotient, (large - product - productError(quotient, divisor, product) + small) / divisor);
}

/** The same where the power of ten is no double: that is a pair too, of a step and an exact power. */
function nearestOfScaled(large: f64, small: f64, exponent: i32): f64 {
  const step = exponent >> 4;
  if (step < FIRST_STEP || step > LAST_STEP) return NaN;
  const pair = STEPS + (usize(step - FIRST_STEP) << 4);
  const high = load<f64>(pair);
  const factor = power(exponent & 15);
  const scaled = large * factor;
  const scaledRest = productError(large, factor, scaled) + small * factor;
  const product = scaled * high;
  if (product < SMALLEST || product > LARGEST) return NaN;
  const rest = productError(scaled, high, product) + (scaled * load<f64>(pair, 8) + scaledRest * high);
  return rounded(product, rest);
}

/** `value` + `rest`, which may be wrong by far less than `value`'s last place; NaN where that decides. */
function rounded(value: f64, rest: f64): f64 {
  const doubt = value * 8.077935669463161e-28; // 2⁻⁹⁰
  const result = value + (rest - doubt);
  return result == value + (rest + doubt) ? result : NaN;
}

/** What is lost by rounding a product. */
function productError(a: f64, b: f64, product: f64): f64 {
  const aHigh = upperHalf(a);
  const bHigh = upperHalf(b);
  const aLow = a - aHigh;
  const bLow = b - bHigh;
  return aLow * bLow - (product - aHigh * bHigh - aLow * bHigh - aHigh * bLow);
}

/** The upper 26 bits of a double (Veltkamp 1968). */
function upperHalf(value: f64): f64 {
  const shifted = value * 134_217_729; // 2²⁷ + 1
  return shifted - (shifted - value);
}
