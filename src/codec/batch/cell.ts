/** One cell: a JSON value and the column it is for. The grammar is that of contract C5, not Postgres's. */
import { isDate } from '../../contract/calendar.js';
import { INT64_MAX, INT64_MIN } from '../../contract/column-types.js';
import { isUuid } from '../../contract/patterns.js';
import { type JsonArray, type JsonNode, jsonText } from '../json/nodes.js';
import { visitJson } from '../json/read-json.js';
import { type Cell, CellError, shown, textError } from './cell-error.js';
import type { BatchColumn } from './table-layout.js';

export function readCell(column: BatchColumn, node: JsonNode): Cell {
  if (column.isId) return readId(node);
  if (node.kind === 'null') return null;
  switch (column.type) {
    case 'TEXT':
      return readText(node, 'Send a string, or keep nested JSON in a JSONB column.');
    case 'INTEGER':
      return readInteger(node);
    case 'FLOAT':
      return readFloat(node);
    case 'BOOLEAN':
      return node.kind === 'boolean' ? String(node.value) : notABoolean(node);
    case 'TIMESTAMP':
      return readTimestamp(node);
    case 'JSONB':
      return readJsonb(node);
    case null:
      return readOther(column, node);
  }
}

function readId(node: JsonNode): Cell {
  if (node.kind === 'string' && isUuid(node.value)) return node.value;
  return new CellError(`${shown(node)} is not a UUID`, 'Omit `id`, and the server generates one.');
}

function notABoolean(node: JsonNode): CellError {
  return new CellError(`${shown(node)} is not a boolean`, 'Send true or false.');
}

/** A number or boolean becomes its JSON text, with digits as sent. */
export function readText(node: JsonNode, hint?: string): Cell {
  switch (node.kind) {
    case 'string':
      return textError(node.value) ?? node.value;
    case 'number':
      return node.text;
    case 'boolean':
      return String(node.value);
    default:
      return new CellError(`${shown(node)} does not fit this column`, hint);
  }
}

/** A Postgres type from free SQL accepts what Postgres accepts: its text, or nested JSON if the type holds JSON. */
function readOther(column: BatchColumn, node: JsonNode): Cell {
  if (column.isJson) return readJsonText(node);
  if (column.isArray && node.kind === 'array')
    return readArray(node, TIMESTAMP_ARRAY.test(column.displayType) ? elementOfTimestamps : undefined);
  return readText(node, `Send the value of ${column.displayType} as a string, as Postgres writes it.`);
}

// INTEGER and FLOAT cells (contract C5.3, C5.4).

const DECIMAL_STRING = /^-?(?:0|[1-9][0-9]*)$/;
const LEADING_ZEROS = /^-?0[0-9]+$/;
const INT64_DIGITS = 19;

/** Most integers are a few digits, as Postgres writes them. */
const FEW_DIGITS = /^(?:0|-?[1-9][0-9]{0,14})$/;

/**
 * Accepts a JSON number whose value is integral (`1.0`, `1e3`), or a string of decimal digits, within int64. Returns
 * plain digits.
 */
function readInteger(node: JsonNode): Cell {
  const text = node.kind === 'number' ? node.text : node.kind === 'string' ? node.value : '';
  if (FEW_DIGITS.test(text)) return text;
  const number = node.kind === 'string' && !DECIMAL_STRING.test(text) ? undefined : readDecimal(text);
  if (number === undefined || number.exponent < 0) {
    return new CellError(
      `${shown(node)} is not an integer`,
      LEADING_ZEROS.test(text)
        ? 'INTEGER keeps no leading zeros: send it without them, or use a TEXT column.'
        : 'Send a whole number, or a string of decimal digits.',
    );
  }
  const outside = new CellError(`${shown(node)} is outside the range of INTEGER, ${INT64_MIN} to ${INT64_MAX}`);
  if (number.digits.length + number.exponent > INT64_DIGITS) return outside;
  const value = BigInt(`${number.negative ? '-' : ''}${number.digits || '0'}${'0'.repeat(number.exponent)}`);
  return value < INT64_MIN || value > INT64_MAX ? outside : String(value);
}

const NOT_FINITE = new Set(['NaN', 'Infinity', '-Infinity']);

/**
 * Accepts a JSON number, a string that is one, or the name of a value that is not finite. Returns the text as sent.
 * Like Postgres, refuses a number that would overflow to infinity or underflow to zero.
 */
