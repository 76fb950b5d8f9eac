/** Numbers in bytes against what JavaScript makes of their text, which is right by its standard. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { NumberBytes } from '../../../../src/engine/batch/copy/number-bytes.js';

const number = new NumberBytes();
const bytes = (text: string) => new TextEncoder().encode(`${text},\0\0\0`);

const digits = (min: number, max: number) =>
  fc.array(fc.nat(9), { minLength: min, maxLength: max }).map((list) => list.join(''));
const decimal = fc
  .tuple(fc.constantFrom('', '-'), digits(0, 20), digits(0, 25), fc.option(fc.integer({ min: -330, max: 310 })))
  .map(([sign, whole, fraction, exponent]) => {
    const number = sign + (whole.replace(/^0+/, '') || '0') + (fraction === '' ? '' : `.${fraction}`);
    return exponent === null ? number : `${number}e${exponent}`;
  });

function sameDouble(text: string): void {
  const body = bytes(text);
  const end = number.float(body, 0);
  const expected = Number(text);
  const isZero = !/[1-9]/.test(text.split('e')[0] ?? '');
  if (!Number.isFinite(expected) || (expected === 0 && !isZero)) expect([text, end]).toEqual([text, -1]);
  else expect([text, end, number.double]).toEqual([text, text.length, expected]);
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

it('rounds what lies in the middle of two doubles, and beside it, as JavaScript does', () => {
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

it('makes an int64 of every integer that is one', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 65n), max: 2n ** 65n }), fc.nat(64), (value, shift) => {
      const text = String(value >> BigInt(shift));
      const end = number.integer(bytes(text), 0, true);
      const expected = BigInt(text);
      // The smallest of all is left to the reference.
      if (expected <= -(2n ** 63n) || expected >= 2n ** 63n) expect([text, end]).toEqual([text, -1]);
      else {
        const { high, low } = number.int64;
        expect([text, end, (BigInt(high | 0) << 32n) | BigInt(low >>> 0)]).toEqual([text, text.length, expected]);
      }
    }),
    { numRuns: 20_000 },
  );
});

it.each(['', '-', '01', '-01', '.5', '5.', '1.e5', '1e', '1e+', '1.2.3', '+1', 'NaN'])('takes no %j', (text) => {
  const body = bytes(text);
  expect(body[number.float(body, 0)]).not.toBe(','.charCodeAt(0));
  expect(body[number.integer(body, 0, true)]).not.toBe(','.charCodeAt(0));
});
