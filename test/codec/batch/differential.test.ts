/**
 * The fast path compared with the reference: the reference accepts whatever the fast path accepts, and both write the
 * same values.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { COLUMN_TYPES, type ColumnType } from '../../../src/contract/column-types.js';
import { readCell } from '../../../src/codec/batch/cell.js';
import { allSteps, checkRecords, type EncodedBatch, readRecords } from '../../../src/codec/index.js';
import type { Column, Table } from '../../../src/engine/catalog/catalog.js';
import { parameters } from '../../properties/run.js';
import { bytes, column } from './shapes.js';
import { fast, markedTableOf, tableOf } from './tables.js';

const columns: Column[] = [
  column('id', null, { isId: true, hasDefault: true }),
  ...COLUMN_TYPES.map((type) => column(type.toLowerCase(), type)),
  column('__proto__', 'TEXT'),
  column('größe', 'TEXT'),
  column('a "b" \\ c', 'TEXT'),
];

/** Cells of a table in the fast path's columns, by type: equal for equal values. null where the batch is refused. */
type Rows = (string | number | null)[][];

/** A cell that is left to the column's default; no text is. */
const DEFAULT = Infinity;

function byReference(table: Table, body: Uint8Array, indices: readonly number[]): Rows | null {
  try {
    const batch = allSteps(readRecords(body));
    allSteps(checkRecords(batch, table));
    return batch.records.map(({ members }) => {
      const cells = new Map(members);
      return indices.map((index) => {
        const shape = table.columns[index] as Column;
        const node = cells.get(shape.name);
        if (node === undefined && shape.hasDefault) return DEFAULT;
        const cell = node === undefined ? null : readCell(shape, node);
        if (cell !== null && typeof cell !== 'string') throw new Error('The reference accepted what it refuses');
        return cell === null ? null : comparable(shape, cell);
      });
    });
  } catch {
    return null;
  }
}

/** From the text that Postgres would be given. */
function comparable({ type, isId }: Column, text: string): string | number {
  if (isId) return text.toLowerCase();
  if (type === 'FLOAT') return Number(text);
  // A text may be written with these escapes or those.
  if (type === 'JSONB' && text.startsWith('"')) return JSON.stringify(JSON.parse(text));
  if (type === 'BOOLEAN') return text.slice(0, 1);
  return type === 'TIMESTAMP' ? microseconds(text) : text;
}

/** Microseconds since 1970, as text, of `YYYY-MM-DD hh:mm:ss.ffffff±hh:mm`, however it ends. */
function microseconds(text: string): string {
  const parts = /^(.{10}).(.{8})(?:\.(\d{1,15}))?(?:([+-]\d\d)(?::(\d\d))?)$/.exec(text);
  if (parts === null) return text;
  const [, date = '', time = '', fraction = '', hours = '', minutes = '00'] = parts;
  const local = BigInt(Date.parse(`${date}T${time}Z`)) * 1000n + BigInt(roundedToEven(Number(`0.${fraction}0`) * 1e6));
  return String(local - BigInt(`${hours.slice(0, 1)}60000000`) * (BigInt(hours.slice(1)) * 60n + BigInt(minutes)));
}

/** C's rint, with which Postgres makes microseconds of a fraction. */
function roundedToEven(value: number): number {
  const [below, above] = [Math.floor(value), Math.ceil(value)];
  if (value - below === above - value) return below % 2 === 0 ? below : above;
  return Math.round(value);
}

const LETTERS: Record<string, string> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v', '\\': '\\' };

/** Reads COPY text back as Postgres does (manual, COPY, "Text Format"). */
function readText(table: Table, { data, columns: indices }: EncodedBatch): Rows {
  const text = new TextDecoder('utf-8', { fatal: true }).decode(data);
  if (text === '') return [];
  expect(text.endsWith('\n')).toBe(true);
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) =>
      line.split('\t').map((field, i) => {
        if (field === '\\N') return null;
        if (field === '\\D') return DEFAULT;
        const value = field.replace(/\\(.)/gs, (_, letter: string) => LETTERS[letter] ?? letter);
        return comparable(table.columns[indices[i] as number] as Column, value);
      }),
    );
}

