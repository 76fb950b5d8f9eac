/**
 * Converts dates, times, intervals and ranges of them from Postgres's binary format, because their text depends on
 * DateStyle, TimeZone and IntervalStyle. Exact over the whole range of Postgres.
 */
import { DAY_MS } from '../../contract/calendar.js';
import { INT64_MAX, INT64_MIN } from '../../contract/column-types.js';
import { MalformedRow } from './type-encoder.js';

const INT32_MIN = -(2 ** 31);
const INT32_MAX = 2 ** 31 - 1;

/** The calendar repeats after 400 years. */
const CYCLE_DAYS = 146_097;
const DAY = 86_400_000_000n;

/** The year and `-MM-DD` of a day counted from 2000-01-01. Postgres has years beyond those of `Date`. */
function calendarDay(days: number): [year: number, rest: string] {
  const cycles = Math.floor(days / CYCLE_DAYS);
  const date = new Date(Date.UTC(2000, 0, 1) + (days - cycles * CYCLE_DAYS) * DAY_MS).toISOString();
  return [Number(date.slice(0, 4)) + 400 * cycles, date.slice(4, 10)];
}

/** A day as Postgres writes it with DateStyle ISO, with `suffix` before the era: `2024-02-29`, `0044-03-15 BC`. */
function postgresDay(days: number, suffix: string): string {
  const [year, rest] = calendarDay(days);
  return `${String(year <= 0 ? 1 - year : year).padStart(4, '0')}${rest}${suffix}${year <= 0 ? ' BC' : ''}`;
}

/**
 * A year in RFC 3339; outside its range as in ECMAScript's date time strings: a sign and six digits, where 0 is 1 BC.
 */
function isoYear(year: number): string {
  if (year >= 0 && year <= 9999) return String(year).padStart(4, '0');
  return `${year < 0 ? '-' : '+'}${String(Math.abs(year)).padStart(6, '0')}`;
}

/** `hh:mm:ss` with any number of hours, and the fraction without trailing zeros. */
function timeText(microseconds: bigint): string {
  const seconds = microseconds / 1_000_000n;
  const two = (number: bigint) => String(number).padStart(2, '0');
  const fraction = String(microseconds % 1_000_000n).padStart(6, '0');
  const time = `${two(seconds / 3600n)}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}`;
  return fraction === '000000' ? time : `${time}.${fraction.replace(/0+$/, '')}`;
}

function infinity(value: bigint): string | undefined {
  if (value === INT64_MAX) return 'infinity';
  return value === INT64_MIN ? '-infinity' : undefined;
}

/** Splits microseconds since 2000-01-01 into the day and the microseconds of the day. */
function split(microseconds: bigint): [day: number, rest: bigint] {
  const rest = ((microseconds % DAY) + DAY) % DAY;
  return [Number((microseconds - rest) / DAY), rest];
}

/** A timestamptz in UTC, with as many fractional digits as needed: `-000043-03-15T00:00:00Z` is 44 BC. */
export function timestampTzText(bytes: Buffer): string {
  const value = bytes.readBigInt64BE();
  const [days, rest] = split(value);
  const [year, monthAndDay] = calendarDay(days);
  return infinity(value) ?? `${isoYear(year)}${monthAndDay}T${timeText(rest)}Z`;
}

/** A timestamp without time zone as Postgres writes it with DateStyle ISO: `2024-02-29 12:00:00.5`. */
export const timestampText = (bytes: Buffer): string => postgresTimestamp(bytes, '');

/** A timestamptz as Postgres writes it with DateStyle ISO and TimeZone UTC, for the text of a range. */
export const postgresTimestampTz = (bytes: Buffer): string => postgresTimestamp(bytes, '+00');

function postgresTimestamp(bytes: Buffer, zone: string): string {
  const value = bytes.readBigInt64BE();
  const [days, rest] = split(value);
  return infinity(value) ?? postgresDay(days, ` ${timeText(rest)}${zone}`);
}

/** A date (int32, days since 2000-01-01) as Postgres writes it with DateStyle ISO. */
export function dateText(bytes: Buffer): string {
  const days = bytes.readInt32BE();
  if (days === INT32_MAX) return 'infinity';
  return days === INT32_MIN ? '-infinity' : postgresDay(days, '');
}

/**
 * An interval (int64 microseconds, int32 days, int32 months) as Postgres writes it with IntervalStyle postgres:
 * `1 year 2 mons -3 days +04:05:06.7`. A part after a negative one carries its plus sign (EncodeInterval of Postgres).
 * All three at their limit are infinity (Postgres 17 and later).
 */
export function intervalText(bytes: Buffer): string {
  const microseconds = bytes.readBigInt64BE();
  const days = bytes.readInt32BE(8);
  const months = bytes.readInt32BE(12);
  if (days === months && (days === INT32_MAX || days === INT32_MIN)) {
    const text = infinity(microseconds);
    if (text !== undefined && text.startsWith('-') === days < 0) return text;
  }
  let text = '';
  let plus = '';
  const add = (count: number, unit: string): void => {
    if (count === 0) return;
    text += `${text === '' ? '' : ' '}${count > 0 ? plus : ''}${count} ${unit}${count === 1 ? '' : 's'}`;
    plus = count < 0 ? '+' : '';
  };
  add(Math.trunc(months / 12), 'year');
  add(months % 12, 'mon');
  add(days, 'day');
  if (microseconds === 0n && text !== '') return text;
  const time = microseconds < 0n ? `-${timeText(-microseconds)}` : plus + timeText(microseconds);
  return text === '' ? time : `${text} ${time}`;
}

// Ranges and multiranges over dates and times, as `["2024-01-01 00:00:00","…")`.

type BinaryText = (bytes: Buffer) => string;

/** Flags of the first byte (rangetypes.h of Postgres). */
const EMPTY = 0x01;
const LOWER_INCLUSIVE = 0x02;
const UPPER_INCLUSIVE = 0x04;
const LOWER_INFINITE = 0x08;
const UPPER_INFINITE = 0x10;

/** Binary format (range_send): a byte of flags, then each existing bound as int32 length and bytes. */
export function rangeText(boundText: BinaryText): BinaryText {
  return (bytes) => {
    const flags = bytes.readUInt8();
    if (flags & EMPTY) return 'empty';
    const bounds = fields(bytes, 1).map(boundText).map(quotedBound);
    const lower = flags & LOWER_INFINITE ? '' : bounds.shift();
    const upper = flags & UPPER_INFINITE ? '' : bounds.shift();
    return `${flags & LOWER_INCLUSIVE ? '[' : '('}${lower},${upper}${flags & UPPER_INCLUSIVE ? ']' : ')'}`;
  };
}

/** Postgres quotes a bound that contains a space. Dates and times have no other characters that need quotes. */
const quotedBound = (text: string): string => (text.includes(' ') ? `"${text}"` : text);

/** Binary format (multirange_send): int32 count, then each range as int32 length and bytes. Text: `{[…),[…)}`. */
export const multirangeText = (boundText: BinaryText): BinaryText => {
  const range = rangeText(boundText);
  return (bytes) => `{${fields(bytes, 4).map(range).join()}}`;
};

/** The fields from `at` on, each as int32 length and bytes. None is NULL. */
function fields(bytes: Buffer, at: number): Buffer[] {
  const values: Buffer[] = [];
  while (at < bytes.length) {
    const start = at + 4;
    at = start + bytes.readUInt32BE(at);
    if (at > bytes.length) throw new MalformedRow();
    values.push(bytes.subarray(start, at));
  }
  return values;
}
