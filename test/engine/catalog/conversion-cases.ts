/** What each value becomes if the type of its column changes: contract C7.1, cell by cell of its table. */
import type { ColumnType } from '../../../src/contract/column-types.js';

/** The value cannot be kept. */
export const REFUSED = Symbol('refused');

/** A value as Postgres's text, and what it becomes, as Postgres's text too; null is NULL. */
type Case = readonly [value: string, result: string | null | typeof REFUSED];

const same = (...values: string[]): Case[] => values.map((value) => [value, value]);
const refused = (...values: string[]): Case[] => values.map((value) => [value, REFUSED]);

const MEGABYTE = 1_000_000;
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);

/** What an insert rounds, and a type change refuses. */
export const ROUNDED = {
  FLOAT: [
    '9007199254740993',
    '0.1234567890123456789',
    '0.1000000000000000055511151231257827',
    '123456789012345683968',
    '1.00000000000000000001',
  ],
  TIMESTAMP: [
    '2024-12-31T23:59:59.9999999Z',
    '2024-01-01T00:00:00.1234564Z',
    '2024-01-01T00:00:00.1234566+01:00',
    `2024-01-01T00:00:00.0000003${'9'.repeat(200)}Z`,
  ],
};

/** A pair that is missing never converts. */
export const CASES: Record<ColumnType, Partial<Record<ColumnType, readonly Case[]>>> = {
  TEXT: {
    TEXT: same('', 'a'),
    INTEGER: [
      ...same('0', '7', '-7', '9007199254740993', '9223372036854775807', '-9223372036854775808'),
      ['-0', '0'],
      ...refused('9223372036854775808', '-9223372036854775809', '99999999999999999999', '-99999999999999999999'),
      ...refused('', ' 1', '1 ', '1\n', '+1', '01', '-', '1.0', '1e3', '0x10', '1_000', '１', '٣', 'null'),
      ...refused('9'.repeat(MEGABYTE)),
    ],
    FLOAT: [
      ...same(
        '0',
        '-0',
        '1.5',
        '-1.5',
        '0.1',
        '1e+300',
        '5e-324',
        '2.2250738585072014e-308',
        '1.7976931348623157e+308',
      ),
      ...same('NaN', 'Infinity', '-Infinity', '9.007199254740992e+15'),
      ['1E3', '1000'],
      ['12e+1', '120'],
      ['0e999999999', '0'],
      ['1.50', '1.5'],
      ['10000000000000000000000', '1e+22'],
      ['-0.00123e-5', '-1.23e-08'],
      ...refused(...ROUNDED.FLOAT),
      [`0.${'0'.repeat(MEGABYTE)}1e${MEGABYTE}`, '0.1'],
      ...refused('1e400', '-1e400', '1e-400', '2e-324', '1e999999999', '-1e-999999999', '9'.repeat(MEGABYTE)),
      ...refused('', ' 1', '1 ', '+1', '01', '.5', '5.', '1e', '0x10', '1_0', 'nan', 'inf', 'infinity', '+Infinity'),
    ],
    BOOLEAN: [...same('true', 'false'), ...refused('', 't', 'TRUE', 'True', ' true', 'yes', 'on', '1', '0', 'null')],
    TIMESTAMP: [
      ['2024-02-29', '2024-02-29 00:00:00+00'],
      ['2024-02-29T12:34:56Z', '2024-02-29 12:34:56+00'],
      ['2024-02-29t12:34:56.7z', '2024-02-29 12:34:56.7+00'],
      ['2024-02-29 12:34:56', '2024-02-29 12:34:56+00'],
      ['2024-02-29T12:34:56+05:30', '2024-02-29 07:04:56+00'],
      ['2024-02-29T12:34:56.123456-15:59', '2024-03-01 04:33:56.123456+00'],
      ['2024-02-29T12:34:56-00:00', '2024-02-29 12:34:56+00'],
      ['2024-01-01T00:00:00.12345600Z', '2024-01-01 00:00:00.123456+00'],
      ...refused(...ROUNDED.TIMESTAMP),
      [`2024-01-01T00:00:00.5${'0'.repeat(MEGABYTE)}+01:00`, '2023-12-31 23:00:00.5+00'],
      ['+010000-01-01T00:00:00Z', '10000-01-01 00:00:00+00'],
      ['+002024-02-29T12:34:56.5Z', '2024-02-29 12:34:56.5+00'],
      ['-000043-03-15T00:00:00Z', '0044-03-15 00:00:00+00 BC'],
      ['-004713-11-24T00:00:00Z', '4714-11-24 00:00:00+00 BC'],
      ['+294276-12-31T23:59:59.999999Z', '294276-12-31 23:59:59.999999+00'],
      ...refused('-004713-11-23T00:00:00Z', '+294277-01-01T00:00:00Z', '-000000-01-01T00:00:00Z'),
      ...refused('+010000-02-30T00:00:00Z', '+010000-01-01', '+010000-01-01T00:00:00+01:00', '+010000-01-01T24:00:00Z'),
      ['2000-02-29', '2000-02-29 00:00:00+00'],
      ['0001-02-03', '0001-02-03 00:00:00+00'],
      ['0031-02-03T04:05:06Z', '0031-02-03 04:05:06+00'],
      ['0000-02-29', '0001-02-29 00:00:00+00 BC'],
      ['0001-01-01T00:00:00+15:59', '0001-12-31 08:01:00+00 BC'],
      ['9999-12-31T23:59:59.999999-15:59', '10000-01-01 15:58:59.999999+00'],
      ['2016-12-31T23:59:60Z', '2017-01-01 00:00:00+00'],
      ['2016-12-31T23:59:60.000', '2017-01-01 00:00:00+00'],
      ['2017-01-01T05:29:60+05:30', '2017-01-01 00:00:00+00'],
      ...refused('2016-12-31T23:58:60Z', '2016-12-31T23:59:60+01:00', '2016-12-31T23:59:60.5Z', '2016-12-31T23:59:61Z'),
      ...refused('2023-02-29', '1900-02-29', '2024-04-31', '2024-13-01', '2024-00-01', '2024-01-00', '2024-01-32'),
      ...refused('2024-01-01T24:00:00Z', '2024-01-01T23:60:00Z', '2024-01-01T12:00Z', '2024-01-01T12Z', '2024-01-01Z'),
      ...refused('2024-01-01T12:00:00+16:00', '2024-01-01T12:00:00+01', '2024-01-01T12:00:00+0100'),
      ...refused('2024-01-01T12:00:00 Z', '2024-01-01T12:00:00.Z', '2024-01-01  12:00:00', '2024-01-01_12:00:00'),
      ...refused(
        '2024-01-01T12:00:00,5Z',
        '2024-01-01T12:00:00+01:60',
        '2024-01-01T12:00:00ZZ',
        '2024-01-01T12:00:00T',
      ),
      ...refused(
        '',
        'now',
        'infinity',
        'epoch',
        'today',
        '20240101',
        '01.02.2024',
        '12024-01-01',
        '-0001-01-01',
        '1704067200',
      ),
      ...refused(
        ' 2024-01-01',
        '2024-01-01 ',
        '2024-01-01\n',
        '2024-01-01T12:00:00 BC',
        '２０24-01-01',
        'x'.repeat(MEGABYTE),
      ),
    ],
    JSONB: [
      ...same(
        'null',
        'true',
        '1',
        '-1.50',
        '9007199254740993',
        '12345678901234567890.12345678901234567890',
        '"a"',
        '[]',
      ),
      [' {"b" : [1, {"a": null}], "a": "x:y"}\n', '{"a": "x:y", "b": [1, {"a": null}]}'],
      ['1e3', '1000'],
      ['"\\u003a\\ud83d\\ude00\\/"', '":😀/"'],
      ['{"a\\u003A": ":", "b": "\\\\u003a"}', '{"b": "\\\\u003a", "a:": ":"}'],
      [`"${'x'.repeat(MEGABYTE)}"`, `"${'x'.repeat(MEGABYTE)}"`],
      [nested(5_000), nested(5_000)],
      ...refused(nested(5_001), nested(10_000), nested(MEGABYTE), '['.repeat(MEGABYTE), '{"a":'.repeat(MEGABYTE)),
      // The second value of a key would push out the first.
      ...refused('{"a": 1, "a": 2}', '[{"b": {"a": 1, "c": 0, "\\u0061": 1}}]', '{"\\u003a": 1, ":": {"a": 2}}'),
      ...refused('', ' ', 'a', "'a'", '{a: 1}', '[1,]', '01', '+1', '.5', 'NaN', 'True', '1 2', '{"a": 1}}', '"\t"'),
      ...refused('"\\u0000"', '{"\\u0000": 1}', '"\\ud83d"', '"\\ude00\\ud83d"', '"\\x"', '1e400000', '1e-20000'),
      ...refused('1e999999999', '1e99999999999999999999', '9'.repeat(MEGABYTE)),
    ],
  },
  INTEGER: {
    INTEGER: same('1'),
    TEXT: same('0', '-1', '9223372036854775807', '-9223372036854775808'),
    FLOAT: [
      ...same('0', '-1', '999999999999999'),
      ['9007199254740992', '9.007199254740992e+15'],
      ['-9007199254740992', '-9.007199254740992e+15'],
      ['9007199254740994', '9.007199254740994e+15'],
      ['1152921504606846976', '1.152921504606847e+18'],
      ['9223372036854774784', '9.223372036854775e+18'],
      ['-9223372036854775808', '-9.223372036854776e+18'],
      ...refused('9007199254740993', '-9007199254740993', '9223372036854775807', '-9223372036854775807'),
      ...refused('9223372036854775296', '9223372036854775295'),
    ],
    BOOLEAN: [['0', 'false'], ['1', 'true'], ...refused('2', '-1', '9223372036854775807')],
    JSONB: same('0', '-1', '9223372036854775807', '-9223372036854775808'),
  },
  FLOAT: {
    FLOAT: same('1.5'),
    TEXT: [
      ...same('0', '-0', '0.1', '-1.5', '1e+20', '1.2345678901234567', '9.007199254740992e+15', '1e-05', '5e-324'),
      ...same('1.7976931348623157e+308', '0.30000000000000004', 'NaN', 'Infinity', '-Infinity'),
    ],
    INTEGER: [
      ...same('0', '-1', '9007199254740992'),
      ['-0', '0'],
      ['1e18', '1000000000000000000'],
      ['9223372036854774784', '9223372036854774784'],
      ['-9223372036854775808', '-9223372036854775808'],
      ...refused('9223372036854775808', '-9223372036854777856', '1e300', '0.5', '-0.1', '5e-324'),
      ...refused('NaN', 'Infinity', '-Infinity'),
    ],
    JSONB: [
      ...same('0', '0.1', '-1.5', '1.2345678901234567', '0.30000000000000004'),
      ['-0', '0'],
      ['1e20', '100000000000000000000'],
      ['1e-5', '0.00001'],
      ['5e-324', `0.${'0'.repeat(323)}5`],
      ['1.7976931348623157e308', `17976931348623157${'0'.repeat(292)}`],
      ...refused('NaN', 'Infinity', '-Infinity'),
    ],
  },
  BOOLEAN: {
    BOOLEAN: same('true'),
    TEXT: same('true', 'false'),
    INTEGER: [
      ['true', '1'],
      ['false', '0'],
    ],
    FLOAT: [
      ['true', '1'],
      ['false', '0'],
    ],
    JSONB: same('true', 'false'),
  },
  TIMESTAMP: { TIMESTAMP: same('2024-01-01 00:00:00+00'), TEXT: timestamps(), JSONB: timestamps('"') },
  JSONB: {
    JSONB: same('null', '1'),
    TEXT: [['null', null], ...same('"a"', '"null"', '1.50', 'true', '[1, null]', '{"a": "ü\\n"}')],
    INTEGER: [
      ['null', null],
      ...same('0', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808'),
      ['1.0', '1'],
      ['1e3', '1000'],
      ['-0', '0'],
      ...refused('9223372036854775808', '-9223372036854775809', '0.5', '9223372036854775807.5', '1e100', '1e100000'),
      ...refused('1e-16383', '"1"', 'true', '[1]', '{}'),
    ],
    FLOAT: [
      ['null', null],
      ...same('0', '0.1', '-1.5', '9.007199254740992e+15', '0.30000000000000004', '5e-324', '1.7976931348623157e+308'),
      ['1.50', '1.5'],
      ['-0', '0'],
      ['1152921504606846976', '1.152921504606847e+18'],
      ['1152921504606847000', '1.152921504606847e+18'],
      [exactDecimal(0.1), '0.1'],
      [exactDecimal(-1 / 3), '-0.3333333333333333'],
      [exactDecimal(Number.MIN_VALUE), '5e-324'],
      [exactDecimal(Number.MAX_VALUE), '1.7976931348623157e+308'],
      [exactDecimal(2 ** -1022 + 2 ** -1074), '2.225073858507202e-308'],
      ...refused(
        '9007199254740993',
        '12345678901234567890.5',
        '0.10000000000000001',
        '1152921504606847001',
        '4.9e-324',
      ),
      ...refused(`${exactDecimal(0.1)}01`, '1.7976931348623158e308', '1.7976931348623159e308', '1e400', '1e100000'),
      ...refused('2e-324', '-1e-400', '1e-16383', '"1"', '"NaN"', 'true', '[]', '{}'),
    ],
    BOOLEAN: [['null', null], ...same('true', 'false'), ...refused('"true"', '1', '0', '[]', '{}')],
    TIMESTAMP: [
      ['null', null],
      ['"2024-02-29"', '2024-02-29 00:00:00+00'],
      ['"-000043-03-15T00:00:00Z"', '0044-03-15 00:00:00+00 BC'],
      ['"2024-02-29T12:34:56.5+05:30"', '2024-02-29 07:04:56.5+00'],
      ...refused(
        '"2024-01-01T00:00:00.1234567Z"',
        '"2023-02-29"',
        '"now"',
        '"infinity"',
        '""',
        '1704067200',
        '20240101',
        'true',
        '[]',
        '{}',
      ),
    ],
  },
};

/** As in responses (docs/decisions/0004-result-encoding.md), between these quotes. */
function timestamps(quote = ''): Case[] {
  const cases = [
    ['2024-01-02 03:04:05+00', '2024-01-02T03:04:05Z'],
    ['2024-01-02 03:04:05.5+05:30', '2024-01-01T21:34:05.5Z'],
    ['2024-01-02 03:04:05.123456+00', '2024-01-02T03:04:05.123456Z'],
    ['2024-01-02 03:04:05.000001+00', '2024-01-02T03:04:05.000001Z'],
    ['0001-01-01 00:00:00+00', '0001-01-01T00:00:00Z'],
    ['0001-12-31 23:59:59+00 BC', '0000-12-31T23:59:59Z'],
    ['0044-03-15 00:00:00+00 BC', '-000043-03-15T00:00:00Z'],
    ['4713-11-24 00:00:00+00 BC', '-004712-11-24T00:00:00Z'],
    ['9999-12-31 23:59:59.999999+00', '9999-12-31T23:59:59.999999Z'],
    ['10000-01-01 00:00:00+00', '+010000-01-01T00:00:00Z'],
    ['294276-12-31 23:59:59.999999+00', '+294276-12-31T23:59:59.999999Z'],
    ['infinity', 'infinity'],
    ['-infinity', '-infinity'],
  ] as const;
  return cases.map(([value, text]) => [value, `${quote}${text}${quote}`]);
}

/** All digits of a double, which is a mantissa times a power of two. */
export function exactDecimal(value: number): string {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, Math.abs(value));
  const raw = bits.getBigUint64(0);
  const biased = Number(raw >> 52n);
  const mantissa = (raw & (2n ** 52n - 1n)) + (biased === 0 ? 0n : 2n ** 52n);
  const exponent = Math.max(biased, 1) - 1075;
  const sign = value < 0 ? '-' : '';
  if (exponent >= 0) return `${sign}${mantissa * 2n ** BigInt(exponent)}`;
  // 2^-n is 5^n / 10^n.
  const digits = String(mantissa * 5n ** BigInt(-exponent)).padStart(1 - exponent, '0');
  return `${sign}${digits.slice(0, exponent)}.${digits.slice(exponent)}`.replace(/\.?0+$/, '');
}

