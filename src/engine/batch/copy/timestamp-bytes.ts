/** Times of RFC 3339 in bytes, the usual forms of it; the rest is for the reference (`timestamp.ts`). */
import { isDate } from '../timestamp.js';
import { COLON, isDigit, MINUS, PLUS, POINT, SPACE, ZERO } from './bytes.js';

const UPPER_T = 0x54;
const UPPER_Z = 0x5a;

/** Digits of a fraction that TIMESTAMP keeps. */
const MICROSECOND_DIGITS = 6;

/** What {@link TimestampBytes.read} found, until the next call. */
export class TimestampBytes {
  year = 0;
  month = 0;
  day = 0;
  /** Of the day, as written. */
  second = 0;
  microsecond = 0;
  /** Seconds east of UTC. */
  offset = 0;
  /** Where the offset begins, or the end. */
  offsetAt = 0;

  /**
   * `YYYY-MM-DD`, or with `Thh:mm:ss`, up to six digits of a fraction, and `Z` or an offset.
   * @returns false where it is another form, or no time that exists
   */
  read(bytes: Uint8Array, start: number, end: number): boolean {
    const size = end - start;
    if (size < 10 || bytes[start + 4] !== MINUS || bytes[start + 7] !== MINUS) return false;
    this.year = two(bytes, start) * 100 + two(bytes, start + 2);
    this.month = two(bytes, start + 5);
    this.day = two(bytes, start + 8);
    // Sums with -Infinity stay below every bound.
    if (!(this.year >= 1 && isDate(this.year, this.month, this.day))) return false;
    this.second = this.microsecond = this.offset = 0;
    this.offsetAt = end;
    return size === 10 || this.timeOfDay(bytes, start + 10, end);
  }

  private timeOfDay(bytes: Uint8Array, start: number, end: number): boolean {
    if (end - start < 9 || (bytes[start] !== UPPER_T && bytes[start] !== SPACE)) return false;
    if (bytes[start + 3] !== COLON || bytes[start + 6] !== COLON) return false;
    const hour = two(bytes, start + 1);
    const minute = two(bytes, start + 4);
    const second = two(bytes, start + 7);
    if (!(hour >= 0 && hour <= 23 && minute >= 0 && minute <= 59 && second >= 0 && second <= 59)) return false;
    this.second = hour * 3600 + minute * 60 + second;
    let at = start + 9;
    if (bytes[at] === POINT && at < end) {
      const digits = ++at;
      let fraction = 0;
      while (at < end && isDigit(bytes[at])) fraction = fraction * 10 + ((bytes[at++] as number) - ZERO);
      if (at === digits || at - digits > MICROSECOND_DIGITS) return false;
      for (let given = at - digits; given < MICROSECOND_DIGITS; given++) fraction *= 10;
      this.microsecond = fraction;
    }
    this.offsetAt = at;
    return at === end || (bytes[at] === UPPER_Z && at + 1 === end) || this.readOffset(bytes, at, end);
  }

  /** `±hh:mm` up to ±15:59. */
  private readOffset(bytes: Uint8Array, at: number, end: number): boolean {
    if (end - at !== 6 || (bytes[at] !== PLUS && bytes[at] !== MINUS) || bytes[at + 3] !== COLON) return false;
    const hours = two(bytes, at + 1);
    const minutes = two(bytes, at + 4);
    this.offset = (bytes[at] === MINUS ? -60 : 60) * (hours * 60 + minutes);
    return hours >= 0 && hours <= 15 && minutes >= 0 && minutes <= 59;
  }
}

/** Two digits as a number; -Infinity where they are none. */
function two(bytes: Uint8Array, at: number): number {
  const tens = bytes[at];
  const ones = bytes[at + 1];
  return isDigit(tens) && isDigit(ones) ? ((tens as number) - ZERO) * 10 + ((ones as number) - ZERO) : -Infinity;
}
