/** Times of RFC 3339 in bytes; the rest (leap seconds, the year 0000) is for the reference (`timestamp.ts`). */
import { isDate } from '../timestamp.js';
import { COLON, isDigit, LOWER_T, MINUS, PLUS, POINT, SPACE, ZERO } from './bytes.js';

const UPPER_T = 0x54;
const UPPER_Z = 0x5a;
const LOWER_Z = 0x7a;

const DATE_BYTES = 10;
const SECONDS_OF_A_DAY = 86_400;
const MICROSECONDS = 1e6;

/** The powers of ten that a fraction is divided by. */
const POWERS = Float64Array.from({ length: 16 }, (_, i) => Number(`1e${i}`));
const FRACTION_DIGITS = 15;

/** The number of two digits, by their two bytes as a big-endian number; -1 for any others. */
const TWO_DIGITS = new Int8Array(2 ** 16).fill(-1);
for (let n = 0; n < 100; n++) TWO_DIGITS[((ZERO + Math.floor(n / 10)) << 8) | (ZERO + (n % 10))] = n;

/** What {@link TimestampBytes.read} found, until the next call. */
export class TimestampBytes {
  /** Whole seconds since 2000-01-01 UTC, and microseconds behind them, 0 to 1,000,000. */
  seconds = 0;
  microseconds = 0;
  /** Where the offset begins, or the end. */
  offsetAt = 0;

  /**
   * `YYYY-MM-DD`, or with `Thh:mm:ss`, a fraction, and `Z` or an offset.
   * @returns where it ends; -1 where it is another form, or no time that exists
   */
  read(bytes: Uint8Array, view: DataView, start: number): number {
    const century = two(view, start);
    const yearOfCentury = two(view, start + 2);
    const month = two(view, start + 5);
    const day = two(view, start + 8);
    if ((century | yearOfCentury | month | day) < 0 || bytes[start + 4] !== MINUS || bytes[start + 7] !== MINUS)
      return -1;
    const year = century * 100 + yearOfCentury;
    if (year === 0 || !isDate(year, month, day)) return -1;
    this.seconds = daysSince2000(year, month, day) * SECONDS_OF_A_DAY;
    this.microseconds = 0;
    const at = start + DATE_BYTES;
    const separator = bytes[at];
    if (separator === UPPER_T || separator === SPACE || separator === LOWER_T)
      return this.timeOfDay(bytes, view, at + 1);
    this.offsetAt = at;
    return at;
  }

  private timeOfDay(bytes: Uint8Array, view: DataView, start: number): number {
    const hour = two(view, start);
    const minute = two(view, start + 3);
    const second = two(view, start + 6);
    if (bytes[start + 2] !== COLON || bytes[start + 5] !== COLON || (hour | minute | second) < 0) return -1;
    if (hour > 23 || minute > 59 || second > 59) return -1;
    this.seconds += hour * 3600 + minute * 60 + second;
    let at = start + 8;
    if (bytes[at] === POINT) {
      const digits = ++at;
      let fraction = 0;
      for (let byte = bytes[at] as number; isDigit(byte); byte = bytes[++at] as number) {
        fraction = fraction * 10 + (byte - ZERO);
      }
      if (at === digits || at - digits > FRACTION_DIGITS) return -1;
      this.microseconds = roundedToEven((fraction / (POWERS[at - digits] as number)) * MICROSECONDS);
    }
    this.offsetAt = at;
    const byte = bytes[at];
    if (byte === UPPER_Z || byte === LOWER_Z) return at + 1;
    return byte === PLUS || byte === MINUS ? this.offset(bytes, view, at) : at;
  }

  /** `±hh:mm` up to ±15:59. */
  private offset(bytes: Uint8Array, view: DataView, at: number): number {
    const hours = two(view, at + 1);
    const minutes = two(view, at + 4);
    if (bytes[at + 3] !== COLON || (hours | minutes) < 0 || hours > 15 || minutes > 59) return -1;
    const seconds = hours * 3600 + minutes * 60;
    this.seconds += bytes[at] === MINUS ? seconds : -seconds;
    return at + 6;
  }
}

const two = (view: DataView, at: number): number => TWO_DIGITS[view.getUint16(at)] as number;

/** As C's `rint`, by which Postgres rounds what is behind the sixth digit (`ParseFractionalSecond` in datetime.c). */
function roundedToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

/** Days of the proleptic Gregorian calendar, by years that begin in March, so that the leap day comes last. */
function daysSince2000(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const dayOfYear = (((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) | 0) + day - 1;
  return 365 * y + ((y / 4) | 0) - ((y / 100) | 0) + ((y / 400) | 0) + dayOfYear - DAYS_TO_2000;
}

/** From 0000-03-01 to 2000-01-01. */
const DAYS_TO_2000 = 730_425;