function readFloat(node: JsonNode): Cell {
  const text = node.kind === 'number' ? node.text : node.kind === 'string' ? node.value : '';
  if (node.kind === 'string' && NOT_FINITE.has(text)) return text;
  const double = Number(text);
  if (node.kind === 'number' && Number.isFinite(double) && double !== 0) return text;
  const number = readDecimal(text);
  if (number === undefined) {
    return new CellError(
      `${shown(node)} is not a number`,
      'Send a JSON number, a string that is one, "NaN", "Infinity" or "-Infinity".',
    );
  }
  if (!Number.isFinite(double)) return new CellError(`${shown(node)} is too large for FLOAT`);
  if (double === 0 && number.digits !== '') return new CellError(`${shown(node)} is too close to zero for FLOAT`);
  return text;
}

// Decimal numbers by their digits: decides without a double whether a number is integral or fits a type.

/** ±digits × 10^exponent. */
interface Decimal {
  readonly negative: boolean;
  /** Without leading and trailing zeros; empty for zero. */
  readonly digits: string;
  /** The exponent of the last digit; 0 for zero, ±Infinity if the text has hundreds of digits. */
  readonly exponent: number;
  /** As written: the number of digits after the point, and the number after `e`. */
  readonly fractionDigits: number;
  readonly writtenExponent: number;
}

const JSON_NUMBER = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/;

/** Parses a JSON number (RFC 8259 section 6); undefined for other texts. */
function readDecimal(text: string): Decimal | undefined {
  const match = JSON_NUMBER.exec(text);
  if (match === null) return undefined;
  const [, sign, whole = '', fraction = '', exponent = '0'] = match;
  const significant = (whole + fraction).replace(/^0+/, '');
  let end = significant.length;
  while (significant[end - 1] === '0') end -= 1;
  const writtenExponent = Number(exponent);
  return {
    negative: sign === '-',
    digits: significant.slice(0, end),
    exponent: end === 0 ? 0 : writtenExponent - fraction.length + (significant.length - end),
    fractionDigits: fraction.length,
    writtenExponent,
  };
}

/**
 * Postgres manual, Numeric Types: up to 131072 digits before the point, and up to 16383 after it, including trailing
 * zeros.
 */
const NUMERIC_WHOLE_DIGITS = 131_072;
const NUMERIC_FRACTION_DIGITS = 16_383;
/** From INT_MAX / 2 on, Postgres refuses any exponent, even of a zero (numeric.c, set_var_from_str). */
const NUMERIC_EXPONENT = 2 ** 30 - 2;

/** Whether this JSON number fits Postgres's `numeric`, which jsonb uses for numbers. */
function fitsNumeric(text: string): boolean {
  if (text.length <= NUMERIC_FRACTION_DIGITS && !/[eE]/.test(text)) return true;
  const number = readDecimal(text);
  return (
    number !== undefined &&
    Math.abs(number.writtenExponent) <= NUMERIC_EXPONENT &&
    number.fractionDigits - number.writtenExponent <= NUMERIC_FRACTION_DIGITS &&
    number.digits.length + number.exponent <= NUMERIC_WHOLE_DIGITS
  );
}

// Nested JSON: values of JSONB and json columns, and arrays for columns of a Postgres array type.

/** Any JSON as the text that was sent, so that no digit is lost. JSON null is NULL. */
function readJsonb(node: JsonNode): Cell {
  return invalidInside(node, 'jsonb') ?? jsonCell(node);
}

/** As for `jsonb`, except that `json` keeps numbers as text and so accepts all of them. */
export function readJsonText(node: JsonNode): Cell {
  return invalidInside(node, 'json') ?? jsonCell(node);
}

/**
 * A JSON array as Postgres's array literal (Postgres manual, Array Value Input); an object in it becomes its JSON text.
 * @param read a string as the type of the elements takes it
 */
export function readArray(node: JsonArray, read = (text: string): string => text): Cell {
  return invalidInside(node, 'json') ?? arrayLiteral(node, read);
}

const arrayLiteral = ({ items }: JsonArray, read: (text: string) => string): string =>
  `{${items.map((item) => arrayElement(item, read)).join(',')}}`;

