/**
 * Dates, times and intervals from Postgres's binary format, by integer arithmetic on doubles: no Date object, no
 * BigInt, exact over the whole of int64. Binary, because their text depends on DateStyle, TimeZone and IntervalStyle.
 */
import { COLON, MINUS, SPACE } from './ascii.js';
import type { ByteWriter } from './byte-writer.js';
import { quotient, writeMillionths, writePair } from './digits.js';

const INT32_MIN = -0x8000_0000;
const INT32_MAX = 0x7fff_ffff;
const UINT32_MAX = 0xffff_ffff;

const MILLION = 1_000_000;
const SECONDS_PER_DAY = 86_400;
const DAYS_PER_400_YEARS = 146_097;

/** Days from 0000-03-01 to 2000-01-01, Postgres's day 0. Years that start in March have their leap day at the end. */
const MARCH_YEAR_0_TO_EPOCH = 730_425;
/** 0001-01-01, the first day that is not BC, in days since 2000-01-01. */
const FIRST_DAY_AD = -730_119;

/** `iso`: year 0 is 1 BC, years outside 0000 to 9999 as in ECMAScript. `postgres`: BC years from 1 on, then `BC`. */
type YearStyle = 'iso' | 'postgres';

/**
 * A timestamptz in RFC 3339, in UTC, with as many fraction digits as it has. Years that RFC 3339 cannot say are written
 * as in ECMAScript's date time string format: a sign and six digits (`-000043-03-15T00:00:00Z` is 44 BC).
 */
export function writeTimestampTz(input: Buffer, start: number, _end: number, out: ByteWriter): void {
  if (writeInfinity(input, start, out)) return;
  const seconds = wholeSeconds(input, start);
  const days = Math.floor(seconds / SECONDS_PER_DAY);
  writeDays(days, 'iso', out);
  out.ascii('T');
  writeTime(seconds - days * SECONDS_PER_DAY, microsOfSecond(input, start), out);
  out.ascii('Z');
}

/** A timestamp without time zone as Postgres writes it with DateStyle ISO: `2024-02-29 12:00:00.5`, `… BC`. */
export function writeTimestamp(input: Buffer, start: number, _end: number, out: ByteWriter): void {
  writePostgresTimestamp(input, start, '', out);
}

/** A timestamptz as Postgres writes it with DateStyle ISO and TimeZone UTC, as it stands inside the text of a range. */
export function writePostgresTimestampTz(input: Buffer, start: number, _end: number, out: ByteWriter): void {
  writePostgresTimestamp(input, start, '+00', out);
}

function writePostgresTimestamp(input: Buffer, start: number, zone: '' | '+00', out: ByteWriter): void {
  if (writeInfinity(input, start, out)) return;
  const seconds = wholeSeconds(input, start);
  const days = Math.floor(seconds / SECONDS_PER_DAY);
  writeDays(days, 'postgres', out);
  out.byte(SPACE);
  writeTime(seconds - days * SECONDS_PER_DAY, microsOfSecond(input, start), out);
  out.ascii(zone);
  if (days < FIRST_DAY_AD) out.ascii(' BC');
}

/** A date (int32, days since 2000-01-01) as Postgres writes it with DateStyle ISO. */
export function writeDate(input: Buffer, start: number, _end: number, out: ByteWriter): void {
  const days = input.readInt32BE(start);
  if (days === INT32_MAX) out.ascii('infinity');
  else if (days === INT32_MIN) out.ascii('-infinity');
  else {
    writeDays(days, 'postgres', out);
    if (days < FIRST_DAY_AD) out.ascii(' BC');
  }
}

/**
 * An interval (int64 microseconds, int32 days, int32 months) as Postgres writes it with IntervalStyle postgres:
 * `1 year 2 mons -3 days +04:05:06.7`. A part after a negative one carries its plus sign (EncodeInterval of Postgres).
 * All three at their limit are infinity (Postgres 17 and later).
 */
export function writeInterval(input: Buffer, start: number, _end: number, out: ByteWriter): void {
  const days = input.readInt32BE(start + 8);
  const months = input.readInt32BE(start + 12);
  if (days === INT32_MAX && months === INT32_MAX && writeInfinity(input, start, out)) return;
  if (days === INT32_MIN && months === INT32_MIN && writeInfinity(input, start, out)) return;

  const from = out.length;
  let plus = '';
  const writePart = (count: number, unit: string): void => {
    if (count === 0) return;
    out.ascii(`${out.length > from ? ' ' : ''}${count > 0 ? plus : ''}${count} ${unit}${count === 1 ? '' : 's'}`);
    plus = count < 0 ? '+' : '';
  };
  writePart(Math.trunc(months / 12), 'year');
  writePart(months % 12, 'mon');
  writePart(days, 'day');

  let seconds = wholeSeconds(input, start);
  let micros = microsOfSecond(input, start);
  const hasTime = seconds !== 0 || micros !== 0;
  if (!hasTime && out.length > from) return;
  if (out.length > from) out.byte(SPACE);
  if (seconds < 0) {
    // The fraction counts upwards from the second below; turn both around.
    out.byte(MINUS);
    seconds = micros === 0 ? -seconds : -seconds - 1;
    micros = micros === 0 ? 0 : MILLION - micros;
  } else out.ascii(plus);
  writeTime(seconds, micros, out);
}

