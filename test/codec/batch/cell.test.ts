/** The cell of each column type for a JSON value, and the reason if there is none (src/codec/batch/cell.ts). */
import { describe, expect, it } from 'vitest';
import { readCell } from '../../../src/codec/batch/cell.js';
import { CellError } from '../../../src/codec/batch/cell-error.js';
import { readJson } from '../../../src/codec/json/read-json.js';
import type { BatchColumn } from '../../../src/codec/index.js';
import { bytes, column, ID } from './shapes.js';

/** What Postgres is handed for a JSON text in this column; a refusal's reason in angle brackets. */
function cell(shape: BatchColumn, json: string): string | null {
  const read = readCell(shape, readJson(bytes(json)));
  return read instanceof CellError ? `<${read.reason}>` : read;
}

type Row = readonly [json: string, stored: string | null];

function accepts(shape: BatchColumn, rows: readonly Row[]): void {
  it.each(rows)(`${shape.displayType} accepts %s`, (json, stored) => {
    expect(cell(shape, json)).toBe(stored);
  });
}

function refuses(shape: BatchColumn, rows: readonly (readonly [json: string, reason: string])[]): void {
  it.each(rows)(`${shape.displayType} refuses %s`, (json, reason) => {
    expect(cell(shape, json)).toBe(`<${reason}>`);
  });
}

const same = (values: readonly string[]) => values.map((value) => [value, value] as const);
const each = (values: readonly string[], reason: string) => values.map((json) => [json, `${json} ${reason}`] as const);

describe('a text', () => {
  const TEXT = column('c', 'TEXT');
  accepts(TEXT, [
    ['""', ''],
    ['"null"', 'null'],
    ['"\\"\\\\\\n"', '"\\\n'],
    ['"😀"', '😀'],
    [String.raw`"\ud83d\ude00"`, '😀'],
    ['null', null],
    ['true', 'true'],
    ['false', 'false'],
    ['1.50e+10', '1.50e+10'],
    ['9007199254740993', '9007199254740993'],
    ['-0', '-0'],
  ]);
  refuses(TEXT, [
    ['{}', 'an object does not fit this column'],
    ['[]', 'an array does not fit this column'],
    [String.raw`"a\u0000b"`, 'the text contains U+0000, which cannot be stored'],
    [String.raw`"\ud83d"`, 'the text contains a lone surrogate, which cannot be stored'],
    [String.raw`"\ude00\ud83d"`, 'the text contains a lone surrogate, which cannot be stored'],
  ]);
});

