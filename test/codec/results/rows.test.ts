/** Whole rows as JSON and CSV, and the names of their columns. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BufferList } from '../../../src/codec/buffers.js';
import { describeColumns, type ResultColumn, rowEncoder, type RowMode } from '../../../src/codec/index.js';
import { column, csv, csvRow, dataRow, float8, int32, int64, jsonRow, OID } from './encoding.js';

const names = (...columns: string[]): string[] =>
  describeColumns(columns.map((name) => column(name, OID.text))).map(({ name }) => name);
const typeName = (one: ResultColumn): string | undefined => describeColumns([one])[0]?.type;
const formats = (oids: number[]) =>
  rowEncoder(
    oids.map((oid) => column('v', oid)),
    'list',
    'array',
  ).formats;

describe('works', () => {
  test('a row is an object or an array, NULL is null', () => {
    const columns = [column('id', OID.int8), column('name', OID.text), column('score', OID.float8)];
    expect(jsonRow(columns, ['1', 'Ann', float8(1.5)])).toBe('{"id":1,"name":"Ann","score":1.5}');
    expect(jsonRow(columns, ['1', null, null])).toBe('{"id":1,"name":null,"score":null}');
    expect(jsonRow(columns, ['1', 'Ann', null], 'array')).toBe('[1,"Ann",null]');
  });

  test('encodes a row without columns', () => {
    expect(jsonRow([], [])).toBe('{}');
    expect(jsonRow([], [], 'array')).toBe('[]');
    expect(csvRow([], [])).toBe('\n');
  });

  test('escapes the names of columns', () => {
    expect(jsonRow([column('a"b\n', OID.int4), column('__proto__', OID.int4)], ['1', '2'])).toBe(
      '{"a\\"b\\n":1,"__proto__":2}',
    );
  });

  test('keeps both values of two columns with the same name', () => {
    expect(jsonRow([column('id', OID.int4), column('id', OID.int4)], ['1', '2'])).toBe('{"id":1,"id_2":2}');
    expect(names('id', 'id', 'id')).toEqual(['id', 'id_2', 'id_3']);
    expect(names('id', 'id', 'id_2')).toEqual(['id', 'id_3', 'id_2']);
    expect(names('id', 'id_2', 'id', 'id_2')).toEqual(['id', 'id_2', 'id_3', 'id_2_2']);
    expect(names('id', 'id', 'id_2', 'id_3')).toEqual(['id', 'id_4', 'id_2', 'id_3']);
    expect(names('ID', 'id')).toEqual(['ID', 'id']);
  });

  test('names a type as the API does, or else as Postgres does', () => {
    const types = [OID.text, OID.int8, OID.float8, OID.bool, OID.timestamptz, OID.jsonb];
    expect(types.map((oid) => typeName(column('v', oid)))).toEqual([
      'TEXT',
      'INTEGER',
      'FLOAT',
      'BOOLEAN',
      'TIMESTAMP',
      'JSONB',
    ]);
    expect(typeName(column('v', OID.int4))).toBe('integer');
    expect(typeName(column('v', OID.textArray))).toBe('text[]');
    expect(typeName(column('v', OID.ownEnum))).toBeUndefined();
    expect(typeName({ ...column('v', OID.numeric), typeModifier: 655_366 })).toBeUndefined();
  });

  test('writes NULL in CSV as an empty field, and quotes only if necessary', () => {
    const columns = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => column(name, OID.text));
    expect(csvRow(columns, [null, '', 'plain', 'a,b', 'say "hi"', 'two\nlines'])).toBe(
      ',"",plain,"a,b","say ""hi""","two\nlines"\n',
    );
    expect(csvRow(columns, ['\r', ' x ', '"', "'", '\\.', null])).toBe(`"\r", x ,"""",',\\.,\n`);
  });

  test('writes a CSV record of one field', () => {
    const only = [column('a', OID.text)];
    expect(csvRow(only, [null])).toBe('\n');
    expect(csvRow(only, [''])).toBe('""\n');
    expect(csvRow(only, ['\\.'])).toBe('"\\."\n');
  });

  test('writes values in CSV as those of JSON, in plain text', () => {
    expect(csv(OID.bool, 't')).toBe('true');
    expect(csv(OID.int8, '9223372036854775807')).toBe('9223372036854775807');
    expect(csv(OID.float8, float8(-Infinity))).toBe('-Infinity');
    expect(csv(OID.timestamptz, int64(0n))).toBe('2000-01-01T00:00:00Z');
    expect(csv(OID.date, int32(0))).toBe('2000-01-01');
    expect(csv(OID.bytea, Buffer.from([1, 2]))).toBe('\\x0102');
    expect(csv(OID.jsonb, '{"a": 1}')).toBe('"{""a"": 1}"');
    expect(csv(OID.textArray, '{a,NULL}')).toBe('"[""a"",null]"');
    expect(csv(OID.int4Array, '{1}')).toBe('[1]');
  });

  test('uses the names of the response in the CSV header', () => {
    const columns = [column('id', OID.text), column('a,b', OID.text), column('id', OID.text)];
    expect(rowEncoder(columns, 'csv', 'array').header.toString()).toBe('id,"a,b",id_2\n');
    expect(rowEncoder(columns, 'lines', 'array').header.length).toBe(0);
  });

  test('requests types that depend on settings in binary, and everything else in text', () => {
    const binary = [OID.float4, OID.float8, OID.timestamptz, OID.timestamp, OID.date, OID.interval, OID.bytea];
    expect(formats(binary)).toEqual(binary.map(() => 1));
    expect(formats([OID.float8Array, OID.timestamptzArray, OID.tsrange])).toEqual([1, 1, 1]);
    const text = [OID.int8, OID.text, OID.numeric, OID.jsonb, OID.textArray, OID.ownEnum, OID.ownEnumArray];
    expect(formats(text)).toEqual(text.map(() => 0));
  });
});

describe('protects', () => {
  test('1,600 columns with the same name get distinct names, quickly', () => {
    const many = names(...Array.from({ length: 1600 }, () => 'x'));
    expect(new Set(many).size).toBe(1600);
  });

  test('any rows in succession are what JSON.stringify makes of them, whatever their lengths', () => {
    // Around the lengths from which values are no longer copied in the loop, with what has to be escaped at any place.
    const length = fc.oneof(fc.nat(12), fc.integer({ min: 500, max: 530 }), fc.constantFrom(70_000));
    const unit = fc.constantFrom('a', 'b', ' ', '"', '\\', '\n', '\u0001', '\u001f', 'é', '€', '😀', '\u007f');
    const text = fc
      .tuple(length, fc.array(unit, { minLength: 1, maxLength: 9 }))
      .map(([n, units]) => Array.from({ length: n }, (_, i) => units[i % units.length]).join(''));
    const utf8 = (value: string): Buffer => Buffer.from(value);
    const kinds = [
      { oid: OID.text, value: text, bytes: utf8, json: JSON.stringify },
      { oid: OID.jsonb, value: text.map((t) => JSON.stringify(t)), bytes: utf8, json: (v: string) => v },
      { oid: OID.int8, value: fc.integer().map(String), bytes: utf8, json: (v: string) => v },
      { oid: OID.numeric, value: fc.constant('NaN'), bytes: utf8, json: JSON.stringify },
      { oid: OID.bool, value: fc.boolean(), bytes: (v: boolean) => Buffer.from(v ? 't' : 'f'), json: String },
      { oid: OID.float8, value: fc.constantFrom(1.5, -0.001, 1e300), bytes: float8, json: String },
      { oid: OID.uuid, value: fc.uuid(), bytes: utf8, json: JSON.stringify },
      { oid: OID.date, value: fc.constant(0), bytes: int32, json: () => '"2000-01-01"' },
      { oid: OID.timestamptz, value: fc.constant(0n), bytes: int64, json: () => '"2000-01-01T00:00:00Z"' },
      { oid: OID.ownEnum, value: text, bytes: utf8, json: JSON.stringify },
    ] as unknown as {
      oid: number;
      value: fc.Arbitrary<unknown>;
      bytes(value: unknown): Buffer;
      json(value: unknown): string;
    }[];
    const result = fc.array(fc.constantFrom(...kinds), { minLength: 1, maxLength: 12 }).chain((columns) => {
      const row = fc.tuple(...columns.map(({ value }) => fc.option(value, { freq: 4 })));
      return fc.record({ columns: fc.constant(columns), rows: fc.array(row, { minLength: 1, maxLength: 6 }) });
    });
    fc.assert(
      fc.property(result, fc.constantFrom<RowMode>('object', 'array'), ({ columns, rows }, mode) => {
        const encoder = rowEncoder(
          columns.map(({ oid }, i) => column(`c"${i}`, oid)),
          'list',
          mode,
        );
        const expected = rows.map((row) => {
          const cells = row.map((value, i) => {
            const key = mode === 'object' ? `${JSON.stringify(`c"${i}`)}:` : '';
            return `${key}${value === null ? 'null' : columns[i]?.json(value)}`;
          });
          return mode === 'object' ? `,{${cells.join(',')}}` : `,[${cells.join(',')}]`;
        });
        const messages = rows.map((row) => {
          const fields = row.map((value, i) => (value === null ? null : (columns[i]?.bytes(value) ?? null)));
          const { message, start, end } = dataRow(fields);
          return message.subarray(start, end);
        });
        const out = new BufferList();
        const received = Buffer.concat(messages);
        let taken = 0;
        for (let at = 0; at < received.length;) {
          const { bytes, count, end } = encoder.encode(received, at, received.length, 4, 2 ** 24);
          out.push(bytes);
          taken += count;
          at = end;
        }
        expect(taken).toBe(rows.length);
        expect(out.take().bytes.equals(Buffer.from(expected.join('')))).toBe(true);
      }),
      { numRuns: 100 },
    );
  });
});
