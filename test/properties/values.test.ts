/**
 * Any JSON value into a column of each type: the verdict is that of contract C5, which is repeated
 * here, and what was stored reads back equal, by SQL, as a stream and through a second insert path.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectFailure, startTestService, type TestProject, type TestService } from '../support/service.js';
import { checkClear, parameters } from './run.js';

let service: TestService;
let project: TestProject;
const TYPES = ['TEXT', 'INTEGER', 'FLOAT', 'BOOLEAN', 'TIMESTAMP', 'JSONB'] as const;
type Type = (typeof TYPES)[number];
const columnOf = (type: Type): string => type.toLowerCase();

beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('t', { n: 'INTEGER', ...Object.fromEntries(TYPES.map((type) => [columnOf(type), type])) });
});
afterAll(() => service.close());

/** The value as answered, or REFUSED. `text` is the JSON as sent. */
const REFUSED = Symbol('refused');

const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
const storable = (text: string): boolean =>
  !/\0|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text);

/** The integer that a JSON number is, by its digits; null where it is none or has more than int64 could. */
function integral(number: string): bigint | null {
  const [, sign, whole = '', fraction = '', exponent = '0'] = NUMBER.exec(number) ?? [];
  let digits = (whole + fraction).replace(/^0+/, '');
  if (digits === '') return 0n;
  const zeros = /0*$/.exec(digits)?.[0].length ?? 0;
  digits = digits.slice(0, digits.length - zeros);
  const power = Number(exponent) - fraction.length + zeros;
  if (power < 0 || digits.length + power > 20) return null;
  const value = BigInt(digits + '0'.repeat(power));
  return sign === '-' ? -value : value;
}

const asAnswered = (n: bigint): number | string =>
  n >= -(2n ** 53n - 1n) && n <= 2n ** 53n - 1n ? Number(n) : String(n);

function expectedInteger(text: string, value: unknown): unknown {
  if (typeof value === 'string' && !/^-?(0|[1-9]\d*)$/.test(value)) return REFUSED;
  if (typeof value !== 'string' && typeof value !== 'number') return REFUSED;
  const n = integral(typeof value === 'string' ? value : text);
  return n === null || n < -(2n ** 63n) || n >= 2n ** 63n ? REFUSED : asAnswered(n);
}

function expectedFloat(text: string, value: unknown): unknown {
  if (value === 'NaN' || value === 'Infinity' || value === '-Infinity') return value;
  const number = typeof value === 'string' ? value : typeof value === 'number' ? text : '';
  const match = NUMBER.exec(number);
  if (match === null) return REFUSED;
  const double = Number(number);
  const isZero = !/[1-9]/.test((match[2] ?? '') + (match[3] ?? ''));
  return !Number.isFinite(double) || (double === 0 && !isZero) ? REFUSED : double;
}

function roundedToEven(value: number): number {
  const [below, above] = [Math.floor(value), Math.ceil(value)];
  return value - below === above - value ? below + (below % 2) : Math.round(value);
}

function expectedTimestamp(value: unknown): unknown {
  if (typeof value !== 'string') return REFUSED;
  const match = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)?)?$/.exec(
    value,
  );
  if (match === null) return REFUSED;
  const [, year = '', month = '', day = '', hour = '00', minute = '00', second = '00', fraction = '', zone = 'Z'] =
    match;
  const date = new Date(`2000-01-01T00:00:00Z`);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) return REFUSED;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return REFUSED;
  const [, sign = '+', h = '0', m = '0'] = /^([+-])(\d\d):(\d\d)$/.exec(zone) ?? [];
  if (Number(h) > 15 || Number(m) > 59) return REFUSED;
  const offset = (sign === '-' ? -1 : 1) * (Number(h) * 60 + Number(m));
  // Postgres rounds to microseconds, which may make up the next second.
  const rounded = roundedToEven(Number(`0.${fraction}0`) * 1e6);
  date.setUTCHours(Number(hour), Number(minute) - offset, Number(second) + (rounded === 1e6 ? 1 : 0));
  const years = date.getUTCFullYear();
  const micros = String(rounded % 1e6)
    .padStart(6, '0')
    .replace(/0+$/, '');
  const rest = date.toISOString().slice(-20, -5);
  const shown =
    years >= 0 && years <= 9999
      ? String(years).padStart(4, '0')
      : `${years < 0 ? '-' : '+'}${String(Math.abs(years)).padStart(6, '0')}`;
  return `${shown}${rest}${micros === '' ? '' : `.${micros}`}Z`;
}

/**
 * Postgres's numeric, which holds the numbers of a jsonb, has one zero. What is too small for a number here is one as
 * well, with the sign that it has there.
 */
function withoutSignOfZero(value: unknown): unknown {
  if (value === 0) return 0;
  if (Array.isArray(value)) return value.map(withoutSignOfZero);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutSignOfZero(inner)]));
}

const everyText = (value: unknown): string[] =>
  typeof value === 'string'
    ? [value]
    : typeof value === 'object' && value !== null
      ? Object.entries(value).flatMap(([key, inner]) => [key, ...everyText(inner)])
      : [];