/** Reads rows of COPY's binary format back as Postgres does (manual, COPY, "Binary Format"). */
function readBinary(table: Table, { data, columns: indices }: EncodedBatch): Rows {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const rows: Rows = [];
  for (let at = 0; at < data.length;) {
    expect(view.getInt16(at)).toBe(indices.length);
    at += 2;
    rows.push(
      indices.map((index) => {
        const length = view.getInt32(at);
        at += 4;
        if (length < 0) return null;
        at += length;
        return binaryValue(table.columns[index] as Column, view, at - length, length);
      }),
    );
  }
  return rows;
}

function binaryValue(shape: Column, view: DataView, at: number, length: number): string | number {
  const { type, isId } = shape;
  const raw = Buffer.from(view.buffer as ArrayBuffer, view.byteOffset + at, length);
  if (isId) {
    expect(length).toBe(16);
    return raw.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  }
  if (type === 'BOOLEAN') {
    expect(length).toBe(1);
    return raw[0] === 1 ? 't' : 'f';
  }
  if (type === 'INTEGER' || type === 'FLOAT' || type === 'TIMESTAMP') expect(length).toBe(8);
  if (type === 'INTEGER') return String(view.getBigInt64(at));
  if (type === 'FLOAT') return view.getFloat64(at);
  if (type === 'TIMESTAMP') return String(view.getBigInt64(at) + BigInt(Date.UTC(2000, 0, 1)) * 1000n);
  if (type === 'JSONB') expect(raw[0]).toBe(1);
  return comparable(shape, new TextDecoder('utf-8', { fatal: true }).decode(type === 'JSONB' ? raw.subarray(1) : raw));
}

const awkwardString = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 20 }),
  fc.constantFrom(
    '',
    '\\N',
    '\\D',
    '\\.',
    'a\tb',
    'a\nb',
    '\r\n',
    '\\',
    '"',
    '\u0000',
    '\ud800',
    '\u2028',
    '😀',
    'null',
  ),
);
const awkwardNumber = fc.oneof(
  fc.double().filter(Number.isFinite).map(String),
  fc.bigInt({ min: -(2n ** 65n), max: 2n ** 65n }).map(String),
  fc.constantFrom(
    '0',
    '-0',
    '1.0',
    '1e3',
    '1E+2',
    '1e400',
    '1e-400',
    '0.1',
    '-1.50',
    '123456789012345678',
    '1234567890123456789',
    '01',
    '1.',
    '.5',
    '+1',
  ),
);
const awkwardTime = fc.oneof(
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
  fc
    .tuple(fc.nat(10_000), fc.nat(14), fc.nat(32), fc.nat(25), fc.nat(61), fc.nat(61))
    .map(([y, mo, d, h, mi, s]) => `${pad(y, 4)}-${pad(mo, 2)}-${pad(d, 2)}T${pad(h, 2)}:${pad(mi, 2)}:${pad(s, 2)}`)
    .chain((time) =>
      fc
        .constantFrom('', 'Z', 'z', '+05:30', '-15:59', '+16:00', '.1Z', '.123456', '.1234567Z', '.', '.5+01', ' Z')
        .map((end) => time + end),
    ),
  fc.constantFrom(
    '2024-02-29',
    '2023-02-29',
    '1900-02-29',
    '2000-02-29',
    '0000-01-01',
    '2024-1-1',
    'now',
    '2024-01-01 00:00:00',
  ),
);
const pad = (value: number, length: number) => String(value).padStart(length, '0');

const escapedFreely = awkwardString.chain((text) =>
  fc
    .boolean()
    .map((all) =>
      all
        ? `"${[...Array(text.length).keys()].map((i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`
        : JSON.stringify(text),
    ),
);
/** Runs of escaped code units, at the edges of lengths in UTF-8 and of surrogates, some of them damaged. */
const escapedUnits = fc
  .array(
    fc.oneof(
      { weight: 12, arbitrary: fc.constantFrom('\\u0444', '\\u07FF', '\\u0080', '\\u00fc') },
      { weight: 12, arbitrary: fc.constantFrom('\\u0800', '\\uFFff', '\\u654f', '\\ud7FF', '\\ue000') },
      { weight: 2, arbitrary: fc.constantFrom('\\u007f', '\\u0001', '\\u005C', '\\u000a', '\\ud83d\\ude00') },
      { weight: 2, arbitrary: fc.constantFrom('a', ' ', 'ü', '\\n', '\\"', '\\\\') },
      { weight: 1, arbitrary: fc.constantFrom('\\ud800', '\\udfff', '\\u0000', '\\u044', '\\u04g4', '\\U0444', '\\q') },
    ),
    { maxLength: 30 },
  )
  .map((units) => `"${units.join('')}"`);
