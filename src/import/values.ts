/** Converts cells of delimited text to JSON values: numbers with all their digits, booleans, times. */
import { INT64_MAX, INT64_MIN } from '../contract/column-types.js';
import { escapedInPattern } from './csv-reader.js';
import { isJson } from './json-records.js';
import { type DateOrder, type EpochDigits, epochTimestamp, isAllNumericDate, parseTimestamp } from './timestamps.js';

/** How a file writes numbers and dates. */
export interface Notation extends NumberNotation {
  /** Default: only unambiguous dates are dates. */
  dates?: DateOrder | undefined;
  /** Numbers are times. */
  epoch?: EpochDigits | undefined;
}

export interface NumberNotation {
  /** Separates the whole part from the fraction. */
  decimal: '.' | ',';
  /** Separates groups of three digits, if there are any. */
  thousands?: string;
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const BARE_FRACTION = /^-?\.\d+(?:[eE][+-]?\d+)?$/;

/** Spreadsheets write non-breaking spaces and typographic apostrophes. */
const VARIANTS: Readonly<Record<string, string>> = { ' ': '[ \u00a0\u202f]', "'": "['’]" };

/**
 * Reads a number; undefined if the text is not one. Leading zeros or a plus sign make it text: zip codes and telephone
 * numbers.
 */
export function numberReader({ decimal, thousands }: NumberNotation): (text: string) => string | undefined {
  const toJson = (text: string): string | undefined => {
    if (NUMBER.test(text)) return text;
    return BARE_FRACTION.test(text) ? text.replace('.', '0.') : undefined;
  };
  if (decimal === '.' && thousands === undefined) return (text) => toJson(text.trim());
  const group = thousands === undefined ? undefined : (VARIANTS[thousands] ?? escapedInPattern(thousands));
  const groups = group === undefined ? undefined : new RegExp(group, 'g');
  const whole = group === undefined ? '\\d*' : `(?:\\d{1,3}(?:${group}\\d{3})+|\\d*)`;
  const pattern = new RegExp(`^-?${whole}(?:\\${decimal}\\d+)?(?:[eE][+-]?\\d+)?$`);
  return (text) => {
    const bare = text.trim();
    if (!pattern.test(bare)) return undefined;
    return toJson((groups === undefined ? bare : bare.replace(groups, '')).replace(decimal, '.'));
  };
}

const INTEGER = /^-?(?:0|[1-9]\d*)$/;

/** Whether the text is a 64-bit integer. */
export function isInteger(text: string): boolean {
  if (!INTEGER.test(text) || text === '-0') return false;
  return text.length < 19 || (BigInt(text) <= INT64_MAX && BigInt(text) >= INT64_MIN);
}

/** Every double preserves this many digits. */
const SAFE_DIGITS = 15;

/** Whether the text is a number that a double holds with all its digits. */
export function isExactDouble(text: string): boolean {
  if (!NUMBER.test(text)) return false;
  if (text.length <= SAFE_DIGITS && !/[eE]/.test(text)) return true;
  return scientific(text) === scientific(String(Number(text)));
}

/** The digits without leading and trailing zeros, and the power of ten: `1200` is `12e2`. */
function scientific(number: string): string {
  const [mantissa = '', exponent = '0'] = number.toLowerCase().replace('-', '').split('e', 2);
  const [whole = '', fraction = ''] = mantissa.split('.');
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  return significant === ''
    ? '0'
    : `${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}

/** A type of the API or of Postgres whose cells are numbers as the file writes them. */
const isNumberType = (type: string): boolean =>
  /^(?:INTEGER|FLOAT|smallint|integer|real|numeric(?:\(\d+,-?\d+\))?)$/.test(type);

/** A type of the API or of Postgres whose cells are dates or times as the file writes them. */
export const isTimeType = (type: string): boolean =>
  /^(?:TIMESTAMP|date|timestamp(?:\(\d\))? with(?:out)? time zone)$/.test(type);

/**
 * Why a cell must not be sent as the file has it: it is none in the notation of the file, but Postgres would read it, as another number
 * or with day and month in an order that nobody has given.
 * @param type a type of the API or of Postgres
 */
export function misreading(type: string, notation: Notation): ((text: string) => string | undefined) | undefined {
  if (notation.epoch !== undefined) return undefined;
  if (isNumberType(type)) {
    const { decimal, thousands } = notation;
    if (decimal === '.' && thousands === undefined) return undefined;
    const [read, readPlain] = [numberReader(notation), numberReader({ decimal: '.' })];
    const written = `the decimal separator ${decimal}${thousands === undefined ? '' : ` and the thousands separator ${thousands}`}`;
    return (text) =>
      read(text) === undefined && readPlain(text) !== undefined ? `is not a number with ${written}` : undefined;
  }
  // The service refuses what is no TIMESTAMP; Postgres has its own order for the others.
  if (!isTimeType(type) || type === 'TIMESTAMP') return undefined;
  return (text) =>
    isAllNumericDate(text) && parseTimestamp(text, notation.dates) === undefined
      ? 'does not show whether the day or the month comes first'
      : undefined;
}

/**
 * @param type a type of the API or of Postgres
 * @returns a function from a cell's text to its JSON
 */
export function cellEncoder(type: string, notation: Notation): (text: string) => string {
  const { epoch } = notation;
  if (epoch !== undefined) {
    const read = numberReader(notation);
    return (text) => JSON.stringify(epochTimestamp(read(text) ?? '', epoch) ?? text);
  }
  if (isNumberType(type)) {
    const read = numberReader(notation);
    return (text) => read(text) ?? JSON.stringify(type === 'FLOAT' ? text.trim() : text);
  }
  if (isTimeType(type)) return (text) => JSON.stringify(parseTimestamp(text, notation.dates) ?? text);
  switch (type) {
    case 'BOOLEAN':
      return (text) => String(parseBoolean(text) ?? JSON.stringify(text));
    case 'JSONB':
    case 'json':
      return (text) => (isJson(text) ? text : JSON.stringify(text));
    default:
      // Exports write arrays as JSON; Postgres reads other text as an array in its own notation.
      if (type.endsWith('[]')) return (text) => (/^\s*\[/.test(text) && isJson(text) ? text : JSON.stringify(text));
      return (text) => JSON.stringify(text);
  }
}

/** The words that Postgres accepts as a boolean. */
const TRUE = ['true', 't', 'yes', 'y', 'on', '1'];
const FALSE = ['false', 'f', 'no', 'n', 'off', '0'];

export function parseBoolean(text: string): boolean | undefined {
  const word = text.trim().toLowerCase();
  if (TRUE.includes(word)) return true;
  return FALSE.includes(word) ? false : undefined;
}
