/** Writes dates and times from 0001 to 9999 from Postgres's binary format. The host writes others. */
import { pair, writeMillionths } from './decimals';
import { MINUS } from './text';

const COLON: u32 = 0x3a;
const SPACE: u32 = 0x20;
const UPPER_T: u32 = 0x54;
const UPPER_Z: u32 = 0x5a;

const MICROSECONDS_OF_A_DAY: i64 = 86_400_000_000;

/** Days from 0000-03-01 to 2000-01-01, Postgres's day 0. Years that begin in March have their leap day at the end. */
const MARCH_YEAR_0_TO_2000: i32 = 730_425;
/** 0001-01-01 and 9999-12-31, in days since 2000-01-01. */
const FIRST_DAY: i32 = -730_119;
const LAST_DAY: i32 = 2_921_939;

/**
 * RFC 3339 in UTC.
 * @returns the position after it; 0 for other times, as in all functions here
 */
export function writeTimestampTz(microseconds: i64, to: usize): usize {
  const after = writeDateAndTime(microseconds, UPPER_T, to);
  if (after == 0) return 0;
  store<u8>(after, UPPER_Z);
  return after + 1;
}

/** As Postgres writes it with DateStyle ISO. */
export function writeTimestamp(microseconds: i64, to: usize): usize {
  return writeDateAndTime(microseconds, SPACE, to);
}

function writeDateAndTime(microseconds: i64, separator: u32, to: usize): usize {
  let day = microseconds / MICROSECONDS_OF_A_DAY;
  let ofDay = microseconds - day * MICROSECONDS_OF_A_DAY;
  if (ofDay < 0) {
    day--;
    ofDay += MICROSECONDS_OF_A_DAY;
  }
  if (day < FIRST_DAY || day > LAST_DAY) return 0;
  to = writeDate(i32(day), to);
  const second = u32(ofDay / 1_000_000);
  const fraction = u32(ofDay - i64(second) * 1_000_000);
  const minutes = second / 60;
  const hour = minutes / 60;
  store<u8>(to, separator);
  store<u16>(to + 1, pair(hour));
  store<u8>(to + 3, COLON);
  store<u16>(to + 4, pair(minutes - hour * 60));
  store<u8>(to + 6, COLON);
  store<u16>(to + 7, pair(second - minutes * 60));
  return fraction == 0 ? to + 9 : writeMillionths(fraction, to + 9);
}

/** @param days since 2000-01-01 */
export function writeDate(days: i32, to: usize): usize {
  if (days < FIRST_DAY || days > LAST_DAY) return 0;
  const sinceMarchYear0 = u32(days + MARCH_YEAR_0_TO_2000);
  const cycle = sinceMarchYear0 / 146_097;
  const dayOfCycle = sinceMarchYear0 - cycle * 146_097;
  // Subtracts the leap days of the cycle so far: one every 4 years, none every 100.
  const yearOfCycle = (dayOfCycle - dayOfCycle / 1460 + dayOfCycle / 36_524 - dayOfCycle / 146_096) / 365;
  const dayOfYear = dayOfCycle - (365 * yearOfCycle + yearOfCycle / 4 - yearOfCycle / 100);
  // From March on, months repeat the lengths 31 30 31 30 31, 153 days in total.
  const marchMonth = (5 * dayOfYear + 2) / 153;
  const day = dayOfYear - (153 * marchMonth + 2) / 5 + 1;
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  const year = cycle * 400 + yearOfCycle + (month <= 2 ? 1 : 0);
  const century = year / 100;
  store<u16>(to, pair(century));
  store<u16>(to + 2, pair(year - century * 100));
  store<u8>(to + 4, MINUS);
  store<u16>(to + 5, pair(month));
  store<u8>(to + 7, MINUS);
  store<u16>(to + 8, pair(day));
  return to + 10;
}
