/** Numbers parsed from bytes, compared with what JavaScript makes of the same text, which its standard defines. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { bytes, column } from './shapes.js';
import { fast, tableOf } from './tables.js';

const FLOATS = tableOf(column('n', 'FLOAT'));
const INTEGERS = tableOf(column('n', 'INTEGER'));

/** The bits of a cell of eight bytes; null where the fast path does not take it. */
function encoded(plan: typeof FLOATS, json: string): DataView | null {
  const batch = fast(plan, bytes(`[{"n":${json}}]`));
  if (batch === null) return null;
  const copy = Buffer.from(batch.data);
  // A count of cells, a length, the cell.
  expect(copy.length).toBe(2 + 4 + 8);
  return new DataView(copy.buffer, copy.byteOffset + 6, 8);
}

const double = (text: string): number | null => encoded(FLOATS, text)?.getFloat64(0) ?? null;
const int64 = (text: string): bigint | null => encoded(INTEGERS, text)?.getBigInt64(0) ?? null;

const digits = (min: number, max: number) =>
  fc.array(fc.nat(9), { minLength: min, maxLength: max }).map((list) => list.join(''));
const decimal = fc
  .tuple(fc.constantFrom('', '-'), digits(0, 20), digits(0, 25), fc.option(fc.integer({ min: -330, max: 310 })))
  .map(([sign, whole, fraction, exponent]) => {
    const number = sign + (whole.replace(/^0+/, '') || '0') + (fraction === '' ? '' : `.${fraction}`);
    return exponent === null ? number : `${number}e${exponent}`;
  });

function sameDouble(text: string): void {
  const expected = Number(text);
  const isZero = !/[1-9]/.test(text.split('e')[0] ?? '');
  const isStored = Number.isFinite(expected) && (expected !== 0 || isZero);
  expect([text, double(text)]).toEqual([text, isStored ? expected : null]);
}

it('rounds a float to the nearest double', () => {
  fc.assert(fc.property(decimal, sameDouble), { numRuns: 20_000 });
});

it('rounds the shortest text of a double to that double', () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => sameDouble(String(value))),
    { numRuns: 20_000 },
  );
});

it('rounds midpoints between two doubles, and values next to them, like JavaScript', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 2n ** 53n, max: 2n ** 59n }), fc.integer({ min: -22, max: 22 }), (value, exponent) => {
      const step = 2n ** BigInt(value.toString(2).length - 53);
      const middle = (value / step) * step + step / 2n;
      for (const near of [middle - 1n, middle, middle + 1n]) {
        sameDouble(String(near));
        sameDouble(`${near}e${exponent}`);
      }
    }),
    { numRuns: 5_000 },
  );
});

/** As many digits of `numerator` / `denominator` × 10^-exponent as there are before the point, and the exponent. */
function scaled(numerator: bigint, denominator: bigint, digits: number): [mantissa: bigint, exponent: number] {
  let exponent = numerator.toString().length - denominator.toString().length - digits;
  const mantissa = () =>
    (numerator * 10n ** BigInt(Math.max(0, -exponent))) / (denominator * 10n ** BigInt(Math.max(0, exponent)));
  while (mantissa().toString().length > digits) exponent++;
  return [mantissa(), exponent];
}

it('rounds the first digits of the midpoint of any two doubles, and values next to them, like JavaScript', () => {
  const double = fc.tuple(fc.bigInt({ min: 2n ** 52n, max: 2n ** 53n - 1n }), fc.integer({ min: -1070, max: 960 }));
  fc.assert(
    fc.property(double, fc.integer({ min: 15, max: 19 }), ([significand, power], digits) => {
      const middle = 2n * significand + 1n;
      const [up, down] = power > 0 ? [2n ** BigInt(power), 1n] : [1n, 2n ** BigInt(-power)];
      const [mantissa, exponent] = scaled(middle * up, down * 2n, digits);
      for (const near of [mantissa - 1n, mantissa, mantissa + 1n]) sameDouble(`${near}e${exponent}`);
    }),
    { numRuns: 5_000 },
  );
});

it('parses every 64-bit integer', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 65n), max: 2n ** 65n }), fc.nat(64), (value, shift) => {
      const expected = value >> BigInt(shift);
      const isOne = expected >= -(2n ** 63n) && expected < 2n ** 63n;
      expect([expected, int64(String(expected))]).toEqual([expected, isOne ? expected : null]);
      expect([expected, int64(`"${expected}"`)]).toEqual([expected, isOne ? expected : null]);
    }),
    { numRuns: 10_000 },
  );
});

it.each(['', '-', '01', '-01', '.5', '5.', '1.e5', '1e', '1e+', '1.2.3', '+1', 'NaN'])('refuses %j', (text) => {
  expect(double(text)).toBeNull();
  expect(int64(text)).toBeNull();
});
