/**
 * Converts real, double precision and the geometric types from Postgres's binary format, because their text depends on
 * extra_float_digits. Always uses the fewest digits that read back as the same number.
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
function postgresFloat8(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const [digits, power] = value.toExponential().split('e') as [string, string];
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 15) return numberText(value);
  return `${digits}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
}

// The geometric types (Postgres manual, Geometric Types), which contain double precision numbers.

const POINT_BYTES = 16;

const float8 = (bytes: Buffer, at: number): string => postgresFloat8(bytes.readDoubleBE(at));

const point = (bytes: Buffer, at: number): string => `(${float8(bytes, at)},${float8(bytes, at + 8)})`;

/** The points from `start` on, separated by commas. */
function points(bytes: Buffer, start: number): string {
  const texts: string[] = [];
  for (let at = start; at < bytes.length; at += POINT_BYTES) texts.push(point(bytes, at));
  return texts.join(',');
}

/** Such as `(1,2)`. */
export const pointText = (bytes: Buffer): string => point(bytes, 0);

/** Such as `[(1,2),(3,4)]`. */
export const lineSegmentText = (bytes: Buffer): string => `[${points(bytes, 0)}]`;

/** Such as `(3,4),(1,2)`. */
export const boxText = (bytes: Buffer): string => points(bytes, 0);

/** A line Ax + By + C = 0, as `{A,B,C}`. */
export const lineText = (bytes: Buffer): string => `{${float8(bytes, 0)},${float8(bytes, 8)},${float8(bytes, 16)}}`;

/** Flag (closed), int32 count, points. A closed path is `((1,2),(3,4))`; an open one has brackets. */
export const pathText = (bytes: Buffer): string => (bytes[0] === 1 ? `(${points(bytes, 5)})` : `[${points(bytes, 5)}]`);

/** int32 count, points; such as `((1,2),(3,4))`. */
export const polygonText = (bytes: Buffer): string => `(${points(bytes, 4)})`;

/** Center and radius, such as `<(1,2),3>`. */
export const circleText = (bytes: Buffer): string => `<${point(bytes, 0)},${float8(bytes, POINT_BYTES)}>`;
