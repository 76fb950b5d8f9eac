/**
 * Converts real and double precision from Postgres's binary format, because their text depends on extra_float_digits.
 * Always uses the fewest digits that read back as the same number.
 */

/** double precision as in JSON and JavaScript. */
export const float8Text = (bytes: Buffer): string => numberText(bytes.readDoubleBE());

export const float4Text = (bytes: Buffer): string => numberText(shortestFloat4(bytes.readFloatBE()));

/** A JSON number; NaN and infinities are strings. */
export const jsonFloat = (text: string): string => (/[a-zA-Z]$/.test(text) ? `"${text}"` : text);

/** Like String(), which uses the fewest digits (ECMAScript Number::toString), but -0 keeps its sign. */
function numberText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value);
}

/**
 * The double with the fewest digits among those that round to this float4. A float4 always preserves six digits, so
 * fewer need no attempt; only numbers below the smallest normal one have fewer than six.
 */
function shortestFloat4(value: number): number {
  if (value === 0 || !Number.isFinite(value)) return value;
  for (let digits = Math.abs(value) < 2 ** -126 ? 1 : 6; digits < 9; digits++) {
    const text = value.toExponential(digits - 1);
    const nearest = Number(text);
    if (Math.fround(nearest) === value) return nearest;
    // Above a power of two, floats are twice as far apart as below: the next longer number may fit if the nearest does
    // not.
    const lastDigit = Math.sign(value) * 10 ** (Number(text.slice(text.indexOf('e') + 1)) - digits + 1);
    const longer = Number((nearest + lastDigit).toPrecision(digits));
    if (Math.fround(longer) === value) return longer;
  }
  return Number(value.toPrecision(9));
}

/**
 * A double as Postgres writes it, for values returned as Postgres's text: scientific below 1e-4 and from 1e15 on, with
 * at least two digits of exponent (float8out of Postgres).
 */
export function postgresFloat8(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const [digits, power] = value.toExponential().split('e') as [string, string];
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 15) return numberText(value);
  return `${digits}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
}
