/** Decimal numbers by their digits: decides without a double whether a number is integral or fits a type. */

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
export function readDecimal(text: string): Decimal | undefined {
  const match = JSON_NUMBER.exec(text);
  if (match === null) return undefined;
  const [, sign, whole = '', fraction = '', exponent = '0'] = match;
  const written = (whole + fraction).replace(/^0+/, '');
  let end = written.length;
  while (written[end - 1] === '0') end -= 1;
  const writtenExponent = Number(exponent);
  return {
    negative: sign === '-',
    digits: written.slice(0, end),
    exponent: end === 0 ? 0 : writtenExponent - fraction.length + (written.length - end),
    fractionDigits: fraction.length,
    writtenExponent,
  };
}

/** Postgres manual 8.1: up to 131072 digits before the point, and up to 16383 after it, including trailing zeros. */
const NUMERIC_WHOLE_DIGITS = 131_072;
const NUMERIC_FRACTION_DIGITS = 16_383;
/** From INT_MAX / 2 on, Postgres refuses any exponent, even of a zero (numeric.c, set_var_from_str). */
const NUMERIC_EXPONENT = 2 ** 30 - 2;

/** Whether this JSON number fits Postgres's `numeric`, which jsonb uses for numbers. */
export function fitsNumeric(text: string): boolean {
  if (text.length <= NUMERIC_FRACTION_DIGITS && !/[eE]/.test(text)) return true;
  const number = readDecimal(text);
  return (
    number !== undefined &&
    Math.abs(number.writtenExponent) <= NUMERIC_EXPONENT &&
    number.fractionDigits - number.writtenExponent <= NUMERIC_FRACTION_DIGITS &&
    number.digits.length + number.exponent <= NUMERIC_WHOLE_DIGITS
  );
}
