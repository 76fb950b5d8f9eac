/** Batches on the fast path and the checked path: what they hold, store and refuse (src/codec/batch). */
import { describe, expect, it } from 'vitest';
import { allSteps, readRecords } from '../../../src/codec/index.js';
import { bytes, column, encode, ID, refusalOf, SIX_TYPES, table } from './shapes.js';
import { fast, tableOf } from './tables.js';

const CUSTOMERS = table(ID, column('email', 'TEXT'), column('age', 'INTEGER'));

const parse = (text: string) => allSteps(readRecords(bytes(text)));
const repeated = (record: string, count: number) => `[${Array<string>(count).fill(record).join(',')}]`;

const values = (count: number) => `[${Array.from({ length: count }, () => '1').join()}]`;
const keys = (count: number) => `{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join()}}`;

describe('a batch holds at most', () => {
  it.each([
    ['an array', (count: number) => values(count)],
    ['an object', keys],
    ['nested', (count: number) => `{"a":[${values(count - 2)}]}`],
  ])('65,535 values in a cell: %s', (_, cell) => {
    const batch = (count: number) => `[{"a":1},{"a":1,"doc":${cell(count)}}]`;
    expect(parse(batch(65_535)).records).toHaveLength(2);
    const refusal = refusalOf(() => parse(batch(65_536)));
    const message = 'Record 1, column "doc": more than 65535 values in one cell';
    expect(refusal).toMatchObject({ code: 'invalid_request', message });
    expect(refusal.errors).toEqual([{ error: 'invalid_request', record: 1, column: 'doc', message }]);
    // The fast path leaves it to the checked one.
    const tables = [tableOf(column('a', 'INTEGER'), column('doc', 'JSONB'))];
    if (cell(1) === values(1)) tables.push(tableOf(column('a', 'INTEGER'), column('doc', null, { isArray: true })));
    for (const table of tables) {
      expect(fast(table, bytes(batch(65_535)))).not.toBeNull();
      expect(fast(table, bytes(batch(65_536)))).toBeNull();
    }
  });

  it('so many for each cell, not for all', () => {
    expect(parse(`[{"a":${values(65_535)},"b":${values(65_535)}},{"a":${values(65_535)}}]`).records).toHaveLength(2);
  });

  it('1,600 keys in a record, and 250 records of 500 columns', () => {
    expect(parse(`[{},${keys(1_600)}]`).records).toHaveLength(2);
    const refusal = refusalOf(() => parse(`[{},${keys(1_601)}]`));
    const message = 'Record 1 has more than 1600 keys';
    expect(refusal).toMatchObject({ code: 'invalid_request', message });
    expect(refusal.errors).toEqual([{ error: 'invalid_request', record: 1, message }]);
    expect(parse(repeated(keys(500), 250)).records).toHaveLength(250);
  });

  it('65,535 values in an item that is no record, and in a body that is no array', () => {
    expect(() => parse(`[${values(65_536)}]`)).toThrow('Record 0: more than 65535 values in one cell');
    expect(() => parse(`{"a":${values(65_536)}}`)).toThrow('more than 65535 values');
  });
});

