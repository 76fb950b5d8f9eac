/** Single values as JSON: contract C5.14 to C5.16, byte for byte. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { float4, float8, int32, int64, json, OID } from './encoding.js';

/** int64 microseconds since 2000-01-01 of a time given in milliseconds since 1970. */
const EPOCH_MS = Date.UTC(2000, 0, 1);
const timestamp = (iso: string, micros = 0): Buffer =>
  int64(BigInt(Date.parse(iso) - EPOCH_MS) * 1000n + BigInt(micros));
const GREATEST = 2n ** 63n - 1n;
const LEAST = -(2n ** 63n);

const interval = (micros: bigint, days: number, months: number): Buffer =>
  Buffer.concat([int64(micros), int32(days), int32(months)]);

const array = (sizes: number[], elements: (Buffer | null)[]): Buffer =>
  Buffer.concat([
    int32(sizes.length),
    int32(1),
    int32(0),
    ...sizes.flatMap((size) => [int32(size), int32(1)]),
    ...elements.flatMap((e) => (e === null ? [int32(-1)] : [int32(e.length), e])),
  ]);

describe('works', () => {
  test.each([
    ['int8 at the bound', OID.int8, '9007199254740991', '9007199254740991'],
    ['int8 above', OID.int8, '9007199254740992', '"9007199254740992"'],
    ['int8 at the lower bound', OID.int8, '-9007199254740991', '-9007199254740991'],
    ['int8 below', OID.int8, '-9007199254740992', '"-9007199254740992"'],
    ['int8 of sixteen digits', OID.int8, '1000000000000000', '1000000000000000'],
    ['least int8', OID.int8, '-9223372036854775808', '"-9223372036854775808"'],
    ['zero', OID.int8, '0', '0'],
    ['int4', OID.int4, '-2147483648', '-2147483648'],
    ['oid', OID.oid, '4294967295', '4294967295'],
    ['numeric keeps its zeros', OID.numeric, '1.50', '1.50'],
    ['numeric of many decimals', OID.numeric, '-0.12345678901234567890123', '-0.12345678901234567890123'],
    ['numeric at the bound', OID.numeric, '9007199254740991', '9007199254740991'],
    ['numeric at the bound with zeros', OID.numeric, '-9007199254740991.000', '-9007199254740991.000'],
    ['numeric a little above', OID.numeric, '9007199254740991.0001', '"9007199254740991.0001"'],
    ['numeric a little below', OID.numeric, '9007199254740990.9999', '9007199254740990.9999'],
    ['numeric of seventeen digits', OID.numeric, '10000000000000000.5', '"10000000000000000.5"'],
    ['numeric NaN', OID.numeric, 'NaN', '"NaN"'],
    ['numeric infinity', OID.numeric, 'Infinity', '"Infinity"'],
    ['numeric minus infinity', OID.numeric, '-Infinity', '"-Infinity"'],
    ['true', OID.bool, 't', 'true'],
    ['false', OID.bool, 'f', 'false'],
    ['uuid', OID.uuid, '01890a5d-ac96-774b-bcce-b302099a8057', '"01890a5d-ac96-774b-bcce-b302099a8057"'],
    ['jsonb verbatim', OID.jsonb, '{"a": 1.500, "b": [1e2, "\\n"]}', '{"a": 1.500, "b": [1e2, "\\n"]}'],
    ['json on one line', OID.json, '{"a":\r\n 1,\n"b":"\\n"}', '{"a":   1, "b":"\\n"}'],
    ['empty text', OID.text, '', '""'],
    [
      'text with everything to escape',
      OID.text,
      'a"b\\c\n\r\t\b\f\u0001\u001f/\u007f',
      String.raw`"a\"b\\c\n\r\t\b\f\u0001\u001f/` + '\u007f"',
    ],
    ['text beyond ASCII', OID.text, 'Grüße 😀 \u2028', '"Grüße 😀 \u2028"'],
    ['long text', OID.text, `${'x'.repeat(500)}"`, `"${'x'.repeat(500)}\\""`],
    ['a type of the project', OID.ownEnum, 'a "b"', '"a \\"b\\""'],
    ['an array of a type of the project', OID.ownEnumArray, '{a,b}', '"{a,b}"'],
    ['money as text', OID.money, '$1,234.50', '"$1,234.50"'],
  ])('%s', (_, oid, value, expected) => {
    expect(json(oid, value)).toBe(expected);
  });

  test.each([
    [0, '0'],
    [-0, '-0'],
    [1, '1'],
    [0.1, '0.1'],
    [1e-7, '1e-7'],
    [1e21, '1e+21'],
    [5e-324, '5e-324'],
    [Number.MAX_VALUE, '1.7976931348623157e+308'],
    [NaN, '"NaN"'],
    [Infinity, '"Infinity"'],
    [-Infinity, '"-Infinity"'],
  ])('double precision %d is %s', (value, expected) => {
    expect(json(OID.float8, float8(value))).toBe(expected);
  });

  test.each([
    [0.1, '0.1'],
    [-0, '-0'],
    [16_777_216, '16777216'],
    [3.4028234663852886e38, '3.4028235e+38'],
    [1.401298464324817e-45, '1e-45'],
    [1.1754943508222875e-38, '1.1754944e-38'],
    [1 / 3, '0.33333334'],
    [NaN, '"NaN"'],
    [-Infinity, '"-Infinity"'],
  ])('real %d is %s', (value, expected) => {
    expect(json(OID.float4, float4(value))).toBe(expected);
  });

  test.each([
    [timestamp('2024-02-29T12:34:56Z'), '2024-02-29T12:34:56Z'],
    [timestamp('2024-02-29T12:34:56Z', 1), '2024-02-29T12:34:56.000001Z'],
    [timestamp('2024-02-29T12:34:56Z', 500_000), '2024-02-29T12:34:56.5Z'],
    [timestamp('1999-12-31T23:59:59Z', 999_999), '1999-12-31T23:59:59.999999Z'],
    [timestamp('0001-01-01T00:00:00Z'), '0001-01-01T00:00:00Z'],
    [timestamp('0001-01-01T00:00:00Z', -1), '0000-12-31T23:59:59.999999Z'],
    [timestamp('-000043-03-15T00:00:00Z'), '-000043-03-15T00:00:00Z'],
    [timestamp('9999-12-31T23:59:59Z'), '9999-12-31T23:59:59Z'],
    [timestamp('+010000-01-01T00:00:00Z'), '+010000-01-01T00:00:00Z'],
    [int64(9_223_371_331_199_999_999n), '+294276-12-31T23:59:59.999999Z'],
    [int64(GREATEST), 'infinity'],
    [int64(LEAST), '-infinity'],
  ])('timestamptz %# is %s', (value, expected) => {
    expect(json(OID.timestamptz, value)).toBe(`"${expected}"`);
  });

  test.each([
    [timestamp('2024-02-29T12:34:56Z', 120_000), '2024-02-29 12:34:56.12'],
    [timestamp('-000043-03-15T00:00:00Z'), '0044-03-15 00:00:00 BC'],
    [timestamp('+012024-01-01T00:00:00Z'), '12024-01-01 00:00:00'],
    [int64(GREATEST), 'infinity'],
  ])('timestamp %# is %s', (value, expected) => {
    expect(json(OID.timestamp, value)).toBe(`"${expected}"`);
  });

  test.each([
    [0, '2000-01-01'],
    [-730_119, '0001-01-01'],
    [-730_120, '0001-12-31 BC'],
    [2_145_031_948, '5874897-12-31'],
    [0x7fff_ffff, 'infinity'],
    [-0x8000_0000, '-infinity'],
  ])('date %d is %s', (days, expected) => {
    expect(json(OID.date, int32(days))).toBe(`"${expected}"`);
  });

  test.each([
    [interval(0n, 0, 0), '00:00:00'],
    [interval(-1n, 0, 0), '-00:00:00.000001'],
    [interval(-500_000n, 1, 0), '1 day -00:00:00.5'],
    [interval(3_600_000_000n, -1, 0), '-1 days +01:00:00'],
    [interval(14_706_700_000n, -3, 14), '1 year 2 mons -3 days +04:05:06.7'],
    [interval(0n, 2, -13), '-1 years -1 mons +2 days'],
    [interval(LEAST, 0, 0), '-2562047788:00:54.775808'],
    [interval(GREATEST, 0, 0), '2562047788:00:54.775807'],
    [interval(GREATEST, 0x7fff_ffff, 0x7fff_ffff), 'infinity'],
    [interval(LEAST, -0x8000_0000, -0x8000_0000), '-infinity'],
  ])('interval %# is %s', (value, expected) => {
    expect(json(OID.interval, value)).toBe(`"${expected}"`);
  });

  test('bytea is hex, and "char" never breaks UTF-8', () => {
    expect(json(OID.bytea, Buffer.from([0, 0x5c, 0xff]))).toBe('"\\\\x005cff"');
    expect(json(OID.bytea, Buffer.alloc(0))).toBe('"\\\\x"');
    expect(json(OID.char, Buffer.from([0xc3]))).toBe('"\\\\303"');
    expect(json(OID.char, Buffer.from([0]))).toBe('""');
    expect(json(OID.char, Buffer.from('"'))).toBe('"\\""');
  });

  test.each([
    [OID.int8, '-9223372036854775808', '-9223372036854775808', '"-9223372036854775808"'],
    [OID.int8, '7', '7', '"7"'],
    [OID.numeric, '9007199254740991.50', '9007199254740991.50', '"9007199254740991.50"'],
    [OID.numeric, '9'.repeat(5_000), '9'.repeat(5_000), `"${'9'.repeat(5_000)}"`],
    [OID.numeric, 'NaN', '"NaN"', '"NaN"'],
    [OID.numeric, '-Infinity', '"-Infinity"', '"-Infinity"'],
    [OID.int8Array, '{1,9007199254740992,NULL}', '[1,9007199254740992,null]', '["1","9007199254740992",null]'],
    [OID.numericArray, '{1.50,NaN}', '[1.50,"NaN"]', '["1.50","NaN"]'],
    [OID.int4, '7', '7', '7'],
    [OID.float8, float8(1.5), '1.5', '1.5'],
    [OID.text, '7', '"7"', '"7"'],
    [OID.jsonb, '{"a": 9007199254740993}', '{"a": 9007199254740993}', '{"a": 9007199254740993}'],
  ])('type %i %s is %s among raw numbers, %s among numbers as strings', (oid, value, raw, string) => {
    expect(json(oid, value, 'raw')).toBe(raw);
    expect(json(oid, value, 'string')).toBe(string);
  });

  test.each([
    [OID.textArray, '{}', '[]'],
    [OID.textArray, '{a,"b c",NULL,"NULL","","q\\"b\\\\s","{x,y}"}', '["a","b c",null,"NULL","","q\\"b\\\\s","{x,y}"]'],
    [OID.textArray, '{"line\nbreak","null"}', '["line\\nbreak","null"]'],
    [OID.int8Array, '{1,9007199254740992,NULL}', '[1,"9007199254740992",null]'],
    [OID.int4Array, '[0:1][2:3]={{1,2},{3,4}}', '[[1,2],[3,4]]'],
    [OID.numericArray, '{1.50,NaN}', '[1.50,"NaN"]'],
    [OID.boolArray, '{t,f,NULL}', '[true,false,null]'],
    [OID.jsonbArray, '{"{\\"a\\": [1, \\"x\\"]}","null",NULL}', '[{"a": [1, "x"]},null,null]'],
    [OID.jsonArray, '{"{\n}"}', '[{ }]'],
  ])('array %i %j is %s', (oid, value, expected) => {
    expect(json(oid, value)).toBe(expected);
  });

  test('arrays of types that are sent in binary', () => {
    expect(json(OID.float8Array, array([], []))).toBe('[]');
    expect(json(OID.float8Array, array([3], [float8(1.5), null, float8(NaN)]))).toBe('[1.5,null,"NaN"]');
    const four = [1, 2, 3, 4].map(float8);
    expect(json(OID.float8Array, array([2, 2], four))).toBe('[[1,2],[3,4]]');
    expect(json(OID.float8Array, array([2, 1, 2], four))).toBe('[[[1,2]],[[3,4]]]');
    expect(json(OID.timestamptzArray, array([1], [int64(0n)]))).toBe('["2000-01-01T00:00:00Z"]');
  });
});

