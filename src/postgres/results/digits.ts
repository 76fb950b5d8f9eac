/** Decimal digits of numbers that are small enough for it, two at a time. There is room: whoever calls has made it. */
import { POINT, ZERO } from './ascii.js';

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