describe('a batch works', () => {
  it('as one statement with one array for each column that occurs', () => {
    const inserts = encode('[{"age":1,"email":"a"},{"email":"NULL"},{"age":null,"email":"\\"\\\\"}]', CUSTOMERS);
    expect(inserts).toEqual([
      {
        statement: {
          text:
            'INSERT INTO "app"."customers" ("email", "age") SELECT CAST(v."c1" AS text) AS "c1", CAST(v."c2" AS bigint) AS "c2" ' +
            'FROM ROWS FROM (pg_catalog.unnest(CAST($1 AS pg_catalog.text[])), ' +
            'pg_catalog.unnest(CAST($2 AS pg_catalog.text[]))) ' +
            'WITH ORDINALITY AS v ("c1", "c2", n) ORDER BY v.n',
          params: ['{"a","NULL","\\"\\\\"}', '{"1",NULL,NULL}'],
        },
        records: [0, 1, 2],
      },
    ]);
  });

  it('as one statement for each set of defaults that records omit', () => {
    const id = '"id":"0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"';
    const shape = table(ID, column('a', 'TEXT', { hasDefault: true }), column('b', 'TEXT'));
    const inserts = encode(`[{"b":"0"},{"a":null},{${id}},{"b":"3","a":"x"},{},{"a":"y",${id}}]`, shape);
    expect(inserts.map(({ records }) => records)).toEqual([[0, 4], [1, 3], [2], [5]]);
    expect(inserts.map(({ statement }) => /\(.*?\)/.exec(statement.text)?.[0])).toEqual([
      '("b")',
      '("a", "b")',
      '("id")',
      '("id", "a")',
    ]);
    expect(inserts[1]?.statement.params).toEqual(['{NULL,"x"}', '{NULL,"3"}']);
  });

  it('with 250 empty records, as rows without columns', () => {
    const [insert, ...others] = encode(repeated('{}', 250), CUSTOMERS, true);
    expect(others).toEqual([]);
    expect(insert?.statement).toEqual({
      text:
        'INSERT INTO "app"."customers" SELECT FROM pg_catalog.generate_series(1, CAST($1 AS pg_catalog.int4)) ' +
        'RETURNING "id"',
      params: ['250'],
    });
  });

  it('with columns named like the properties of every object', () => {
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];
    const shape = table(...names.map((name) => column(name, 'TEXT')));
    const [insert] = encode('[{"__proto__":"p","constructor":"c"},{"toString":"t"}]', shape);
    expect(insert?.statement.text).toContain('("__proto__", "constructor", "toString")');
    expect(insert?.statement.params).toEqual(['{"p",NULL}', '{"c",NULL}', '{NULL,"t"}']);
  });
});

