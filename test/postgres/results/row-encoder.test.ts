/** Rows taken from a stream of messages: how many, how far, and by which way. What they become is tested beside. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ByteWriter } from '../../../src/postgres/results/byte-writer.js';
import { RowBytes } from '../../../src/postgres/results/row-bytes.js';
import type { RowEncoder } from '../../../src/postgres/results/row-encoder.js';
import { jsonRowEncoder } from '../../../src/postgres/results/rows.js';
import { csvRowEncoder } from '../../../src/postgres/results/csv.js';
import { parameters } from '../../properties/run.js';
import { column, csvRow, dataRow, type Field, int32, int64, json, jsonRow, OID } from './encoding.js';

const MANY = 1_000_000;

/** Messages one behind the other, and the end of the statement. */
function stream(rows: readonly (readonly Field[])[]): Buffer {
  const messages = rows.map((fields) => {
    const { message, start, end } = dataRow(fields);
    return message.subarray(start, end);
  });
  return Buffer.concat([...messages, Buffer.from('C'), int32(13), Buffer.from('SELECT 1\0')]);
}

const lines = (...types: number[]): RowEncoder =>
  jsonRowEncoder(
    types.map((oid, i) => column(`c${i}`, oid)),
    'array',
    'line',
  );

describe('works', () => {
  test('takes as many rows as asked for, and stops before what is no row', () => {
    const bytes = stream([['1'], ['2'], ['3'], ['4'], ['5']]);
    const encoder = lines(OID.int8);
    const out = new ByteWriter();
    const third = encoder.take(bytes, 0, bytes.length, 3, MANY, out);
    expect([encoder.rows, out.view().toString()]).toEqual([3, '[1]\n[2]\n[3]\n']);
    const end = encoder.take(bytes, third, bytes.length, 3, MANY, out);
    expect([encoder.rows, out.view().toString()]).toEqual([2, '[1]\n[2]\n[3]\n[4]\n[5]\n']);
    expect(bytes.toString('latin1', end, end + 1)).toBe('C');
  });

  test('stops before a row that is not there as a whole', () => {
    const bytes = stream([['1'], ['2']]);
    const encoder = lines(OID.int8);
    const out = new ByteWriter();
    const behind = encoder.take(bytes, 0, bytes.length - 15, 3, MANY, out);
    expect([encoder.rows, out.view().toString()]).toEqual([1, '[1]\n']);
    expect(bytes.toString('latin1', behind, behind + 1)).toBe('D');
  });

  test('several rows stay below the bytes that they may take; one alone goes beyond', () => {
    const rows = Array.from({ length: 10 }, () => ['x'.repeat(1_000)]);
    const bytes = stream(rows);
    const encoder = lines(OID.text);
    const out = new ByteWriter();
    let at = 0;
    for (let taken = 0; taken < rows.length; taken += encoder.rows) {
      const before = out.length;
      at = encoder.take(bytes, at, bytes.length, MANY, 3_500, out);
      expect(encoder.rows === 1 || out.length - before <= 3_500).toBe(true);
    }
    expect(out.view().toString()).toBe(`["${'x'.repeat(1_000)}"]\n`.repeat(10));
    encoder.take(bytes, 0, bytes.length, MANY, 0, out);
    expect(encoder.rows).toBe(1);
  });

  test('results take turns', () => {
    const [numbers, texts] = [lines(OID.int8), lines(OID.text)];
    const bytes = stream([['1'], ['2']]);
    const out = new ByteWriter();
    for (const encoder of [numbers, texts, numbers]) encoder.take(bytes, 0, bytes.length, 1, MANY, out);
    expect(out.view().toString()).toBe('[1]\n["1"]\n[1]\n');
  });

  test('rows, values and names that are too long for the walk are written as well', () => {
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

  test('bytes, days and numbers around their edges', () => {
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
  test('any real is what its writer makes of it, near powers of ten and two as well', () => {
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

  test('a row whose fields are longer than itself ends in an error', () => {
    const bytes = stream([['1234']]);
    bytes.writeInt32BE(5, 7);
    expect(() => lines(OID.text).take(bytes, 0, bytes.length, 1, MANY, new ByteWriter())).toThrow();
    bytes.writeInt32BE(3, 7);
    expect(() => lines(OID.text).take(bytes, 0, bytes.length, 1, MANY, new ByteWriter())).toThrow();
  });

  test('a value that is not of its type ends in an error or in itself, never in what lies behind it', () => {
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
          for (const encoder of [jsonRowEncoder(columns, 'array', 'line'), csvRowEncoder(columns)]) {
            for (const walks of [true, false]) {
              // What another result has left in the memory of the walk.
              others.take(otherRows, 0, otherRows.length, 1, MANY, new ByteWriter());
              const out = new ByteWriter();
              try {
                if (walks) encoder.take(bytes.subarray(0, end), start, end, 1, MANY, out);
                else encoder.write(bytes.subarray(start + 5, end), out);
              } catch {
                continue;
              }
              expect(out.view().toString('latin1')).not.toContain('SECRET');
            }
          }
        }
      }),
      parameters(1_000),
    );
  });

  test('any text in CSV reads back, wherever it needs quotes', () => {
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

  test('rows in many pieces are one list between two texts, without the row that was cut off', () => {
    // The first is larger than the first piece.
    const rows = Array.from({ length: 300 }, (_, i) => [`${i} ${'é"'.repeat(i === 0 ? 50_000 : 5_000)}`]);
    const bytes = stream(rows);
    const encoder = jsonRowEncoder([column('v', OID.text)], 'array', 'list');
    for (const count of [0, 1, 2, 100, 299]) {
      const out = new RowBytes();
      let at = 0;
      for (let taken = 0; taken < count; taken += encoder.rows) {
        at = encoder.take(bytes, at, bytes.length, count - taken, MANY, out);
      }
      const kept = out.length;
      encoder.take(bytes, at, bytes.length, 1, MANY, out);
      out.cut(kept);
      const parts = out.between('{"rows":[', '],"more":true}');
      expect(parts.length > 1).toBe(count >= 100);
      expect(JSON.parse(Buffer.concat(parts).toString())).toEqual({ rows: rows.slice(0, count), more: true });
      out.free();
    }
  });
});