describe('an integer', () => {
  const INTEGER = column('c', 'INTEGER');
  const RANGE = 'is outside the range of INTEGER, -9223372036854775808 to 9223372036854775807';
  accepts(INTEGER, same(['0', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808']));
  accepts(INTEGER, [
    ['-0', '0'],
    ['-0.0e5', '0'],
    ['1.0', '1'],
    ['1e3', '1000'],
    ['1E+3', '1000'],
    ['10e-1', '1'],
    ['1.5e1', '15'],
    ['-1200e-2', '-12'],
    ['0e99999999', '0'],
    ['0e-99999999', '0'],
    ['0.000e9', '0'],
    ['9.223372036854775807e18', '9223372036854775807'],
    ['922337203685477580700000e-5', '9223372036854775807'],
    [`${'1' + '0'.repeat(400)}e-400`, '1'],
    [`0.${'0'.repeat(400)}7e401`, '7'],
    ['"0"', '0'],
    ['"-0"', '0'],
    ['"-12"', '-12'],
    ['"9223372036854775807"', '9223372036854775807'],
    ['"-9223372036854775808"', '-9223372036854775808'],
    ['null', null],
  ]);
  const words = [
    '"1.0"',
    '"1e3"',
    '"01"',
    '"+1"',
    '" 1"',
    '"1 "',
    '"0x10"',
    '"1_000"',
    '""',
    '"-"',
    '"--1"',
    '"１"',
    '"1\\n"',
    '"0b1"',
  ];
  refuses(
    INTEGER,
    each(
      [...words, '1.5', '1e-1', '0.1e0', '-1.0000001', '1e-99999999999999999999', 'true', 'false'],
      'is not an integer',
    ),
  );
  refuses(INTEGER, [
    ['[1]', 'an array is not an integer'],
    ['{}', 'an object is not an integer'],
    [`"${'x'.repeat(100)}"`, `"${'x'.repeat(40)}…" is not an integer`],
  ]);
  refuses(
    INTEGER,
    each(['9223372036854775808', '-9223372036854775809', '1e400', '-1e19', '1e99999999999999999999'], RANGE),
  );
  refuses(INTEGER, each(['"9223372036854775808"', '"-9223372036854775809"', '9.3e18'], RANGE));
});

describe('a float', () => {
  const FLOAT = column('c', 'FLOAT');
  accepts(
    FLOAT,
    same([
      '0',
      '-0',
      '-0.0',
      '1',
      '-1.50',
      '1e3',
      '1E-5',
      '5e-324',
      '1.7976931348623157e308',
      '0e99999',
      '0.1234567890123456789',
    ]),
  );
  accepts(FLOAT, [
    ['"1.5"', '1.5'],
    ['"-2e-3"', '-2e-3'],
    ['"NaN"', 'NaN'],
    ['"Infinity"', 'Infinity'],
    ['"-Infinity"', '-Infinity'],
    ['null', null],
  ]);
  const words = [
    '""',
    '" 1"',
    '"1 "',
    '"01"',
    '"+1"',
    '".5"',
    '"1."',
    '"0x10"',
    '"1_000"',
    '"nan"',
    '"inf"',
    '"-inf"',
    '"infinity"',
    '"+Infinity"',
    '"-NaN"',
    '"abc"',
  ];
  refuses(FLOAT, each([...words, 'true'], 'is not a number'));
  refuses(FLOAT, each(['1e400', '-1e309', '1.7976931348623159e308', '"1e400"'], 'is too large for FLOAT'));
  refuses(FLOAT, each(['1e-400', '2e-324', '-1e-99999999', '"1e-400"'], 'is too close to zero for FLOAT'));
});

describe('a boolean', () => {
  const BOOLEAN = column('c', 'BOOLEAN');
  accepts(BOOLEAN, [...same(['true', 'false']), ['null', null]]);
  refuses(BOOLEAN, each(['"true"', '"t"', '"yes"', '"on"', '0', '1', '""'], 'is not a boolean'));
});

describe('a timestamp', () => {
  const TIMESTAMP = column('c', 'TIMESTAMP');
  const stamp = (sent: string, stored: string) => [`"${sent}"`, stored] as const;
  accepts(TIMESTAMP, [
    stamp('2026-01-31T12:34:56Z', '2026-01-31 12:34:56+00:00'),
    stamp('2026-01-31t12:34:56z', '2026-01-31 12:34:56+00:00'),
    stamp('2026-01-31 12:34:56', '2026-01-31 12:34:56+00:00'),
    stamp('2026-01-31', '2026-01-31 00:00:00+00:00'),
    stamp('2026-01-31T12:34:56.1-05:30', '2026-01-31 12:34:56.1-05:30'),
    stamp('2026-01-31T12:34:56-00:00', '2026-01-31 12:34:56-00:00'),
    stamp('2026-01-31T00:00:00+15:59', '2026-01-31 00:00:00+15:59'),
    stamp('2024-02-29', '2024-02-29 00:00:00+00:00'),
    stamp('2000-02-29', '2000-02-29 00:00:00+00:00'),
    stamp('1600-02-29', '1600-02-29 00:00:00+00:00'),
    stamp('0000-02-29T00:00:00Z', '0001-02-29 00:00:00+00:00 BC'),
    stamp('9999-12-31T23:59:59.999999Z', '9999-12-31 23:59:59.999999+00:00'),
    stamp('1990-12-31T23:59:60Z', '1990-12-31 23:59:60+00:00'),
    stamp('1990-12-31T15:59:60.00-08:00', '1990-12-31 15:59:60.00-08:00'),
    stamp('1991-01-01T05:29:60+05:30', '1991-01-01 05:29:60+05:30'),
    stamp(`2026-01-01T00:00:00.${'5'.repeat(80)}Z`, `2026-01-01 00:00:00.${'5'.repeat(80)}+00:00`),
    stamp(`2026-01-01T00:00:00.${'5'.repeat(80)}000Z`, `2026-01-01 00:00:00.${'5'.repeat(80)}+00:00`),
    stamp(`2026-01-01T00:00:00.${'5'.repeat(80)}0007Z`, `2026-01-01 00:00:00.${'5'.repeat(80)}1+00:00`),
    stamp('+010000-01-01T00:00:00Z', '10000-01-01 00:00:00+00'),
    stamp('+002026-01-31T12:34:56.5Z', '2026-01-31 12:34:56.5+00'),
    stamp('-000043-03-15T00:00:00Z', '0044-03-15 00:00:00+00 BC'),
    stamp('-004713-11-24T00:00:00Z', '4714-11-24 00:00:00+00 BC'),
    stamp('+294276-12-31T23:59:59.999999Z', '294276-12-31 23:59:59.999999+00'),
    ['null', null],
  ]);
  const notTimes = [
    '',
    'now',
    'today',
    'infinity',
    '-infinity',
    'epoch',
    '2026-1-31',
    '20260131',
    '2026-01-31T12:34Z',
    '2026-01-31T12',
    '2026-01-31Z',
  ];
  const more = [
    '2026-01-31T12:34:56.Z',
    '2026-01-31T12:34:56,5Z',
    '2026-01-31  12:34:56Z',
    '2026-01-31_12:34:56Z',
    ' 2026-01-31',
    '2026-01-31 ',
  ];
  const offsets = [
    '2026-01-31T12:34:56+05',
    '2026-01-31T12:34:56+0530',
    '2026-01-31T12:34:56 Z',
    '2026-01-31T12:34:56 UTC',
    '2026-01-31T12:34:56+5:30',
  ];
  const years = [
    '+2026-01-31',
    '-2026-01-31',
    '+010000-01-01',
    '+010000-01-01T00:00:00+01:00',
    '+010000-01-01T00:00:00.1234567Z',
    '-000000-01-01T00:00:00Z',
    '12026-01-31',
    '26-01-31',
    '2026-01-31 BC',
    '2026-W05-6',
    '2026-031',
    '31.01.2026',
    '01/31/2026',
  ];
  const inQuotes = (texts: readonly string[]) => texts.map((text) => `"${text}"`);
  refuses(
    TIMESTAMP,
    each([...inQuotes([...notTimes, ...more, ...offsets, ...years]), '1767225600', 'true'], 'is not a timestamp'),
  );
  const dates = [
    '2023-02-29',
    '1500-02-29',
    '1900-02-29',
    '2026-02-30',
    '2026-04-31',
    '2026-00-10',
    '2026-13-01',
    '2026-01-00',
    '2026-01-32',
  ];
  const times = [
    '2026-01-31T24:00:00Z',
    '2026-01-31T12:60:00Z',
    '2026-01-31T12:00:61Z',
    '2026-01-31T12:00:60Z',
    '2026-01-31T23:59:60+01:00',
    '1990-12-31T23:59:60.5Z',
    '+010000-02-30T00:00:00Z',
    '+010000-01-01T24:00:00Z',
    '-004713-11-23T00:00:00Z',
    '+294277-01-01T00:00:00Z',
  ];
  refuses(TIMESTAMP, each(inQuotes([...dates, ...times]), 'is not a valid time'));
  refuses(TIMESTAMP, [
    ['"2026-01-31T00:00:00+16:00"', '"2026-01-31T00:00:00+16:00" has an offset that is not within ±15:59'],
    ['"2026-01-31T00:00:00-10:60"', '"2026-01-31T00:00:00-10:60" has an offset that is not within ±15:59'],
  ]);

  it('TIMESTAMP refuses a number and hints at what to send instead', () => {
    const refusal = readCell(TIMESTAMP, { kind: 'number', text: '1767225600000' });
    expect(refusal).toHaveProperty('hint', expect.stringContaining('RFC 3339'));
  });
});

describe('a jsonb', () => {
  const JSONB = column('c', 'JSONB');
  accepts(
    JSONB,
    same([
      'true',
      '0.10',
      '1E5',
      '[1.0, 9007199254740993]',
      '{"a":{"a":1},"a":2}',
      '"null"',
      '"\\u0001"',
      '""',
      '[null]',
    ]),
  );
  accepts(JSONB, [
    ['null', null],
    [String.raw`"\ud83d\ude00"`, '"😀"'],
    [String.raw`{"k":"\ud83d\ude00"}`, String.raw`{"k":"\ud83d\ude00"}`],
    [String.raw`["\\u0000"]`, String.raw`["\\u0000"]`],
    ['{"__proto__":{"a":1}}', '{"__proto__":{"a":1}}'],
  ]);
  accepts(
    JSONB,
    same(['[1e131071]', '[99e131070]', '[1e-16383]', '[0e-16383]', '[0e1073741822]', `[0.${'1'.repeat(16_383)}]`]),
  );
  const nul = 'the text contains U+0000, which cannot be stored';
  const surrogate = 'the text contains a lone surrogate, which cannot be stored';
  refuses(JSONB, [
    [String.raw`"\u0000"`, nul],
    [String.raw`{"a":[{"b":"x\u0000"}]}`, nul],
    [String.raw`{"a":[{"b\u0000":1}]}`, nul],
    [String.raw`["\udc00"]`, surrogate],
    [String.raw`{"\ud800":1}`, surrogate],
  ]);
  const numbers = [
    '1e131072',
    '-1e999999',
    '10e131071',
    '1e-16384',
    '1.1e-16383',
    '0e-16384',
    '0e1073741823',
    '1e99999999999',
  ];
  refuses(
    JSONB,
    numbers.map((number) => [`[${number}]`, `the number ${number} is beyond what JSONB can hold`]),
  );
});

describe('an id', () => {
  accepts(ID, [
    ['"0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"', '0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'],
    ['"0190A1B2-C3D4-7E5F-8A9B-0C1D2E3F4A5B"', '0190A1B2-C3D4-7E5F-8A9B-0C1D2E3F4A5B'],
    ['"00000000-0000-0000-0000-000000000000"', '00000000-0000-0000-0000-000000000000'],
  ]);
  const notIds = [
    'null',
    '1',
    'true',
    '""',
    '"{0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b}"',
    '"0190a1b2c3d47e5f8a9b0c1d2e3f4a5b"',
    '"0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5"',
  ];
  refuses(ID, each([...notIds, '"g190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"'], 'is not a UUID'));
});

describe('a column of another Postgres type', () => {
  const DATE = column('c', null, { sqlType: 'date' });
  accepts(DATE, [
    ['"2026-01-31"', '2026-01-31'],
    ['"anything, Postgres decides"', 'anything, Postgres decides'],
    ['1.50', '1.50'],
    ['true', 'true'],
    ['null', null],
  ]);
  refuses(DATE, [
    ['{}', 'an object does not fit this column'],
    ['[1]', 'an array does not fit this column'],
    [String.raw`"\u0000"`, 'the text contains U+0000, which cannot be stored'],
  ]);

  const JSON_COLUMN = column('c', null, { sqlType: 'json', isJson: true });
  accepts(JSON_COLUMN, [...same(['{ "a" : 1.0 }', '[1e999999]', '"text"', '1']), ['null', null]]);
  refuses(JSON_COLUMN, [[String.raw`["\u0000"]`, 'the text contains U+0000, which cannot be stored']]);

  const ARRAY = column('c', null, { sqlType: 'text[]', isArray: true });
  accepts(ARRAY, [
    ['[]', '{}'],
    ['["a",null,"NULL","","\\"\\\\{},"]', '{"a",NULL,"NULL","","\\"\\\\{},"}'],
    ['[1.50,true]', '{"1.50","true"}'],
    ['[[1,2],[3,4]]', '{{"1","2"},{"3","4"}}'],
    ['[{"a":1}]', '{"{\\"a\\":1}"}'],
    ['"{1,2}"', '{1,2}'],
    ['null', null],
  ]);
  refuses(ARRAY, [
    ['{}', 'an object does not fit this column'],
    [String.raw`[["\ud800"]]`, 'the text contains a lone surrogate, which cannot be stored'],
  ]);
});