const cell = fc.oneof(
  escapedFreely,
  escapedUnits,
  awkwardNumber,
  awkwardTime.map((time) => JSON.stringify(time)),
  fc.constantFrom('true', 'false', 'null', '"true"', '"NaN"', '"12"', '"007"', '"1.5"', '[]', '{}', 'tru', ''),
  fc.json({ maxDepth: 4 }),
  fc.json({ maxDepth: 3 }).map((json) => json.replaceAll(':', ' :\n\t')),
  fc.uuid().map((id) => JSON.stringify(id)),
);
const keyOf = (shapes: readonly Column[]) =>
  fc.oneof(
    { weight: 30, arbitrary: fc.constantFrom(...shapes.map(({ name }) => name)) },
    { weight: 1, arbitrary: fc.constantFrom('nope', 'constructor', '', 'TEXT') },
  );
const space = fc.constantFrom('', '', '', ' ', '\n', '\t \r\n');
const recordOf = (shapes: readonly Column[]) =>
  fc
    .array(fc.tuple(keyOf(shapes), cell, space), { maxLength: 9 })
    .map(
      (members) =>
        `{${members.map(([name, value, gap]) => `${gap}${JSON.stringify(name)}${gap}:${gap}${value}${gap}`).join(',')}}`,
    );
const batchOf = (shapes: readonly Column[]) =>
  fc
    .tuple(fc.array(recordOf(shapes), { maxLength: 6 }), space)
    .map(([records, gap]) => `[${gap}${records.join(`${gap},`)}]${gap}`);

/** Of Postgres's own types, as text: one that takes texts, and arrays. */
const others = [column('other', null), column('list', null, { isArray: true })];
const element = fc.oneof(
  escapedFreely,
  escapedUnits,
  awkwardNumber,
  fc.constantFrom('null', 'true', 'NULL', '{"a":"\\"}', '[]'),
);
const list = fc
  .tuple(fc.array(fc.oneof(element, fc.array(element, { maxLength: 3 }).map(String)), { maxLength: 6 }), space)
  .map(([elements, gap]) => `{"list":[${gap}${elements.join(`${gap},${gap}`)}${gap}]}`);

/** One well-formed cell of each type, so that most batches of these are taken. */
const fitting: Record<ColumnType, fc.Arbitrary<string>> = {
  TEXT: fc.oneof(escapedFreely, escapedUnits, fc.constantFrom('1.50', 'true')),
  INTEGER: fc.oneof(
    fc.maxSafeInteger().map(String),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((n) => `"${n}"`),
  ),
  FLOAT: fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  BOOLEAN: fc.constantFrom('true', 'false'),
  TIMESTAMP: fc
    .date({ noInvalidDate: true, min: new Date('0001-01-01'), max: new Date('9999-12-31') })
    .map((d) => JSON.stringify(d)),
  JSONB: fc.json(),
};
const fittingRecord = fc
  .record(Object.fromEntries(COLUMN_TYPES.map((type) => [type.toLowerCase(), fitting[type]])), { requiredKeys: [] })
  .map(
    (cells) =>
      `{${Object.entries(cells)
        .map(([name, value]) => `"${name}":${value as string}`)
        .join(',')}}`,
  );