/** Quoted, so that nothing in it is syntax, and the text NULL is not a null. */
function arrayElement(node: JsonNode, read: (text: string) => string): string {
  if (node.kind === 'array') return arrayLiteral(node, read);
  const text = node.kind === 'string' ? read(node.value) : jsonCell(node);
  return text === null ? 'NULL' : `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** JSON null is NULL. */
const jsonCell = (node: JsonNode): string | null => (node.kind === 'null' ? null : jsonText(node));

/** Visits the nested text: a tree would take many times as much memory. */
function invalidInside(node: JsonNode, type: 'json' | 'jsonb'): CellError | undefined {
  if (node.kind === 'string') return textError(node.value);
  if (node.kind === 'number') return numberError(node.text, type);
  if (node.kind !== 'array' && node.kind !== 'object') return undefined;
  let error: CellError | undefined;
  visitJson(node.text, {
    // Postgres accepts all unescaped text: the body is UTF-8, and JSON can contain U+0000 only as an escape.
    escaped: (text) => (error ??= MAY_BE_UNSTORABLE.test(text) ? textError(JSON.parse(text) as string) : undefined),
    number: (text) => (error ??= numberError(text, type)),
  });
  return error;
}

/** An escape of U+0000 or of a surrogate. Most texts have none and need no decoding. */
const MAY_BE_UNSTORABLE = /\\u(?:0000|[dD][89a-fA-F])/;

function numberError(text: string, type: 'json' | 'jsonb'): CellError | undefined {
  if (type === 'json' || fitsNumeric(text)) return undefined;
  return new CellError(`the number ${shown({ kind: 'number', text })} is beyond what JSONB can hold`);
}

// TIMESTAMP cells (contract C5.6): RFC 3339 section 5.6. Without an offset, a time is UTC; a date alone is midnight
// UTC. What is beyond RFC 3339 is taken in the form in which responses have it.

const DATE = /(\d{4})-(\d\d)-(\d\d)/;
const TIME = /(\d\d):(\d\d):(\d\d)(?:\.(\d+))?/;
const OFFSET = /[Zz]|([+-])(\d\d):(\d\d)/;
const TIMESTAMP = new RegExp(`^${DATE.source}(?:[Tt ]${TIME.source}(?:${OFFSET.source})?)?$`);

/** ECMAScript's expanded years: a sign and six digits, where 0 is 1 BC. */
const EXPANDED =
  /^(?<year>(?!-000000)[+-]\d{6})-(?<month>\d\d)-(?<day>\d\d)T(?<time>[0-2]\d:[0-5]\d:[0-5]\d(?:\.\d{1,6})?)Z$/;

/** Postgres's timestamps begin on 24 November 4714 BC, and end with this year. */
const [FIRST_DAY, LAST_YEAR] = [[-4713, 11, 24], 294_276] as const;

const MINUTES_OF_A_DAY = 24 * 60;
/** Postgres reads timestamps of up to 128 characters. Fewer digits than this decide how it rounds to microseconds. */
const FRACTION_DIGITS = 80;

/** Returns a timestamp with its offset, which does not depend on DateStyle and TimeZone. */
function readTimestamp(node: JsonNode): Cell {
  const text = node.kind === 'string' ? node.value : '';
  const parts = TIMESTAMP.exec(text);
  if (parts === null) {
    const expanded = EXPANDED.exec(text)?.groups;
    if (expanded !== undefined)
      return expandedTimestamp(expanded) ?? new CellError(`${shown(node)} is not a valid time`);
    return new CellError(
      `${shown(node)} is not a timestamp`,
      'Send an RFC 3339 string such as "2026-01-31T12:34:56.789Z" or "2026-01-31".',
    );
  }
  const [, year = '', month = '', day = '', hour = '00', minute = '00', second = '00', fraction = ''] = parts;
  const [sign = '+', offsetHour = '00', offsetMinute = '00'] = parts.slice(8);
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

  const digits = fraction === '' ? '' : `.${shortened(fraction)}`;
  const time = `${hour}:${minute}:${second}${digits}${sign}${offsetHour}:${offsetMinute}`;
  return postgresTimestamp(Number(year), `-${month}-${day} ${time}`);
}

/** The year 0 of ISO 8601 is the year before 1, which Postgres calls 1 BC. */
const postgresTimestamp = (year: number, rest: string): string =>
  `${String(year < 1 ? 1 - year : year).padStart(4, '0')}${rest}${year < 1 ? ' BC' : ''}`;

/** A column of timestamps, as {@link BatchColumn.displayType} names it. */
const TIMESTAMP_ARRAY = /^timestamp(?:\(\d\))? with time zone\[\]$/;

/** Postgres reads all but the years beyond RFC 3339 as responses have them. */
function elementOfTimestamps(text: string): string {
  const expanded = EXPANDED.exec(text)?.groups;
  return (expanded && expandedTimestamp(expanded)) ?? text;
}

function expandedTimestamp({ year = '', month = '', day = '', time = '' }: Record<string, string>): string | undefined {
  const date = [Number(year), Number(month), Number(day)] as const;
  const isStorable = isDate(...date) && Number(time.slice(0, 2)) <= 23 && date[0] <= LAST_YEAR && isFromFirstDay(date);
  return isStorable ? postgresTimestamp(date[0], `-${month}-${day} ${time}+00`) : undefined;
}

function isFromFirstDay([year, month, day]: readonly [number, number, number]): boolean {
  const [firstYear, firstMonth, firstDay] = FIRST_DAY;
  if (year !== firstYear) return year > firstYear;
  return month > firstMonth || (month === firstMonth && day >= firstDay);
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
