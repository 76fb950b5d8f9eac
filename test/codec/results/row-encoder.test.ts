/**
 * Rows taken from a stream of messages: how many, and where it stops. How rows are written is tested in rows.test.ts.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rowEncoder, type RowEncoder } from '../../../src/codec/index.js';
import { parameters } from '../../properties/run.js';
import { column, csvRow, dataRow, type Field, int32, int64, json, jsonRow, OID } from './encoding.js';

const MANY = 1_000_000;

/** Messages one after the other, and the end of the statement. */
function stream(rows: readonly (readonly Field[])[]): Buffer {
  const messages = rows.map((fields) => {
    const { message, start, end } = dataRow(fields);
    return message.subarray(start, end);
  });
  return Buffer.concat([...messages, Buffer.from('C'), int32(13), Buffer.from('SELECT 1\0')]);
}

const lines = (...types: number[]): RowEncoder =>
  rowEncoder(
    types.map((oid, i) => column(`c${i}`, oid)),
    'lines',
    'array',
  );

describe('works', () => {
  test('encodes as many rows as requested, and stops before a message that is not a row', () => {
    const bytes = stream([['1'], ['2'], ['3'], ['4'], ['5']]);
    const encoder = lines(OID.int8);
    const first = encoder.encode(bytes, 0, bytes.length, 3, MANY);
    expect([first.count, first.bytes.toString()]).toEqual([3, '[1]\n[2]\n[3]\n']);
    const rest = encoder.encode(bytes, first.end, bytes.length, 3, MANY);
    expect([rest.count, rest.bytes.toString()]).toEqual([2, '[4]\n[5]\n']);
    expect(bytes.toString('latin1', rest.end, rest.end + 1)).toBe('C');
  });

  test('stops before an incomplete row', () => {
    const bytes = stream([['1'], ['2']]);
    const { count, bytes: rows, end } = lines(OID.int8).encode(bytes, 0, bytes.length - 15, 3, MANY);
    expect([count, rows.toString()]).toEqual([1, '[1]\n']);
    expect(bytes.toString('latin1', end, end + 1)).toBe('D');
  });

  test('keeps several rows below the byte limit; only a single row may exceed it', () => {
    const rows = Array.from({ length: 10 }, () => ['x'.repeat(1_000)]);
    const bytes = stream(rows);
    const encoder = lines(OID.text);
    let text = '';
    let at = 0;
    for (let taken = 0; taken < rows.length;) {
      const some = encoder.encode(bytes, at, bytes.length, MANY, 3_500);
      expect(some.count === 1 || some.bytes.length <= 3_500).toBe(true);
      text += some.bytes.toString();
      taken += some.count;
      at = some.end;
    }
    expect(text).toBe(`["${'x'.repeat(1_000)}"]\n`.repeat(10));
    expect(encoder.encode(bytes, 0, bytes.length, MANY, 0).count).toBe(1);
  });

  test('several results take turns', () => {
    const [numbers, texts] = [lines(OID.int8), lines(OID.text)];
    const bytes = stream([['1'], ['2']]);
    const rows = [numbers, texts, numbers].map((encoder) => encoder.encode(bytes, 0, bytes.length, 1, MANY).bytes);
    expect(rows.join('')).toBe('[1]\n["1"]\n[1]\n');
  });

  test('encodes the longest message with every byte escaped, and small rows after it', () => {
    const encoder = lines(OID.text, OID.textArray);
    const control = '\u0001'.repeat(7_900_000);
    const bytes = stream([[control, `{${control}}`]]);
    const { bytes: row } = encoder.encode(bytes, 0, bytes.length, 1, MANY);
    const escaped = '\\u0001'.repeat(7_900_000);
    expect(row.equals(Buffer.from(`["${escaped}",["${escaped}"]]\n`))).toBe(true);
    const small = stream([['1', '{2}']]);
    expect(encoder.encode(small, 0, small.length, 1, MANY).bytes.toString()).toBe('["1",["2"]]\n');
  });

  test('encodes long rows, values and names', () => {
    const long = 'a "quoted" word\n'.repeat(10_000);
    expect(json(OID.text, long)).toBe(JSON.stringify(long));
    expect(csvRow([column('v', OID.text)], [long])).toBe(`"${long.replaceAll('"', '""')}"\n`);
    const element = 'e'.repeat(80_000);
    expect(json(OID.textArray, `{${element}}`)).toBe(`["${element}"]`);
    const controls = '\u0001'.repeat(30_000);
    expect(json(OID.textArray, `{${controls}}`)).toBe(JSON.stringify([controls]));
    const wide = Array.from({ length: 1_600 }, (_, i) => column(`${'n'.repeat(50)}${i}`, OID.int8));
    const row = JSON.parse(
      jsonRow(
        wide,
        wide.map((_, i) => String(i)),
      ),
    ) as Record<string, number>;
    expect(Object.values(row)).toEqual(wide.map((_, i) => i));
  });

  test('encodes bytes, days and numbers at their limits', () => {
    for (let length = 0; length < 40; length++) {
      const bytes = Buffer.from(Array.from({ length }, (_, i) => (i * 37) % 256));
      expect(json(OID.bytea, bytes)).toBe(`"\\\\x${bytes.toString('hex')}"`);
    }
    const day = (iso: string): number => (Date.parse(iso) - Date.UTC(2000, 0, 1)) / 86_400_000;
    expect(json(OID.date, int32(day('9999-12-31')))).toBe('"9999-12-31"');
    expect(json(OID.date, int32(day('9999-12-31') + 1))).toBe('"10000-01-01"');
    expect(json(OID.date, int32(day('0001-01-01')))).toBe('"0001-01-01"');
    expect(json(OID.date, int32(day('0001-01-01') - 1))).toBe('"0001-12-31 BC"');
    const last = BigInt(day('9999-12-31') + 1) * 86_400_000_000n - 1n;
    expect(json(OID.timestamptz, int64(last))).toBe('"9999-12-31T23:59:59.999999Z"');
    expect(json(OID.timestamp, int64(last + 1n))).toBe('"10000-01-01 00:00:00"');
    for (const number of ['999999999999999', '9007199254740991', '-9007199254740991', '1234567890123456.0']) {
      expect(json(OID.numeric, number)).toBe(number);
    }
    for (const number of [
      '9007199254740992',
      '-9007199254740992',
      '12345678901234567',
      '-12345678901234567.5',
      'NaN',
    ]) {
      expect(json(OID.numeric, number)).toBe(`"${number}"`);
    }
  });
});