/** Writes `infinity` for the greatest int64 and `-infinity` for the least, else nothing. */
function writeInfinity(input: Buffer, start: number, out: ByteWriter): boolean {
  const high = input.readInt32BE(start);
  if (high !== INT32_MAX && high !== INT32_MIN) return false;
  const low = input.readUInt32BE(start + 4);
  const isLimit = low === (high === INT32_MAX ? UINT32_MAX : 0);
  if (isLimit) out.ascii(high === INT32_MAX ? 'infinity' : '-infinity');
  return isLimit;
}

// An int64 of microseconds is high * 2^32 + low, and 2^32 µs are 4294 s and 967296 µs. Split like this, everything
// stays below 2^53, where doubles count exactly.
const SECONDS_OF_HIGH = 4294;
const MICROS_OF_HIGH = 967_296;

/** The seconds of an int64 of microseconds, rounded down. */
function wholeSeconds(input: Buffer, start: number): number {
  const high = input.readInt32BE(start);
  const micros = high * MICROS_OF_HIGH + input.readUInt32BE(start + 4);
  return high * SECONDS_OF_HIGH + Math.floor(micros / MILLION);
}

/** What {@link wholeSeconds} leaves: 0 to 999,999 microseconds. */
function microsOfSecond(input: Buffer, start: number): number {
  const micros = input.readInt32BE(start) * MICROS_OF_HIGH + input.readUInt32BE(start + 4);
  return micros - Math.floor(micros / MILLION) * MILLION;
}

/** Writes the Gregorian date that lies `days` after 2000-01-01 (proleptic, as in Postgres). */
function writeDays(days: number, style: YearStyle, out: ByteWriter): void {
  const sinceMarchYear0 = days + MARCH_YEAR_0_TO_EPOCH;
  const cycle = Math.floor(sinceMarchYear0 / DAYS_PER_400_YEARS);
  const dayOfCycle = sinceMarchYear0 - cycle * DAYS_PER_400_YEARS;
  // Of the days so far in the cycle, those that are leap days have to go: one in 4 years, not in 100.
  const leapDays = quotient(dayOfCycle, 1460) - quotient(dayOfCycle, 36_524) + quotient(dayOfCycle, 146_096);
  const yearOfCycle = quotient(dayOfCycle - leapDays, 365);
  const dayOfYear = dayOfCycle - (365 * yearOfCycle + quotient(yearOfCycle, 4) - quotient(yearOfCycle, 100));
  // Months from March on repeat lengths of 31 30 31 30 31 days, 153 in all.
  const marchMonth = quotient(5 * dayOfYear + 2, 153);
  const day = dayOfYear - quotient(153 * marchMonth + 2, 5) + 1;
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  const year = cycle * 400 + yearOfCycle + (month <= 2 ? 1 : 0);

  writeYear(year, style, out);
  out.ensure(6);
  const { words, length } = out;
  words.setUint8(length, MINUS);
  writePair(month, words, length + 1);
  words.setUint8(length + 3, MINUS);
  writePair(day, words, length + 4);
  out.length += 6;
}

function writeYear(year: number, style: YearStyle, out: ByteWriter): void {
  if (year >= 1 && year <= 9999) {
    out.ensure(4);
    writePair(quotient(year, 100), out.words, out.length);
    writePair(year % 100, out.words, out.length + 2);
    out.length += 4;
  } else if (style === 'postgres') {
    out.ascii(String(year <= 0 ? 1 - year : year).padStart(4, '0'));
  } else if (year === 0) {
    out.ascii('0000');
  } else {
    out.ascii(`${year < 0 ? '-' : '+'}${String(Math.abs(year)).padStart(6, '0')}`);
  }
}

/** Writes hours (two digits or more), minutes, seconds, and the fraction without trailing zeros where there is one. */
function writeTime(seconds: number, micros: number, out: ByteWriter): void {
  const hours = Math.floor(seconds / 3600);
  const secondOfHour = seconds - hours * 3600;
  const minute = quotient(secondOfHour, 60);
  if (hours > 99) out.ascii(String(hours));
  else {
    out.ensure(2);
    writePair(hours, out.words, out.length);
    out.length += 2;
  }
  out.ensure(13);
  const { words, length } = out;
  words.setUint8(length, COLON);
  writePair(minute, words, length + 1);
  words.setUint8(length + 3, COLON);
  writePair(secondOfHour - minute * 60, words, length + 4);
  out.length = micros === 0 ? length + 6 : writeMillionths(micros, words, length + 6);
}
