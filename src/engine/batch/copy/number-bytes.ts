/** Numbers of JSON in bytes to the bits of int64 and of double; what is rare is for the reference (`numbers.ts`). */
import { isDigit, MINUS, PLUS, POINT, ZERO } from './bytes.js';
import { Int64 } from './int64.js';

/** The powers of ten that a double holds exactly. */
const POWERS = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));
const LAST_POWER = 22;

/** Digits that fit an int32 whatever they are. */
const HEAD_DIGITS = 9;
/** Digits of int64, of which not all with so many fit. */
const INT64_DIGITS = 19;
/** Digits that a double holds exactly whatever they are. */
const EXACT_DIGITS = 15;
/** Digits that two doubles hold exactly: a head times up to 10⁹, whose odd part is below 2⁵³, and the tail. */
const DOUBLE_DOUBLE_DIGITS = 18;

const TWO_31 = 2 ** 31;
const LOWER_E = 0x65;
const UPPER_E = 0x45;

/** What was read, until the next call. Each reader returns where the number ends, or -1. */
export class NumberBytes {
  readonly int64 = new Int64();
  /** Where an integer ends without its fraction. */
  wholeEnd = 0;
  double = 0;

  /** A whole number within int64; with a fraction of zeros, where `fraction` says that it may have one. */
  integer(bytes: Uint8Array, start: number, fraction: boolean): number {
    const first = bytes[start] === MINUS ? start + 1 : start;
    let at = first;
    let head = 0;
    let byte = bytes[at] as number;
    while (isDigit(byte) && at - first < HEAD_DIGITS) {
      head = (head * 10 + (byte - ZERO)) | 0;
      byte = bytes[++at] as number;
    }
    if (at === first || (bytes[first] === ZERO && at - first > 1)) return -1;
    const { int64 } = this;
    int64.setInt32(head);
    if (isDigit(byte)) {
      const middle = at;
      let tail = 0;
      do {
        tail = tail * 10 + (byte - ZERO);
        byte = bytes[++at] as number;
      } while (isDigit(byte));
      if (at - first > INT64_DIGITS) return -1;
      int64.setProduct(head, POWERS[at - middle] as number, tail);
      // The smallest int64 has no positive counterpart and is for the reference too.
      if (int64.high >= TWO_31) return -1;
    }
    if (first > start) int64.negate();
    this.wholeEnd = at;
    if (byte === POINT && fraction) {
      const digits = ++at;
      while (bytes[at] === ZERO) at++;
      byte = bytes[at] as number;
      if (at === digits || isDigit(byte)) return -1;
    }
    return byte === POINT || byte === LOWER_E || byte === UPPER_E ? -1 : at;
  }

  /** A number of JSON, rounded to the nearest double; none that becomes infinite, or zero without being zero. */
  float(bytes: Uint8Array, start: number): number {
    const isNegative = bytes[start] === MINUS;
    const first = isNegative ? start + 1 : start;
    let at = first;
    let head = 0;
    let tail = 0;
    let tailDigits = 0;
    let significant = 0;
    let point = -1;
    let byte = bytes[at] as number;
    for (;;) {
      if (isDigit(byte)) {
        if (significant < HEAD_DIGITS) {
          head = (head * 10 + (byte - ZERO)) | 0;
          if (head !== 0) significant++;
        } else {
          tail = tail * 10 + (byte - ZERO);
          tailDigits++;
        }
      } else if (byte === POINT && point < 0 && at > first) point = at;
      else break;
      byte = bytes[++at] as number;
    }
    // JSON has no 01, no .5 and no 5.
    if (at === first || point === at - 1) return -1;
    if (bytes[first] === ZERO && at - first > 1 && point !== first + 1) return -1;
    let exponent = point < 0 ? 0 : point + 1 - at;
    if (byte === LOWER_E || byte === UPPER_E) {
      const sign = bytes[++at];
      if (sign === PLUS || sign === MINUS) at++;
      const digits = at;
      let written = 0;
      while (isDigit((byte = bytes[at] as number)) && at - digits < EXACT_DIGITS) {
        written = written * 10 + (byte - ZERO);
        at++;
      }
      if (at === digits || isDigit(byte)) return -1;
      exponent += sign === MINUS ? -written : written;
    }
    let value = NaN;
    if (significant + tailDigits <= EXACT_DIGITS) {
      value = scaled(head * (POWERS[tailDigits] as number) + tail, exponent);
    } else if (significant + tailDigits <= DOUBLE_DOUBLE_DIGITS) {
      value = scaledPair(head * (POWERS[tailDigits] as number), tail, exponent);
    }
    if (Number.isNaN(value)) {
      value = Number(ascii(bytes, first, at));
      if (value === Infinity || (value === 0 && head !== 0)) return -1;
    }
    this.double = isNegative ? -value : value;
    return at;
  }
}

const ascii = (bytes: Uint8Array, start: number, end: number): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1');

/** One rounding of two exact doubles is the nearest double (Clinger 1990); NaN where the power is not exact. */
function scaled(value: number, exponent: number): number {
  if (exponent < 0) return exponent < -LAST_POWER ? NaN : value / (POWERS[-exponent] as number);
  return exponent > LAST_POWER ? NaN : value * (POWERS[exponent] as number);
}

/**
 * (`large` + `small`) × 10^`exponent`, of exact doubles, `large` not below `small`, by twice the precision of a double
 * (Dekker 1971). NaN where the result is so near the middle of two doubles that this does not tell them apart.
 */
function scaledPair(large: number, small: number, exponent: number): number {
  if (exponent < -LAST_POWER || exponent > LAST_POWER) return NaN;
  const sum = large + small;
  const lost = small - (sum - large);
  const power = POWERS[Math.abs(exponent)] as number;
  if (exponent >= 0) {
    const product = sum * power;
    return rounded(product, productError(sum, power, product) + lost * power);
  }
  const quotient = sum / power;
  const product = quotient * power;
  return rounded(quotient, (sum - product - productError(quotient, power, product) + lost) / power);
}

/** `value` + `rest`, which may be wrong by far less than `value`'s last place; NaN where that decides. */
function rounded(value: number, rest: number): number {
  const doubt = value * 2 ** -90;
  const result = value + (rest - doubt);
  return result === value + (rest + doubt) ? result : NaN;
}

/** What is lost by rounding a product. */
function productError(a: number, b: number, product: number): number {
  const aHigh = upperHalf(a);
  const bHigh = upperHalf(b);
  const aLow = a - aHigh;
  const bLow = b - bHigh;
  return aLow * bLow - (product - aHigh * bHigh - aLow * bHigh - aHigh * bLow);
}

/** The upper 26 bits of a double (Veltkamp 1968). */
function upperHalf(value: number): number {
  const shifted = value * (2 ** 27 + 1);
  return shifted - (shifted - value);
}
