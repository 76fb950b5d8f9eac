/** Times in RFC 3339. Leap seconds and the year 0000 are left to the checked path (`cell.ts`). */
import { CASE, COLON, isDigit, LOWER_T, MINUS, PLUS, POINT, SPACE, ZERO } from './bytes';
import { power } from './number';

const LOWER_Z: u32 = 0x7a;

const DATE_BYTES: usize = 10;
const SECONDS_OF_A_DAY: i64 = 86_400;
const MICROSECONDS: i64 = 1_000_000;
const FRACTION_DIGITS: usize = 15;

/** Days from 0000-03-01 to 2000-01-01. */
const DAYS_TO_2000: i32 = 730_425;

const DAYS_OF_MONTHS = memory.data<u8>([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]);

/** Stays negative if other numbers are added to it. */
const NO_NUMBER: i32 = i32.MIN_VALUE;

/** Results of the last call: microseconds since 2000-01-01 UTC, and the start of the offset, or the end. */
export let microseconds: i64 = 0;
export let offsetAt: usize = 0;

/** Whole seconds so far. */
let seconds: i64 = 0;

/**
 * Reads `YYYY-MM-DD`, alone or with `Thh:mm:ss`, a fraction, and `Z` or an offset.
 * @returns its end; 0 if it has another form, or the time does not exist
 */
export function timestamp(start: usize): usize {
  const century = two(start);
  const yearOfCentury = two(start + 2);
  const month = two(start + 5);
  const day = two(start + 8);
  if ((century | yearOfCentury | month | day) < 0) return 0;
  if (load<u8>(start + 4) != MINUS || load<u8>(start + 7) != MINUS) return 0;
  const year = century * 100 + yearOfCentury;
  if (year == 0 || !isDate(year, month, day)) return 0;
  seconds = i64(daysSince2000(year, month, day)) * SECONDS_OF_A_DAY;
  const at = start + DATE_BYTES;
  const separator: u32 = load<u8>(at);
  if ((separator | CASE) == LOWER_T || separator == SPACE) return timeOfDay(at + 1);
  microseconds = seconds * MICROSECONDS;
  offsetAt = at;
  return at;
}

function timeOfDay(start: usize): usize {
  const hour = two(start);
  const minute = two(start + 3);
  const second = two(start + 6);
  if ((hour | minute | second) < 0 || load<u8>(start + 2) != COLON || load<u8>(start + 5) != COLON) return 0;
  if (hour > 23 || minute > 59 || second > 59) return 0;
  seconds += hour * 3600 + minute * 60 + second;
  let at = start + 8;
  let fraction: i64 = 0;
  if (load<u8>(at) == POINT) {
    const digits = at + 1;
    at = digits;
    for (let byte: u32 = load<u8>(at); isDigit(byte); byte = load<u8>(at)) {
      fraction = fraction * 10 + (byte - ZERO);
      at++;
    }
    const count = at - digits;
    if (count == 0 || count > FRACTION_DIGITS) return 0;
    // Rounds half to even, as Postgres does (`ParseFractionalSecond` in datetime.c).
    fraction = i64(nearest((f64(fraction) / power(i32(count))) * 1e6));
  }
  offsetAt = at;
  const byte: u32 = load<u8>(at);
  if ((byte | CASE) == LOWER_Z) at++;
  else if (byte == PLUS || byte == MINUS) at = offset(at);
  microseconds = seconds * MICROSECONDS + fraction;
  return at;
}

/** `±hh:mm` up to ±15:59. */
function offset(at: usize): usize {
  const hours = two(at + 1);
  const minutes = two(at + 4);
  if ((hours | minutes) < 0 || load<u8>(at + 3) != COLON || hours > 15 || minutes > 59) return 0;
  const ahead = hours * 3600 + minutes * 60;
  seconds += load<u8>(at) == MINUS ? ahead : -ahead;
  return at + 6;
}

/** The value of two digits. */
function two(at: usize): i32 {
  const tens = u32(load<u8>(at)) - ZERO;
  const ones = u32(load<u8>(at + 1)) - ZERO;
  return tens < 10 && ones < 10 ? tens * 10 + ones : NO_NUMBER;
}

function isDate(year: i32, month: i32, day: i32): bool {
  if (month < 1 || month > 12 || day < 1) return false;
  const leap = month == 2 && (year & 3) == 0 && (year % 100 != 0 || year % 400 == 0);
  return day <= i32(load<u8>(DAYS_OF_MONTHS + usize(month))) + i32(leap);
}

/** Days in the proleptic Gregorian calendar. Years begin in March, so that the leap day comes last. */
function daysSince2000(year: i32, month: i32, day: i32): i32 {
  const early = month <= 2;
  const y = early ? year - 1 : year;
  const dayOfYear = (153 * (early ? month + 9 : month - 3) + 2) / 5 + day - 1;
  return 365 * y + y / 4 - y / 100 + y / 400 + dayOfYear - DAYS_TO_2000;
}