function expected(type: Type, text: string): unknown {
  const value = JSON.parse(text) as unknown;
  if (value === null) return null;
  switch (type) {
    case 'TEXT':
      if (typeof value === 'string') return storable(value) ? value : REFUSED;
      return typeof value === 'object' ? REFUSED : text;
    case 'INTEGER':
      return expectedInteger(text, value);
    case 'FLOAT':
      return expectedFloat(text, value);
    case 'BOOLEAN':
      return typeof value === 'boolean' ? value : REFUSED;
    case 'TIMESTAMP':
      return expectedTimestamp(value);
    case 'JSONB':
      return everyText(value).every(storable) ? withoutSignOfZero(value) : REFUSED;
  }
}

const digits = (max: number) => fc.stringMatching(new RegExp(`^[0-9]{1,${max}}$`));
const numberText = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(fc.constant('0'), fc.stringMatching(/^[1-9][0-9]{0,20}$/)),
    fc.option(digits(20)),
    fc.option(fc.integer({ min: -340, max: 320 })),
  )
  .map(
    ([sign, whole, fraction, exponent]) =>
      `${sign}${whole}${fraction === null ? '' : `.${fraction}`}${exponent === null ? '' : `e${exponent}`}`,
  );
const timeText = fc
  .tuple(
    fc.stringMatching(/^(?:[0-9]{4})-(?:0[0-9]|1[0-3])-(?:[0-3][0-9])$/),
    fc.constantFrom('T', 't', ' ', '_', ''),
    fc.stringMatching(/^[0-2][0-9]:[0-6][0-9]:[0-5][0-9]$/),
    fc.option(digits(9)),
    fc.oneof(
      fc.constantFrom('', 'Z', 'z', ' UTC', '+0100', '+16:00', '-15:59'),
      fc.stringMatching(/^[+-](?:0[0-9]|1[0-5]):[0-5][0-9]$/),
    ),
  )
  .chain(([date, separator, time, fraction, zone]) =>
    fc.constantFrom(
      date,
      `${date}${separator}${time}${zone}`,
      `${date}${separator}${time}${fraction === null ? '' : `.${fraction}`}${zone}`,
    ),
  );
const word = fc.constantFrom(
  '',
  ' ',
  'NaN',
  'Infinity',
  '-Infinity',
  'infinity',
  'nan',
  'true',
  'yes',
  'now',
  'epoch',
  '0x10',
  '1_000',
  ' 1',
  '1 ',
  '+1',
  '01',
  '.5',
  '5.',
  '1e',
  'null',
  '\\N',
  '\\',
  '{}',
  '[]',
);
const json = fc.oneof(
  numberText,
  numberText.map((text) => JSON.stringify(text)),
  timeText.map((text) => JSON.stringify(text)),
  word.map((text) => JSON.stringify(text)),
  fc.constantFrom(
    'null',
    'true',
    'false',
    '9007199254740993',
    '9223372036854775807',
    '9223372036854775808',
    '-9223372036854775808',
    '1.0',
    '1e3',
    '-0',
    '1e400',
    '5e-324',
    '1e-400',
    '-1e-400',
  ),
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
  fc.string({ unit: 'grapheme' }).map((text) => JSON.stringify(text)),
  fc.constantFrom('"\\u0000"', '"\\ud800"', '"\\udc00x"', '"\\ud83d\\ude00"', '{"\\u0000":1}', '["\\ud800"]'),
  fc.jsonValue({ maxDepth: 3, stringUnit: 'grapheme' }).map((value) => JSON.stringify(value)),
);

let counter = 0;

it('a value is accepted or refused by its rules, and reads back equal if accepted', async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...TYPES), json, fc.constantFrom('', '?return=ids'), async (type, text, query) => {
      const n = ++counter;
      const body = `[{"n":${n},"${columnOf(type)}":${text}}]`;
      const response = await project.call('POST', `/api/cdp/data/t${query}`, { body });
      checkClear(response);
      const value = expected(type, text);
      const label = `${type} ${text}`;
      const seen = (read: unknown) => [label, type === 'JSONB' ? withoutSignOfZero(read) : read];
      if (value === REFUSED) {
        expect([label, response.status]).toEqual([label, 400]);
        expectFailure(response, 400, 'invalid_value');
        expect(await project.rows(`SELECT 1 FROM t WHERE n = ${n}`)).toEqual([]);
        return;
      }
      expect([label, response.status, response.text]).toEqual([label, 201, response.text]);
      const sql = `SELECT ${columnOf(type)} AS v FROM t WHERE n = ${n}`;
      const [row] = await project.rows(sql);
      expect(seen(row?.v)).toEqual([label, value]);
      const stream = await project.call('POST', '/api/cdp/sql', {
        body: { sql },
        headers: { accept: 'application/x-ndjson' },
      });
      const [line = ''] = stream.text.split('\n');
      expect(seen((JSON.parse(line) as { v: unknown }).v)).toEqual([label, value]);
    }),
    parameters(350),
  );
});
