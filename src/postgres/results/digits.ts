/** Decimal digits of numbers that are small enough for it, two at a time. There is room: whoever calls has made it. */
import { MINUS, POINT, ZERO } from './ascii.js';

/** `00` to `99` as they lie in memory, read as little-endian 16-bit numbers. */
const PAIRS = Uint16Array.from({ length: 100 }, (_, n) => (ZERO + Math.floor(n / 10)) | ((ZERO + (n % 10)) << 8));

/** Writes 00 to 99. */
export function writePair(value: number, to: DataView, at: number): void {
  to.setUint16(at, PAIRS[value] as number, true);
}

/** Whole division of numbers from 0 to 2^31-1, which the engine compiles to integer instructions. */
export function quotient(dividend: number, divisor: number): number {
  return ((dividend | 0) / divisor) | 0;
}

/** Writes a whole number from 0 to 2^31-1; returns the position behind it. */
function writeWhole(value: number, to: DataView, at: number): number {
  let end = at + countDigits(value);
  const behind = end;
  while (value >= 100) {
    const rest = quotient(value, 100);
    end -= 2;
    writePair(value - rest * 100, to, end);
    value = rest;
  }
  if (value >= 10) writePair(value, to, end - 2);
  else to.setUint8(end - 1, ZERO + value);
  return behind;
}

function countDigits(value: number): number {
  if (value < 10_000) return value < 100 ? (value < 10 ? 1 : 2) : value < 1000 ? 3 : 4;
  if (value < 1_000_000) return value < 100_000 ? 5 : 6;
  return value < 100_000_000 ? (value < 10_000_000 ? 7 : 8) : value < 1_000_000_000 ? 9 : 10;
}

/** Writes a point and millionths (1 to 999,999) without trailing zeros; returns the position behind them. */
export function writeMillionths(value: number, to: DataView, at: number): number {
  const high = quotient(value, 10_000);
  const middle = quotient(value - high * 10_000, 100);
  to.setUint8(at, POINT);
  writePair(high, to, at + 1);
  writePair(middle, to, at + 3);
  writePair(value - high * 10_000 - middle * 100, to, at + 5);
  let end = at + 7;
  while (to.getUint8(end - 1) === ZERO) end--;
  return end;
}

const MILLION = 1_000_000;
const BILLION = 1_000_000_000;

/** The most bytes that {@link writeFewDecimals} writes: sign, nine digits, point, six digits. */
export const FEW_DECIMALS_BYTES = 17;

/**
 * Writes a double below a billion that has at most six decimals, with the fewest digits that read back as it: of at
 * most 15 digits no two numbers are the same double, so what reads back is the shortest. That takes a quarter of the
 * time of String().
 * @returns the position behind it, or 0 where the number is another
 */
export function writeFewDecimals(value: number, to: DataView, at: number): number {
  const magnitude = Math.abs(value);
  if (!(magnitude < BILLION)) return 0;
  const millionths = Math.round(magnitude * MILLION);
  if (millionths / MILLION !== magnitude) return 0;
  const whole = magnitude | 0;
  if (value < 0 || Object.is(value, -0)) to.setUint8(at++, MINUS);
  const end = writeWhole(whole, to, at);
  const rest = (millionths - whole * MILLION) | 0;
  return rest === 0 ? end : writeMillionths(rest, to, end);
}