/** A column of a type that free SQL made, a value of it as a SQL expression, and the text that it becomes. */
export const OTHER_TYPES: readonly (readonly [type: string, value: string, text: string])[] = [
  ['date', "'2024-02-29'", '2024-02-29'],
  ['timestamp', "'2024-02-29 12:34:56.5'", '2024-02-29 12:34:56.5'],
  ['timestamptz[]', "'{2024-02-29 12:00:00+00}'", '{"2024-02-29 12:00:00+00"}'],
  ['interval', "'1 mon -2 days 03:00'", '1 mon -2 days +03:00:00'],
  ['integer', '-7', '-7'],
  ['numeric(30,2)', '1.5', '1.50'],
  ['real', '0.1', '0.1'],
  ['bytea', "'\\x00ff'", '\\x00ff'],
  ['inet', "'10.0.0.1'", '10.0.0.1'],
  ['varchar(5)', "'a b'", 'a b'],
  ['char(3)', "'a'", 'a  '],
  ['uuid', "'00000000-0000-7000-8000-000000000000'", '00000000-0000-7000-8000-000000000000'],
  ['json', '\'{"a":1, "a":2}\'', '{"a":1, "a":2}'],
  ['text[]', '\'{a,NULL,"b c"}\'', '{a,NULL,"b c"}'],
  ['mood', "'fine'", 'fine'],
  ['amount', '5', '5'],
  ['pair', '(1, NULL)', '(1,)'],
  ['pair', '(NULL, NULL)', '(,)'],
];

