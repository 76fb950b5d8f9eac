/**
 * Cells on real servers: what contract C5 accepts is stored and reads back equal, and Postgres accepts whatever our
 * grammar accepts.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ColumnType } from '../../../src/contract/column-types.js';
import { testServers } from '../../support/postgres.js';
import { BatchDatabase, type Texts } from './database.js';
import { encode, SIX_TYPES } from './shapes.js';

const REFUSED = Symbol('refused');

describe.each(testServers())('a cell in Postgres $major', ({ connection }) => {
  let database: BatchDatabase;

  beforeAll(async () => {
    database = await BatchDatabase.open(connection);
    await database.create(SIX_TYPES);
  });

  afterAll(() => database.close());

  /** Values of one column, those that the grammar accepts, as Postgres shows them. */
  async function stored(type: ColumnType, values: readonly string[], select: string): Promise<(string | null)[]> {
    const body = `[${values.map((value) => `{"${type.toLowerCase()}":${value}}`).join(',')}]`;
    return (await database.store(body, SIX_TYPES, `${select} AS v`)).map(({ v }) => v as string | null);
  }

  const isAccepted = (type: ColumnType, value: string): boolean => {
    try {
      encode(`[{"${type.toLowerCase()}":${value}}]`, SIX_TYPES);
      return true;
    } catch {
      return false;
    }
  };

  /** Random lists of values: those that should be accepted are, and read back as `expected`; the others are refused. */
  async function agrees<Value>(
    type: ColumnType,
    value: fc.Arbitrary<Value>,
    json: (value: Value) => string,
    expected: (value: Value) => unknown,
    read: { select: string; parse: (text: string) => unknown },
  ): Promise<void> {
    await fc.assert(
      fc.asyncProperty(fc.array(value, { minLength: 1, maxLength: 60 }), async (values) => {
        const good = values.filter((candidate) => expected(candidate) !== REFUSED);
        const bad = values.filter((candidate) => expected(candidate) === REFUSED);
        expect(bad.map(json).filter((text) => isAccepted(type, text))).toEqual([]);
        if (good.length === 0) return;
        const texts = await stored(type, good.map(json), read.select);
        expect(texts.map((text) => (text === null ? null : read.parse(text)))).toEqual(good.map(expected));
      }),
      { numRuns: 40 },
    );
  }

  it('stores TEXT with any characters', async () => {
    const anyText = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({
        unit: fc.constantFrom('"', '\\', '{', '}', ',', 'N', 'U', 'L', '\n', '\u0000', '\ud800', '\udc00', 'é'),
      }),
      fc.constantFrom('NULL', '', ' ', '\\N'),
    );
    const storable = (text: string) => !text.includes('\0') && Buffer.from(text).toString() === text;
    await agrees('TEXT', anyText, JSON.stringify, (text) => (storable(text) ? text : REFUSED), {
      select: 'text',
      parse: (text) => text,
    });
  });

  it('stores INTEGER, however the number is written', async () => {
    const number = fc.record({
      sign: fc.constantFrom('', '-'),
      whole: fc
        .oneof(fc.bigInt({ min: 0n, max: 2n ** 66n }), fc.constantFrom(2n ** 63n, 2n ** 63n - 1n, 0n))
        .map(String),
      fraction: fc.oneof(fc.constant(''), fc.stringMatching(/^0{1,4}$/), fc.stringMatching(/^[0-9]{1,6}$/)),
      exponent: fc.oneof(fc.constant(0), fc.integer({ min: -25, max: 25 })),
    });
    type Written = typeof number extends fc.Arbitrary<infer Value> ? Value : never;
    const json = ({ sign, whole, fraction, exponent }: Written) =>
      `${sign}${whole}${fraction === '' ? '' : `.${fraction}`}${exponent === 0 ? '' : `e${exponent}`}`;
    await agrees(
      'INTEGER',
      number,
      json,
      ({ sign, whole, fraction, exponent }) => {
        const scaled = BigInt(whole + fraction) * 10n ** BigInt(exponent + 40 - fraction.length);
        if (scaled % 10n ** 40n !== 0n) return REFUSED;
        const value = (scaled / 10n ** 40n) * (sign === '-' ? -1n : 1n);
        return BigInt.asIntN(64, value) === value ? value : REFUSED;
      },
      { select: 'integer', parse: BigInt },
    );
  });

  it('stores FLOAT as the nearest double', async () => {
    const number = fc.oneof(
      fc
        .double({ noNaN: true, noDefaultInfinity: true })
        .map((double) => (Object.is(double, -0) ? '-0' : String(double))),
      fc
        .tuple(fc.stringMatching(/^-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?$/), fc.integer({ min: -360, max: 340 }))
        .map(([m, e]) => `${m}e${e}`),
      fc.constantFrom(
        '2.4703282292062327e-324',
        '2.4703282292062328e-324',
        '1.7976931348623158e308',
        '1.7976931348623159e308',
      ),
    );
    await agrees(
      'FLOAT',
      number.chain((text) => fc.constantFrom(text, `"${text}"`)),
      (text) => text,
      (text) => {
        const bare = text.replaceAll('"', '');
        const double = Number(bare);
        const vanishes = double === 0 && /[1-9]/.test(bare.split(/e/)[0] as string);
        return Number.isFinite(double) && !vanishes ? double : REFUSED;
      },
      { select: 'float', parse: Number },
    );
    expect(await stored('FLOAT', ['"NaN"', '"Infinity"', '"-Infinity"', '-0'], 'float')).toEqual([
      'NaN',
      'Infinity',
      '-Infinity',
      '-0',
    ]);
  });

  it('stores TIMESTAMP to the microsecond, whatever the settings of the session', async () => {
    const two = (max: number) => fc.integer({ min: 0, max }).map((number) => String(number).padStart(2, '0'));
    const stamp = fc.record({
      year: fc
        .oneof(fc.integer({ min: 0, max: 9999 }), fc.constantFrom(0, 1, 12, 1900, 2000, 2024, 9999))
        .map((year) => String(year).padStart(4, '0')),
      month: two(13),
      day: two(32),
      hour: two(24),
      minute: fc.oneof({ weight: 9, arbitrary: two(59) }, { weight: 1, arbitrary: fc.constant('60') }),
      second: fc.oneof({ weight: 9, arbitrary: two(59) }, { weight: 1, arbitrary: fc.constant('61') }),
      fraction: fc.stringMatching(/^[0-9]{0,6}$/),
      offset: fc.oneof(
        fc.constantFrom('', 'Z', 'z'),
        fc.tuple(fc.constantFrom('+', '-'), two(16), two(60)).map(([s, h, m]) => `${s}${h}:${m}`),
      ),
    });
    type Stamp = typeof stamp extends fc.Arbitrary<infer Value> ? Value : never;
    const json = ({ year, month, day, hour, minute, second, fraction, offset }: Stamp) =>
      `"${year}-${month}-${day}T${hour}:${minute}:${second}${fraction === '' ? '' : `.${fraction}`}${offset}"`;
    await agrees(
      'TIMESTAMP',
      stamp,
      json,
      ({ year, month, day, hour, minute, second, fraction, offset }) => {
        const date = new Date(0);
        date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
        date.setUTCHours(Number(hour), Number(minute), Number(second));
        const isSame = date.getUTCDate() === Number(day) && date.getUTCMonth() + 1 === Number(month);
        const minutes = /^[zZ]?$/.test(offset)
          ? 0
          : Number(`${offset[0]}1`) * (Number(offset.slice(1, 3)) * 60 + Number(offset.slice(4)));
        const exists = isSame && Number(hour) < 24 && Number(minute) < 60 && Number(second) < 60;
        if (!exists || Math.abs(minutes) >= 16 * 60 || offset.endsWith(':60')) return REFUSED;
        return BigInt(date.getTime() - minutes * 60_000) * 1000n + BigInt(fraction.padEnd(6, '0'));
      },
      { select: `(extract(epoch FROM "timestamp") * 1000000)::numeric(30,0)`, parse: BigInt },
    );
  });

  it('rounds TIMESTAMP like Postgres, however many digits are sent', async () => {
    const fractions = [
      '1234564',
      '1234565',
      '1234566',
      `1234565${'0'.repeat(200)}1`,
      '9'.repeat(500),
      `0000005${'0'.repeat(90)}`,
      '0000015',
    ];
    const ours = await stored(
      'TIMESTAMP',
      fractions.map((digits) => `"2026-01-31T00:00:00.${digits}Z"`),
      `to_char("timestamp" AT TIME ZONE 'UTC', 'SS.US')`,
    );
    const theirs = await database.client.query<Texts>(
      `SELECT to_char(CAST('2026-01-31 00:00:00.' || f || 'Z' AS timestamptz) AT TIME ZONE 'UTC', 'SS.US') AS v FROM unnest($1::text[]) WITH ORDINALITY AS f (f, n) ORDER BY n`,
      [fractions.map((digits) => digits.slice(0, 100))],
    );
    expect(ours).toEqual(theirs.rows.map(({ v }) => v));
    expect(ours.slice(0, 3)).toEqual(['00.123456', '00.123456', '00.123457']);
  });

  it('stores a leap second as the next midnight, and the year 0000 as 1 BC', async () => {
    const values = ['"1990-12-31T23:59:60Z"', '"1990-12-31T15:59:60.000-08:00"', '"0000-02-29"', '"0012-11-10"'];
    expect(
      await stored('TIMESTAMP', values, `to_char("timestamp" AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS BC')`),
    ).toEqual(['1991-01-01 00:00:00 AD', '1991-01-01 00:00:00 AD', '0001-02-29 00:00:00 BC', '0012-11-10 00:00:00 AD']);
  });

  it('stores JSONB with all digits', async () => {
    await agrees(
      'JSONB',
      fc.json({ maxDepth: 4, stringUnit: 'grapheme' }),
      (text) => text,
      (text) => JSON.parse(text.replace(/(?<=[[,:]|^)-0(?=[\],}]|$)/g, '0')) as unknown,
      { select: 'jsonb', parse: (text) => JSON.parse(text) as unknown },
    );
    const digits = ['[9007199254740993,1.10,1e2,0.1234567890123456789]', '{"a":1,"a":2}', '"NULL"', 'null', '[null]'];
    expect(await stored('JSONB', digits, 'jsonb')).toEqual([
      '[9007199254740993, 1.10, 100, 0.1234567890123456789]',
      '{"a": 2}',
      '"NULL"',
      null,
      '[null]',
    ]);
  });

  it('stores JSONB numbers up to the limits of numeric exactly', async () => {
    const numbers = [
      '1e131071',
      '99e131070',
      '1e-16383',
      '0e-16383',
      '0e1073741822',
      `1${'0'.repeat(131_071)}.${'1'.repeat(16_383)}`,
    ];
    const lengths = await stored(
      'JSONB',
      numbers.map((number) => `[${number}]`),
      'length("jsonb"->>0)',
    );
    expect(lengths).toEqual(['131072', '131072', '16385', '16385', '1', '147456']);
    for (const beyond of [
      '1e131072',
      '10e131071',
      '1e-16384',
      '0e-16384',
      `1${'0'.repeat(131_072)}`,
      `0.${'0'.repeat(16_384)}`,
    ]) {
      expect(isAccepted('JSONB', `[${beyond}]`)).toBe(false);
      await expect(database.client.query('SELECT CAST($1 AS jsonb)', [beyond])).rejects.toMatchObject({
        code: '22003',
      });
    }
  });

  it('accepts nothing that Postgres refuses, close to the edge of each grammar', async () => {
    const alphabets: [ColumnType, string[]][] = [
      ['INTEGER', [...'0123456789-+.eE_x ']],
      ['FLOAT', [...'0123456789-+.eE_x ', 'NaN', 'Infinity']],
      ['TIMESTAMP', [...'0123456789-+.:TtZz ', '2026-01-31', '12:34:56', '+05:30', 'now', 'BC']],
    ];
    for (const [type, alphabet] of alphabets) {
      const soup = fc.string({ unit: fc.constantFrom(...alphabet), maxLength: 6 }).map((text) => JSON.stringify(text));
      await fc.assert(
        fc.asyncProperty(fc.array(soup, { minLength: 250, maxLength: 250 }), async (values) => {
          const accepted = values.filter((value) => isAccepted(type, value));
          if (accepted.length > 0) expect(await stored(type, accepted, '1')).toHaveLength(accepted.length);
        }),
        { numRuns: 10 },
      );
    }
  });
});