describe('protects', () => {
  test('any real is written in its shortest form, also near powers of ten and two', () => {
    const bytes = Buffer.alloc(4);
    const real = (bits: number): void => {
      bytes.writeUInt32BE(bits >>> 0);
      const text = json(OID.float4, bytes);
      if (Number.isFinite(bytes.readFloatBE()))
        expect(Math.fround(JSON.parse(text) as number)).toBe(bytes.readFloatBE());
    };
    fc.assert(fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), real), { numRuns: 3_000 });
    const plain = fc.float({ min: Math.fround(0.0005), max: 2_000_000, noNaN: true });
    const bitsOf = (value: number): number => {
      bytes.writeFloatBE(value);
      return bytes.readUInt32BE();
    };
    fc.assert(
      fc.property(plain, (value) => real(bitsOf(value))),
      { numRuns: 3_000 },
    );
    for (let power = -12; power < 24; power++) {
      for (const near of [-2, -1, 0, 1, 2]) real(bitsOf(2 ** power) + near);
      for (const near of [-2, -1, 0, 1, 2]) real(bitsOf(10 ** power) + near);
    }
  });

  test('a row whose fields are longer than the row is an error', () => {
    const bytes = stream([['1234']]);
    bytes.writeInt32BE(5, 7);
    expect(() => lines(OID.text).encode(bytes, 0, bytes.length, 1, MANY)).toThrow();
    bytes.writeInt32BE(3, 7);
    expect(() => lines(OID.text).encode(bytes, 0, bytes.length, 1, MANY)).toThrow();
  });

  test('an invalid value of a type causes an error or a wrong value, but never affects what follows it', () => {
    const types = fc.constantFrom(...Object.values(OID));
    const field = fc.oneof(
      fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
      fc.constantFrom('', '{', '{"', '{"a', '{a', 'x', '[0:1]', '{"a\\\\').map((text) => Buffer.from(text)),
      fc.array(fc.integer({ min: -2, max: 4 }), { maxLength: 8 }).map((words) => Buffer.concat(words.map(int32))),
    );
    const secret = 'SECRET'.repeat(300);
    const others = lines(OID.text);
    const otherRows = stream([[secret]]);
    fc.assert(
      fc.property(types, fc.array(field, { minLength: 1, maxLength: 3 }), fc.nat(), (oid, fields, place) => {
        const columns = fields.map((_, i) => column(`c${i}`, oid));
        const { message, start, end } = dataRow(fields);
        const bytes = Buffer.concat([message.subarray(0, end), Buffer.from(secret)]);
        // As it is, and with a byte of it changed, which may be one of a length.
        for (const changed of [null, start + 7 + (place % (end - start - 7))]) {
          if (changed !== null && changed < end) bytes[changed] = place >> 8;
          for (const format of ['lines', 'csv'] as const) {
            // What another result has left in the memory of WebAssembly.
            others.encode(otherRows, 0, otherRows.length, 1, MANY);
            try {
              const { bytes: row } = rowEncoder(columns, format, 'array').encode(
                bytes.subarray(0, end),
                start,
                end,
                1,
                MANY,
              );
              expect(row.toString('latin1')).not.toContain('SECRET');
            } catch (error) {
              if (error instanceof Error && error.name === 'AssertionError') throw error;
            }
          }
        }
      }),
      parameters(1_000),
    );
  });

  test('any text in CSV reads back unchanged, with quotes if it needs them', () => {
    const unit = fc.constantFrom('a', 'bc', ' ', '"', ',', '\n', '\r', '\\', '.', 'é', '😀');
    const text = fc.array(unit, { maxLength: 40 }).map((units) => units.join(''));
    const row = fc.array(fc.option(text, { freq: 5 }), { minLength: 1, maxLength: 4 });
    const field = (value: string | null, isOnly: boolean): string => {
      if (value === null) return '';
      const needsQuotes = value === '' || /[",\r\n]/.test(value) || (isOnly && value === '\\.');
      return needsQuotes ? `"${value.replaceAll('"', '""')}"` : value;
    };
    fc.assert(
      fc.property(row, (fields) => {
        const columns = fields.map((_, i) => column(`c${i}`, OID.text));
        expect(csvRow(columns, fields)).toBe(`${fields.map((f) => field(f, fields.length === 1)).join(',')}\n`);
      }),
      { numRuns: 300 },
    );
  });
});