describe('a batch refuses', () => {
  it.each([
    ['{"age":1}', 'invalid_request', 'The body is an object, not an array of records'],
    ['null', 'invalid_request', 'The body is null, not an array of records'],
    ['"[]"', 'invalid_request', 'The body is a string, not an array of records'],
    ['[]', 'empty_batch', 'The batch contains no records'],
    [
      repeated('{}', 251),
      'too_many_records',
      'The batch contains more than 250 records, the most that one request allows',
    ],
    [
      repeated('1', 251),
      'too_many_records',
      'The batch contains more than 250 records, the most that one request allows',
    ],
    ['[{]', 'invalid_json', 'The body is not valid JSON: line 1, column 3: expected a key in double quotes'],
  ])('%.20s', (body, code, message) => {
    expect(refusalOf(() => parse(body))).toMatchObject({ code, message });
  });

  it('elements that are not objects, each by its index', () => {
    expect(refusalOf(() => encode('[{},1,{},[],null]', CUSTOMERS))).toMatchObject({
      code: 'invalid_request',
      message: 'Record 1 is a number, not an object (and 2 more errors)',
      errorCount: 3,
      errors: [
        { record: 1, error: 'invalid_request', message: 'Record 1 is a number, not an object' },
        { record: 3, error: 'invalid_request', message: 'Record 3 is an array, not an object' },
        { record: 4, error: 'invalid_request', message: 'Record 4 is null, not an object' },
      ],
    });
  });

  it('a key that a record has twice, unless it is inside a JSONB value', () => {
    expect(parse('[{"a":{"b":1,"b":2}}]').records).toHaveLength(1);
    const shape = table(column('a', 'INTEGER'), column('b', 'INTEGER'), column('__proto__', 'INTEGER'));
    const body = '[{},{"a":1,"b":2,"a":1,"a":3},{"__proto__":1,"__proto__":1}]';
    expect(refusalOf(() => encode(body, shape))).toMatchObject({
      code: 'invalid_json',
      message: 'Record 1 has the key "a" twice (and 1 more error)',
      errors: [
        { record: 1, column: 'a', error: 'invalid_json' },
        { record: 2, column: '__proto__', error: 'invalid_json' },
      ],
    });
  });

  it('bad records and bad cells in one response', () => {
    const shape = table(column('a', 'INTEGER'));
    expect(refusalOf(() => encode('[{"a":"x"},5,{"a":1,"a":2},{"b":1}]', shape))).toMatchObject({
      code: 'invalid_request',
      message: 'Record 1 is a number, not an object (and 3 more errors)',
      errorCount: 4,
      errors: [
        { record: 1, error: 'invalid_request' },
        { record: 2, column: 'a', error: 'invalid_json' },
        { record: 0, column: 'a', error: 'invalid_value' },
        { record: 3, column: 'b', error: 'unknown_column' },
      ],
    });
  });

  it('an unknown column, and suggests the nearest name', () => {
    expect(refusalOf(() => encode('[{},{"emial":"x"}]', CUSTOMERS))).toMatchObject({
      code: 'unknown_column',
      status: 400,
      message: 'Record 1: table "customers" has no column "emial". Did you mean "email"?',
      hint: 'Did you mean "email"?',
      errors: [
        {
          record: 1,
          column: 'emial',
          error: 'unknown_column',
          message: 'Record 1: table "customers" has no column "emial". Did you mean "email"?',
          hint: 'Did you mean "email"?',
        },
      ],
    });
  });

  it.each(['__proto__', 'constructor', 'toString', 'xmin', 'Email', '', '"; DROP TABLE x', '\u0000', '\ud800'])(
    'the key %j if no column has this name',
    (key) => {
      const refusal = refusalOf(() => encode(`[{${JSON.stringify(key)}:1}]`, CUSTOMERS));
      expect(refusal).toMatchObject({ code: 'unknown_column', errors: [{ record: 0, column: key }] });
    },
  );

  it('all bad cells of all records in one response, including unknown columns', () => {
    const body = '[{"age":"12abc","email":{}},{"age":2},{"agee":1,"age":1e400,"id":null,"email":"ok"}]';
    const refusal = refusalOf(() => encode(body, CUSTOMERS));
    expect(refusal.code).toBe('invalid_value');
    expect(refusal.message).toBe('Record 0, column "age": "12abc" is not an integer (and 4 more errors)');
    expect(refusal.errors?.map(({ record, column, error }) => [record, column, error])).toEqual([
      [0, 'age', 'invalid_value'],
      [0, 'email', 'invalid_value'],
      [2, 'agee', 'unknown_column'],
      [2, 'age', 'invalid_value'],
      [2, 'id', 'invalid_value'],
    ]);
  });

  it('125,000 unknown columns, with a suggestion for the first ten names, which may come again', () => {
    const names = Array.from({ length: 500 }, (_, i) => `column_${i}`);
    const record = `{${names.map((name) => `"${name}x":1`).join(',')}}`;
    const refusal = refusalOf(() => encode(repeated(record, 250), table(...names.map((name) => column(name, 'TEXT')))));
    expect(refusal.errorCount).toBe(125_000);
    const hints = refusal.errors?.map(({ hint }) => hint) ?? [];
    expect(hints[9]).toBe('Did you mean "column_9"?');
    expect(hints.slice(10)).toEqual(Array.from({ length: 40 }, () => undefined));
    const two = refusalOf(() => encode(`[${Array.from({ length: 12 }, () => '{"agee":1}').join()}]`, CUSTOMERS));
    expect(two.errors?.map(({ hint }) => hint)).toEqual(Array.from({ length: 12 }, () => 'Did you mean "age"?'));
  });

  it('125,000 bad cells, and lists 50 of them', () => {
    const columns = Array.from({ length: 500 }, (_, i) => column(`column_${i}`, 'INTEGER'));
    const record = `{${columns.map(({ name }) => `"${name}":"x"`).join(',')}}`;
    const refusal = refusalOf(() => encode(repeated(record, 250), table(...columns)));
    expect(refusal.errorCount).toBe(125_000);
    expect(refusal.errors).toHaveLength(50);
    expect(refusal.message).toMatch(/and 124999 more errors/);
  });

  it('ids of a table that has none', () => {
    expect(refusalOf(() => encode('[{}]', table(column('a', 'TEXT')), true))).toMatchObject({
      code: 'invalid_request',
    });
  });
});

describe('a batch protects', () => {
  it('its response from keys and values as long as the body', () => {
    const long = 'x'.repeat(1_000_000);
    const refusal = refusalOf(() =>
      encode(`[{"${long}":1,"age":"${long}","integer":${'1'.repeat(1_000_000)}}]`, CUSTOMERS),
    );
    expect(JSON.stringify([refusal.message, refusal.errors]).length).toBeLessThan(2_000);
  });

  it('schema, table and column names by quoting them', () => {
    const shape = { ...table(column('a"b', 'TEXT')), schema: 's"', name: 't"; --' };
    expect(encode('[{"a\\"b":"x"}]', shape)[0]?.statement.text).toMatch(/^INSERT INTO "s"""\."t""; --" \("a""b"\) /);
  });

  it('the statement from values by passing them as parameters', () => {
    const value = '\'"}),{$1; DROP TABLE';
    const [insert] = encode(JSON.stringify([{ text: value, jsonb: value }]), SIX_TYPES);
    expect(insert?.statement.text).not.toContain('DROP');
  });
});
