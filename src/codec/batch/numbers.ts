/** INTEGER and FLOAT cells (contract section 4). */
import { INT64_MAX, INT64_MIN } from '../../contract/int64.js';
import type { JsonNode } from '../json/nodes.js';
import { readDecimal } from './decimal.js';
import { CellError, shown, type Cell } from './cell-error.js';

const DECIMAL_STRING = /^-?(?:0|[1-9][0-9]*)$/;
const LEADING_ZEROS = /^-?0[0-9]+$/;
const INT64_DIGITS = 19;

/**
 * Accepts a JSON number whose value is integral (`1.0`, `1e3`), or a string of decimal digits, within int64. Returns
 * plain digits.
 */
export function readInteger(node: JsonNode): Cell {
  const text = node.kind === 'number' ? node.text : node.kind === 'string' ? node.value : '';
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
export function readFloat(node: JsonNode): Cell {
  const text = node.kind === 'number' ? node.text : node.kind === 'string' ? node.value : '';
  if (node.kind === 'string' && NOT_FINITE.has(text)) return text;
  const number = readDecimal(text);
  if (number === undefined) {
    return new CellError(
      `${shown(node)} is not a number`,
      'Send a JSON number, a string that is one, "NaN", "Infinity" or "-Infinity".',
    );
  }
  const double = Number(text);
  if (!Number.isFinite(double)) return new CellError(`${shown(node)} is too large for FLOAT`);
  if (double === 0 && number.digits !== '') return new CellError(`${shown(node)} is too close to zero for FLOAT`);
  return text;
}
