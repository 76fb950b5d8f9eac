/**
 * Converts dates and times from their formats in files to RFC 3339, the only format that the service accepts (contract
 * C5.6).
 */
import { isDate } from '../contract/calendar.js';

/** Whether the day or the month comes first in `1/2/2024`. */
export const DATE_ORDERS = ['dmy', 'mdy'] as const;

export type DateOrder = (typeof DATE_ORDERS)[number];

/** Numbers that count from 1970: how many of their digits are below the second. */
export const EPOCHS = { EPOCH_SECONDS: 0, EPOCH_MILLISECONDS: 3, EPOCH_MICROSECONDS: 6 } as const;

export type EpochDigits = (typeof EPOCHS)[keyof typeof EPOCHS];

/** The form that the service accepts. */
const RFC_3339 =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,80})?(?:[Zz]|[+-](?:0\d|1[0-5]):[0-5]\d)?)?$/;

const CLOCK = String.raw`(?:,? ?[Tt]?(?<hour>\d{1,2}):(?<minute>\d\d)(?::(?<second>\d\d)(?:[.,](?<fraction>\d{1,80}))?)?(?: ?(?<half>[AaPp])[Mm])?`;
const ZONE = String.raw`(?: ?(?:Z|UTC|GMT|(?<sign>[+-])(?<zoneHour>\d\d)(?::?(?<zoneMinute>\d\d))?))?)?`;
const withClock = (date: string): RegExp => new RegExp(`^${date}${CLOCK}${ZONE}$`);

/** Forms with only one meaning. */
const UNAMBIGUOUS = [
  withClock(String.raw`(?<year>\d{4})(?<separator>[-/])(?<month>\d{1,2})\k<separator>(?<day>\d{1,2})`),
  withClock(String.raw`(?<day>\d{1,2})(?<separator>[- ])(?<name>[A-Za-z]{3,9})\.?\k<separator>(?<year>\d{4})`),
  withClock(String.raw`(?<name>[A-Za-z]{3,9})\.? (?<day>\d{1,2}),? (?<year>\d{4})`),
];
const ORDERED: Readonly<Record<DateOrder, RegExp>> = {
  dmy: withClock(String.raw`(?<day>\d{1,2})(?<separator>[-/.])(?<month>\d{1,2})\k<separator>(?<year>\d{4})`),
  mdy: withClock(String.raw`(?<month>\d{1,2})(?<separator>[-/.])(?<day>\d{1,2})\k<separator>(?<year>\d{4})`),
};

const MONTHS = 'january february march april may june july august september october november december'.split(' ');

/** @returns undefined if the text is not a time, or its day does not exist */
export function parseTimestamp(text: string, order?: DateOrder): string | undefined {
  const bare = text.trim();
  if (isTimestamp(bare)) return bare;
  // Most texts are excluded here.
  if (bare.length < 8 || bare.length > 128 || !/\d{4}/.test(bare)) return undefined;
  const forms = order === undefined ? UNAMBIGUOUS : [...UNAMBIGUOUS, ORDERED[order]];
  for (const form of forms) {
    const groups = form.exec(bare)?.groups;
    if (groups !== undefined) return rfc3339(groups);
  }
  return undefined;
}

/** Whether the text has the form of a time in which the day or the month comes first. */
export function isAllNumericDate(text: string): boolean {
  const bare = text.trim();
  return bare.length <= 128 && DATE_ORDERS.some((order) => ORDERED[order].test(bare));
}

/** Whether the text has the form of a time, but is not one with either order of day and month: `31/31/2024`. */
export function isImpossibleTime(text: string): boolean {
  const bare = text.trim();
  if (bare.length > 128) return false;
  const readings = [...UNAMBIGUOUS, ORDERED.dmy, ORDERED.mdy].map((form) => form.exec(bare)?.groups);
  const matches = readings.filter((groups) => groups !== undefined);
  return matches.length > 0 && matches.every((groups) => rfc3339(groups) === undefined);
}

/** Whether the service accepts it unchanged. */
export function isTimestamp(text: string): boolean {
  const [, year, month, day] = RFC_3339.exec(text) ?? [];
  return year !== undefined && isDay(Number(year), Number(month), Number(day));
}

const isDay = (year: number, month: number, day: number): boolean => year > 0 && isDate(year, month, day);

function rfc3339(groups: Readonly<Record<string, string | undefined>>): string | undefined {
  const { year = '', name, day = '', hour, minute = '', second = '00', fraction, half } = groups;
  const month = name === undefined ? Number(groups.month) : monthOf(name);
  if (!isDay(Number(year), month, Number(day))) return undefined;
  const date = `${year}-${two(month)}-${two(Number(day))}`;
  if (hour === undefined) return date;
  const hours = half === undefined ? Number(hour) : hourOf(Number(hour), half);
  if (!(hours < 24) || Number(minute) > 59 || Number(second) > 59) return undefined;
  const { sign, zoneHour = '', zoneMinute = '00' } = groups;
  if (Number(zoneHour) > 15 || Number(zoneMinute) > 59) return undefined;
  const zone = sign === undefined ? 'Z' : `${sign}${zoneHour}:${zoneMinute}`;
  return `${date}T${two(hours)}:${minute}:${second}${fraction === undefined ? '' : `.${fraction}`}${zone}`;
}

const two = (value: number): string => String(value).padStart(2, '0');

/** 1 to 12; 0 if there is no such month. */
const monthOf = (name: string): number =>
  MONTHS.findIndex((month) => month === name.toLowerCase() || month.slice(0, 3) === name.toLowerCase()) + 1;

/** The hour of a 12-hour clock, on which 12 AM is midnight; NaN if there is no such hour. */
const hourOf = (hour: number, half: string): number =>
  hour < 1 || hour > 12 ? NaN : (hour % 12) + (half.toLowerCase() === 'p' ? 12 : 0);

const JSON_NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
/** Maximum number of fractional digits that RFC_3339 above accepts. */
const FRACTION_DIGITS = 80;
/** The first and the last second of the years 1 to 9999. */
const [FIRST_SECOND, LAST_SECOND] = [-62_135_596_800, 253_402_300_799];
/** A number with more digits is outside of these. */
const SECOND_DIGITS = 15;

/**
 * The time this long after the beginning of 1970, with all digits.
 * @param below the number of digits before the decimal point that are below the second
 * @returns undefined if the text is not a number, or the year is not from 1 to 9999
 */
export function epochTimestamp(text: string, below: number): string | undefined {
  const [, sign, whole, fraction = '', exponent = '0'] = JSON_NUMBER.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const digits = whole + fraction;
  const point = whole.length + Number(exponent) - below;
  if (point > SECOND_DIGITS || digits.length - point > FRACTION_DIGITS) return undefined;
  const size = Number(digits.slice(0, Math.max(0, point)).padEnd(point, '0'));
  const rest = ('0'.repeat(Math.max(0, -point)) + digits.slice(Math.max(0, point))).replace(/0+$/, '');
  const isBefore = sign === '-' && rest !== '';
  const seconds = (sign === '-' ? -size : size) - (isBefore ? 1 : 0);
  if (seconds < FIRST_SECOND || seconds > LAST_SECOND) return undefined;
  const time = new Date(seconds * 1_000).toISOString().slice(0, 'YYYY-MM-DDTHH:MM:SS'.length);
  // The fraction counts from the preceding second.
  const shown = isBefore ? String(10n ** BigInt(rest.length) - BigInt(rest)).padStart(rest.length, '0') : rest;
  return `${time}${shown === '' ? '' : `.${shown}`}Z`;
}