describe('protects', () => {
  test('any text reads back unchanged, on one line', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        const encoded = json(OID.text, text);
        expect(JSON.parse(encoded)).toBe(text);
        expect(encoded).not.toMatch(/[\r\n]/);
      }),
    );
  });

  test('every timestamptz in the range of Date reads as the Date does, to the microsecond', () => {
    const limit = 8_639_000_000_000_000_000n;
    fc.assert(
      fc.property(fc.bigInt({ min: -limit, max: limit }), (micros) => {
        const microsOfSecond = ((micros % 1_000_000n) + 1_000_000n) % 1_000_000n;
        const second = new Date(Number((micros - microsOfSecond) / 1000n)).toISOString().replace('.000Z', '');
        const fraction = microsOfSecond === 0n ? '' : `.${String(microsOfSecond).padStart(6, '0').replace(/0+$/, '')}`;
        expect(json(OID.timestamptz, int64(micros - BigInt(EPOCH_MS) * 1000n))).toBe(`"${second}${fraction}Z"`);
      }),
      { numRuns: 2000 },
    );
  });

  test('a double is written as JavaScript writes it, with few decimals or many', () => {
    const decimals = fc
      .tuple(fc.integer({ min: -(10 ** 15), max: 10 ** 15 }), fc.integer({ min: 0, max: 9 }))
      .map(([digits, places]) => digits / 10 ** places);
    const any = fc.double({ noNaN: true, noDefaultInfinity: true });
    const edges = [0, 1e-6, 1e-7, 999_999_999.999999, 1e9, 1e9 - 2 ** -23, 2 ** 31, 0.1 + 0.2, 123.456_789_5, 1e15];
    const bound = fc.constantFrom(...edges, ...edges.map((value) => -value));
    fc.assert(
      fc.property(fc.oneof(decimals, any, bound), (value) => {
        expect(json(OID.float8, float8(value))).toBe(Object.is(value, -0) ? '-0' : String(value));
      }),
      { numRuns: 10_000 },
    );
  });

  test('a contemporary timestamptz reads as the Date does, also around midnight', () => {
    const day = 86_400_000_000n;
    const micros = fc
      .tuple(
        fc.bigInt({ min: -60_000n, max: 60_000n }),
        fc.bigInt({ min: -3n, max: 3n }),
        fc.bigInt({ min: 0n, max: day }),
      )
      .chain(([days, near, far]) => fc.constantFrom(days * day + near, days * day + far));
    fc.assert(
      fc.property(micros, (value) => {
        const microsOfSecond = ((value % 1_000_000n) + 1_000_000n) % 1_000_000n;
        const second = new Date(Number((value - microsOfSecond) / 1000n) + EPOCH_MS).toISOString().slice(0, 19);
        const fraction = microsOfSecond === 0n ? '' : `.${String(microsOfSecond).padStart(6, '0').replace(/0+$/, '')}`;
        expect(json(OID.timestamptz, int64(value))).toBe(`"${second}${fraction}Z"`);
      }),
      { numRuns: 5000 },
    );
  });

  test('a real has the fewest digits that read back as it', () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
        const text = json(OID.float4, float4(value));
        expect(Math.fround(Number(text))).toBe(value);
        const digits = text.replace(/e.*|^-?0*\.?0*|[-.]/g, '').replace(/0+$/, '').length;
        if (digits > 1) expect(Math.fround(Number(value.toPrecision(digits - 1)))).not.toBe(value);
      }),
      { numRuns: 2000 },
    );
  });
});
