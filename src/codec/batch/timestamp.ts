/**
 * TIMESTAMP cells (contract section 4): RFC 3339 section 5.6. Without an offset, a time is UTC; a date alone is
 * midnight UTC.
 */
import { isDate } from '../../contract/calendar.js';
import type { JsonNode } from '../json/nodes.js';
import { CellError, shown, type Cell } from './cell-error.js';

const DATE = /(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)/;
const TIME = /(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)(?:\.(?<fraction>\d+))?/;
const OFFSET = /[Zz]|(?<sign>[+-])(?<offsetHour>\d\d):(?<offsetMinute>\d\d)/;
const TIMESTAMP = new RegExp(`^${DATE.source}(?:[Tt ]${TIME.source}(?:${OFFSET.source})?)?$`);

const MINUTES_OF_A_DAY = 24 * 60;
/** Postgres reads timestamps of up to 128 characters. Fewer digits than this decide how it rounds to microseconds. */
const FRACTION_DIGITS = 80;

/** Returns a timestamp with its offset, which does not depend on DateStyle and TimeZone. */
export function readTimestamp(node: JsonNode): Cell {
  const parts = node.kind === 'string' ? TIMESTAMP.exec(node.value)?.groups : undefined;
  if (parts === undefined) {
    return new CellError(
      `${shown(node)} is not a timestamp`,
      'Send an RFC 3339 string such as "2026-01-31T12:34:56.789Z" or "2026-01-31".',
    );
  }
  const { year = '', month = '', day = '', hour = '00', minute = '00', second = '00', fraction = '' } = parts;
  const { sign = '+', offsetHour = '00', offsetMinute = '00' } = parts;
  if (Number(offsetHour) > 15 || Number(offsetMinute) > 59) {
    return new CellError(`${shown(node)} has an offset that is not within ±15:59`);
  }
  const offset = Number(`${sign}1`) * (Number(offsetHour) * 60 + Number(offsetMinute));
  const minuteOfDay = Number(hour) * 60 + Number(minute);
  const exists =
    isDate(Number(year), Number(month), Number(day)) &&
    Number(hour) <= 23 &&
    Number(minute) <= 59 &&
    (Number(second) <= 59 || isLeapSecond(second, fraction, minuteOfDay - offset));
  if (!exists) return new CellError(`${shown(node)} is not a valid time`);

  // The year 0000 of RFC 3339 (of ISO 8601) is the year before 0001, which Postgres calls 1 BC.
  const [postgresYear, era] = year === '0000' ? ['0001', ' BC'] : [year, ''];
  const digits = fraction === '' ? '' : `.${shortened(fraction)}`;
  return `${postgresYear}-${month}-${day} ${hour}:${minute}:${second}${digits}${sign}${offsetHour}:${offsetMinute}${era}`;
}

/**
 * RFC 3339 section 5.7: second 60 occurs only at the end of a UTC day. Postgres stores it as the following midnight,
 * and refuses a fraction.
 */
function isLeapSecond(second: string, fraction: string, utcMinute: number): boolean {
  const minuteOfDay = (utcMinute + MINUTES_OF_A_DAY) % MINUTES_OF_A_DAY;
  return second === '60' && /^0*$/.test(fraction) && minuteOfDay === MINUTES_OF_A_DAY - 1;
}

/** The digits cut off may affect rounding: a last digit 1 replaces them if one of them is not zero. */
function shortened(fraction: string): string {
  if (fraction.length <= FRACTION_DIGITS) return fraction;
  const rest = fraction.slice(FRACTION_DIGITS);
  return fraction.slice(0, FRACTION_DIGITS) + (/[1-9]/.test(rest) ? '1' : '');
}
