/**
 * real and double precision from Postgres's binary format (their text depends on extra_float_digits), always with the
 * fewest digits that read back as the same number.
 */
import { NINE, QUOTE } from './ascii.js';
import type { ByteWriter } from './byte-writer.js';
import type { ValueWriter } from './value.js';

/** Reads the number in `input[start, …)` and returns its shortest decimal text, as JSON and JavaScript write it. */
type FloatText = (input: Buffer, start: number) => string;

/** double precision (8 bytes). */
const float8Text: FloatText = (input, start) => numberText(input.readDoubleBE(start));

/** real (4 bytes). */
const float4Text: FloatText = (input, start) => numberText(shortestFloat4(input.readFloatBE(start)));

/** A JSON number; NaN and the infinities are strings. */
function jsonFloat(textOf: FloatText): ValueWriter {
  return (input, start, _end, out) => {
    const text = textOf(input, start);
    const last = text.charCodeAt(text.length - 1);
    if (isLetter(last)) writeQuoted(text, out);
    else out.ascii(text);
  };
}

/** The same without quotes. */
function plainFloat(textOf: FloatText): ValueWriter {
  return (input, start, _end, out) => out.ascii(textOf(input, start));
}

export const writeJsonFloat4 = jsonFloat(float4Text);
export const writeJsonFloat8 = jsonFloat(float8Text);
export const writePlainFloat4 = plainFloat(float4Text);
export const writePlainFloat8 = plainFloat(float8Text);

/** `NaN` and `Infinity` end in a letter, numbers in a digit. */
function isLetter(character: number): boolean {
  return character > NINE;
}

function writeQuoted(text: string, out: ByteWriter): void {
  out.byte(QUOTE);
  out.ascii(text);
  out.byte(QUOTE);
}

/** Like String(), which has the fewest digits (ECMAScript Number::toString), but -0 keeps its sign. */
function numberText(value: number): string {
  return value === 0 && Object.is(value, -0) ? '-0' : String(value);
}

/**
 * The double with the fewest digits among those that round to this float4. Six digits always survive the way through a
 * float4, so fewer need no trial; only numbers below the smallest normal one have less than six.
 */
function shortestFloat4(value: number): number {
  if (value === 0 || !Number.isFinite(value)) return value;
  for (let digits = Math.abs(value) < 2 ** -126 ? 1 : 6; digits < 9; digits++) {
    const text = value.toExponential(digits - 1);
    const nearest = Number(text);
    if (Math.fround(nearest) === value) return nearest;
    // Above a power of two, floats lie twice as far apart as below: the next longer number may do where the nearest
    // does not.
    const lastDigit = Math.sign(value) * 10 ** (Number(text.slice(text.indexOf('e') + 1)) - digits + 1);
    const longer = Number((nearest + lastDigit).toPrecision(digits));
    if (Math.fround(longer) === value) return longer;
  }
  return Number(value.toPrecision(9));
}

/**
 * A double as Postgres writes it, for values that are answered as Postgres's text: scientific below 1e-4 and from 1e15
 * on, with two digits of exponent at least (float8out of Postgres).
 */
export function postgresFloat8(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const [digits, power] = value.toExponential().split('e') as [string, string];
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 15) return numberText(value);
  return `${digits}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
}