/** Settings that a session may have; no result may depend on them. */
export const SESSIONS: readonly (readonly [name: string, settings: Readonly<Record<string, string>>])[] = [
  ['the usual settings', {}],
  [
    'a zone named UTC',
    { TimeZone: '<UTC>5', DateStyle: 'German, DMY', extra_float_digits: '-15', IntervalStyle: 'sql_standard' },
  ],
  ['a zone named BC', { TimeZone: '<BC>5' }],
  ['a zone named Z', { TimeZone: '<Z>-3', DateStyle: 'SQL, DMY', extra_float_digits: '0', bytea_output: 'escape' }],
  [
    'a zone named T',
    { TimeZone: '<T>7', DateStyle: 'Postgres, MDY', extra_float_digits: '3', IntervalStyle: 'iso_8601' },
  ],
];

/** What a project may define in front of pg_catalog. Whoever uses one of these fails. */
export const HOSTILE_CODE = `
  CREATE TYPE mood AS ENUM ('fine');
  CREATE DOMAIN amount AS integer CHECK (VALUE > 0);
  CREATE TYPE pair AS (a integer, b text);
  CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
  DO $do$
  DECLARE
    type text;
    operator text;
    name text;
  BEGIN
    FOREACH type IN ARRAY '{text,bigint,integer,double precision,numeric,boolean,timestamptz,jsonb}'::text[] LOOP
      EXECUTE format('CREATE FUNCTION trap(%1$s, %1$s) RETURNS boolean LANGUAGE plpgsql AS
        $f$ BEGIN RAISE EXCEPTION ''the project was asked''; END $f$', type);
      FOREACH operator IN ARRAY '{=,<>,<,<=,>,>=,~,!~,||,+,-,*,%}'::text[] LOOP
        EXECUTE format('CREATE OPERATOR %s (FUNCTION = trap, LEFTARG = %s, RIGHTARG = %2$s)', operator, type);
      END LOOP;
      FOREACH name IN ARRAY '{octet_length,abs,trunc,isfinite,jsonb_typeof,to_jsonb,replace,substr,power}'::text[] LOOP
        EXECUTE format('CREATE FUNCTION %s(%s) RETURNS %2$s LANGUAGE plpgsql AS
          $f$ BEGIN RAISE EXCEPTION ''the project was asked''; END $f$', name, type);
      END LOOP;
    END LOOP;
  END
  $do$;
  CREATE FUNCTION format(text, anyelement) RETURNS text LANGUAGE plpgsql AS
    $f$ BEGIN RAISE EXCEPTION 'the project was asked'; END $f$;
  CREATE DOMAIN float8 AS text;
  CREATE DOMAIN jsonb AS text;
  CREATE DOMAIN timestamptz AS text;
`;

/** Strings that a batch insert and a type change must judge alike. */
export const STRINGS: readonly string[] = (['INTEGER', 'FLOAT', 'BOOLEAN', 'TIMESTAMP'] as const).flatMap((type) =>
  (CASES.TEXT[type] ?? []).map(([value]) => value),
);