describe.each([
  { format: 'binary', plan: tableOf(...columns) },
  { format: 'text', plan: tableOf(...columns, ...others) },
  {
    format: 'marked',
    plan: markedTableOf(...[...columns, ...others].map((one, i) => ({ ...one, hasDefault: one.isId || i % 2 === 0 }))),
  },
])('the fast path in $format', ({ format, plan }) => {
  const { table } = plan;
  const batch = batchOf(table.columns);

  /** @returns whether the fast path took the batch */
  function agree(body: Uint8Array): boolean {
    const batch = fast(plan, body);
    if (batch === null) return false;
    const rows = (format === 'binary' ? readBinary : readText)(table, batch);
    expect(rows).toHaveLength(batch.recordCount);
    expect(rows).toEqual(byReference(table, body, batch.columns));
    return true;
  }

  it('uses that format', () => {
    expect(plan.layout.format).toBe(format);
  });

  it('agrees with the reference on hostile batches', () => {
    fc.assert(
      fc.property(batch, (text) => void agree(bytes(text))),
      parameters(5_000),
    );
  });

  it('agrees with the reference on batches of valid cells, and accepts most of them', () => {
    let [runs, taken] = [0, 0];
    fc.assert(
      fc.property(fc.array(fittingRecord, { minLength: 1, maxLength: 8 }), (records) => {
        runs++;
        if (agree(bytes(`[${records.join()}]`))) taken++;
      }),
      parameters(2_000),
    );
    expect(taken).toBeGreaterThan(runs / 2);
  });

  // A table with a column of another type goes as text.
  if (format !== 'binary') {
    it('agrees with the reference on lists', () => {
      fc.assert(
        fc.property(list, (record) => void agree(bytes(`[${record}]`))),
        parameters(5_000),
      );
      const depths = [1, 2, 97, 98, 99, 100].map((depth) => '['.repeat(depth) + ']'.repeat(depth));
      expect(depths.map((json) => agree(bytes(`[{"list":${json}}]`)))).toContain(true);
    });
  }

  it('agrees with the reference on bodies that are truncated, doubled or changed in one byte', () => {
    const change = fc.tuple(batch, fc.nat(), fc.nat(255), fc.constantFrom('cut', 'change', 'double'));
    fc.assert(
      fc.property(change, ([text, place, byte, how]) => {
        const body = bytes(text);
        const at = place % (body.length + 1);
        if (how === 'cut') return void agree(body.subarray(0, at));
        if (how === 'double')
          return void agree(new Uint8Array([...body.subarray(0, at), ...body.subarray(Math.max(0, at - 1))]));
        body[at] = byte;
        agree(body);
      }),
      parameters(5_000),
    );
  });

  it('agrees with the reference on every prefix of a batch, and with each of its bytes replaced by any byte', () => {
    const text =
      '[{"id":"01a1fd34-6858-755e-983c-9a25762dff0b","text":"a\\n\\ud83d\\ude00é","integer":-12,"float":1.5e3, "boolean":true,' +
      '"timestamp":"2024-02-29T12:00:00.5+01:00","jsonb":{"a":[1,{}],"b":"\\u00e9"},"größe":null},\n' +
      '{"jsonb" : "x" , "text":7,"id":"01A1FD34-6858-755E-983C-9A25762DFF0B"}]';
    const body = bytes(text);
    expect(agree(body)).toBe(true);
    for (let end = 0; end < body.length; end++) expect(agree(body.subarray(0, end))).toBe(false);
    for (const [at, byte] of body.entries()) {
      for (let other = 0; other < 256; other++) {
        body[at] = other;
        agree(body);
      }
      body[at] = byte;
    }
  });

  it('accepts an ordinary batch of 250 records', () => {
    const records = Array.from({ length: 250 }, (_, i) => ({
      text: `name ${i} "quoted" \\ back\nline`,
      integer: i,
      float: i / 7,
      boolean: i % 2 === 0,
      timestamp: new Date(1.7e12 + i * 1e7).toISOString(),
      jsonb: { tags: ['a', i], nested: { none: null } },
    }));
    expect(agree(bytes(JSON.stringify(records)))).toBe(true);
    expect(agree(bytes(JSON.stringify([...records, {}])))).toBe(false);
  });

  it.each([
    ['integer', '7.0'],
    ['integer', '"-42"'],
    ['integer', '-0'],
    ['integer', '9223372036854775807'],
    ['integer', '-9223372036854775808'],
    ['integer', '"-9223372036854775808"'],
    ['integer', '1e3'],
    ['integer', '1234567890123456789'],
    ['float', '0.30000000000000004'],
    ['float', '-123456789.12345679'],
    ['float', '6.02214076e+23'],
    ['float', '4.9e-324'],
    ['float', '"2.50"'],
    ['timestamp', '"2024-02-29T12:34:56.1234567Z"'],
    ['timestamp', '"2024-12-31T23:59:59.999999999-05:30"'],
    ['timestamp', '"2024-02-29t12:34:56z"'],
    ['timestamp', '"0001-01-01 00:00:00.5"'],
    ['timestamp', '"9999-12-31"'],
    ['id', '"01A1FD34-6858-755E-983C-9a25762dff0b"'],
    ['text', '"\\ud83d\\ude00 \\u00e9\\u0009"'],
    ['jsonb', '"a \\"text\\""'],
    ['jsonb', '[1e-9,{"\\ud83d\\ude00":"\\n"}]'],
    ['jsonb', '-1.5e+300'],
  ])('accepts common values: %s of %s', (name, value) => {
    expect(agree(bytes(`[{"${name}":${value}}]`))).toBe(true);
  });

  it('accepts keys of any characters in their usual spelling, and leaves others to the reference', () => {
    expect(agree(bytes('[{"größe":"a","a \\"b\\" \\\\ c":"b"},{"a \\"b\\" \\\\ c" :"c"}]'))).toBe(true);
    expect(agree(bytes('[{"gr\\u00f6\\u00dfe":"a"}]'))).toBe(false);
    expect(agree(bytes('[{"a \\u0022b\\" \\\\ c":"a"}]'))).toBe(false);
    expect(agree(bytes('[{"größe":"a","gr\\u00f6\\u00dfe":"b"}]'))).toBe(false);
  });

  it('finds the end of a text of any length at any offset', () => {
    const texts = Array.from({ length: 600 }, (_, i) => ({ text: 'ü'.repeat(i % 7) + 'x'.repeat(i) }));
    for (let from = 0; from < texts.length; from += 100) {
      expect(agree(bytes(JSON.stringify(texts.slice(from, from + 100))))).toBe(true);
    }
  });

  it('reads any four consecutive escapes', () => {
    const escape = (unit: number) => `\\u${unit.toString(16).padStart(4, '0')}`;
    const units = [0x1, 0x5c, 0x7f, 0x80, 0x7ff, 0x800, 0xabcd, 0xd7ff, 0xd800, 0xdc00, 0xe000, 0xffff];
    for (const a of units) {
      for (const b of units) {
        for (const others of [
          [0x444, 0x444],
          [0x654f, 0x654f],
        ]) {
          for (const four of [
            [a, b, ...others],
            [...others, a, b],
          ])
            agree(bytes(`[{"text":"${four.map(escape).join('')}"}]`));
        }
      }
    }
    const run = 'фыва敏捷的棕é';
    for (const hex of [0x3a, 0x40, 0x47, 0x60, 0x67, 0x2f, 0xc1, 0x00]) {
      const text = [...run].map((letter) => escape(letter.charCodeAt(0))).join('');
      for (let at = 0; at < text.length; at++) {
        const body = bytes(`[{"text":"${text}"}]`);
        expect(agree(body)).toBe(true);
        body[10 + at] = hex;
        agree(body);
      }
    }
  });

  it(`${format === 'marked' ? 'takes' : 'leaves to the reference'} records that omit different columns with a default`, () => {
    expect(agree(bytes('[{"id":"01a1fd34-6858-755e-983c-9a25762dff0b","text":"a"}]'))).toBe(true);
    expect(agree(bytes('[{"id":"01a1fd34-6858-755e-983c-9a25762dff0b"},{"text":"a"}]'))).toBe(format === 'marked');
    expect(agree(bytes('[{"text":"a"},{"id":"01a1fd34-6858-755e-983c-9a25762dff0b"}]'))).toBe(format === 'marked');
  });

  it('finds its columns in any order of keys, and with any of them missing', () => {
    const names = table.columns.slice(1, 1 + COLUMN_TYPES.length).map(({ name }) => name);
    const value: Record<string, string> = { text: '"a"', integer: '1', float: '1.5', boolean: 'true', jsonb: '[]' };
    fc.assert(
      fc.property(fc.array(fc.shuffledSubarray(names, { minLength: 1 }), { minLength: 1, maxLength: 20 }), (orders) => {
        const records = orders.map(
          (order) => `{${order.map((name) => `"${name}":${value[name] ?? '"2024-01-01"'}`).join()}}`,
        );
        expect(agree(bytes(`[${records.join()}]`))).toBe(true);
      }),
    );
  });
});

it('processes a batch whose records each give another column with a default in at most two passes', () => {
  const many = markedTableOf(
    column('text', 'TEXT'),
    ...Array.from({ length: 250 }, (_, i) => column(`d${i}`, 'TEXT', { hasDefault: true })),
  );
  const record = (i: number, size: number) => `{"d${i}":"v","text":"${'\\n'.repeat(size)}"}`;
  const batchOf = (size: number) => bytes(`[${Array.from({ length: 250 }, (_, i) => record(i, size)).join()}]`);
  const body = batchOf(2);
  const rows = fast(many, body);
  expect(rows && readText(many.table, rows)).toEqual(byReference(many.table, body, rows?.columns ?? []));
  const { user } = process.cpuUsage();
  expect(fast(many, batchOf(20_000))?.recordCount).toBe(250);
  // A tenth of a second; it was six.
  expect(process.cpuUsage().user - user).toBeLessThan(2_000_000);
});
