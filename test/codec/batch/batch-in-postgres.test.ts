/** Whole batches on real servers: defaults, order, wide tables, other types, and records that Postgres refuses. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { allSteps, checkRecords, readRecords } from '../../../src/codec/index.js';
import { insertStatements } from '../../../src/engine/insert/insert-statement.js';
import { testServers } from '../../support/postgres.js';
import { BatchDatabase, type Texts } from './database.js';
import { bytes, column, encode, ID, refusalOf, SIX_TYPES, table } from './shapes.js';

describe.each(testServers())('a batch in Postgres $major', ({ connection }) => {
  let database: BatchDatabase;

  beforeAll(async () => {
    database = await BatchDatabase.open(connection);
  });

  afterAll(() => database.close());

  beforeEach(() => database.create(SIX_TYPES));

  it('uses the default for a missing key and NULL for null, and keeps the order of records and ids', async () => {
    const shape = table(ID, column('a', 'TEXT', { hasDefault: true }), column('b', 'INTEGER'));
    await database.create(shape, { a: `'fallback'` });
    const own = '0190A1B2-C3D4-7E5F-8A9B-0C1D2E3F4A5B';
    const inserts = encode(`[{"b":0},{"a":null,"b":1},{"id":"${own}","b":2},{},{"b":4,"a":"x"},{"b":5}]`, shape, true);
    const ids: (string | undefined)[] = [];
    for (const { statement, records } of inserts) {
      const { rows } = await database.client.query<Texts>(statement.text, [...statement.params]);
      expect(rows).toHaveLength(records.length);
      for (const [i, record] of records.entries()) ids[record] = rows[i]?.['id'] ?? undefined;
    }
    const { rows } = await database.client.query<Texts>('SELECT id, a, b FROM app.customers');
    const byId = new Map(rows.map(({ id, a, b }) => [id, [a, b]]));
    expect(ids[2]).toBe(own.toLowerCase());
    expect(ids.map((id) => byId.get(id ?? ''))).toEqual([
      ['fallback', '0'],
      [null, '1'],
      ['fallback', '2'],
      ['fallback', null],
      ['x', '4'],
      ['fallback', '5'],
    ]);
  });

  it('stores 250 records that have only defaults', async () => {
    const rows = await database.store(`[${Array(250).fill('{}').join(',')}]`, SIX_TYPES, 'id, text');
    expect(new Set(rows.map(({ id }) => id)).size).toBe(250);
  });

  it('keeps 250 records in their order', async () => {
    const body = JSON.stringify(Array.from({ length: 250 }, (_, i) => ({ integer: i })));
    const rows = await database.store(body, SIX_TYPES, 'integer');
    expect(rows.map(({ integer }) => Number(integer))).toEqual(Array.from({ length: 250 }, (_, i) => i));
  });

  it('fills a table of 1,500 columns', async () => {
    const wide = table(...Array.from({ length: 1_500 }, (_, i) => column(`c${i}`, 'BOOLEAN')));
    await database.create(wide);
    const record = `{${wide.columns.map(({ name }) => `"${name}":true`).join(',')}}`;
    expect(await database.store(`[${record},{"c7":false}]`, wide, 'c0, c7, c1499')).toEqual([
      { c0: 't', c7: 't', c1499: 't' },
      { c0: null, c7: 'f', c1499: null },
    ]);
  });

  it('passes values for other Postgres types to Postgres', async () => {
    const other = (name: string, sqlType: string, more = {}) => column(name, null, { sqlType, ...more });
    const shape = table(
      other('date', 'date'),
      other('numeric', 'numeric', { displayType: 'numeric(10,2)' }),
      other('varchar', 'character varying', { displayType: 'character varying(3)' }),
      other('char', 'bpchar', { displayType: 'character(3)' }),
      other('interval', 'interval'),
      other('bytea', 'bytea'),
      other('json', 'json', { isJson: true }),
      other('texts', 'text[]', { isArray: true }),
      other('ints', 'integer[]', { isArray: true }),
      other('jsons', 'jsonb[]', { isArray: true }),
      other('range', 'int4range'),
    );
    await database.create(shape);
    const body = String.raw`[{"date":"2026-01-31","numeric":1.005,"varchar":"abc","char":"abc","interval":"1 day",
      "bytea":"\\x00ff","json":{ "a":1.0 },"texts":["a",null,"NULL","\"\\{},"],"ints":[[1,2],[3,null]],
      "jsons":[{"a":"b"}],"range":"[1,5)"}, {"texts":"{a,b}","json":"text","ints":[]}]`;
    expect(await database.store(body, shape, '*, texts[4] AS fourth, jsons[1] AS first')).toMatchObject([
      {
        date: '31/01/2026',
        numeric: '1.01',
        varchar: 'abc',
        char: 'abc',
        interval: '1 day',
        bytea: '\\x00ff',
        json: '{ "a":1.0 }',
        texts: '{a,NULL,"NULL","\\"\\\\{},"}',
        fourth: '"\\{},',
        ints: '{{1,2},{3,NULL}}',
        first: '{"a": "b"}',
        range: '[1,5)',
      },
      { date: null, texts: '{a,b}', json: '"text"', ints: '{}' },
    ]);
    await expect(database.store('[{"varchar":"abcd"}]', shape, '*')).rejects.toMatchObject({ code: '22001' });
  });

  it('is refused without asking Postgres if a cell is invalid, and a record that only Postgres can refuse is found alone', async () => {
    expect(refusalOf(() => encode('[{"integer":1},{"integer":"x"}]', SIX_TYPES)).code).toBe('invalid_value');
    const shape = table(column('d', null, { sqlType: 'date' }));
    await database.create(shape);
    const batch = allSteps(readRecords(bytes('[{"d":"2026-01-31"},{"d":"2026-02-30"},{}]')));
    const rows = allSteps(checkRecords(batch, shape));
    const verdicts: string[] = [];
    for (const record of rows.keys()) {
      const [insert] = insertStatements(shape, [rows[record] ?? []], { returnIds: false, distributesTables: false });
      const { text = '', params = [] } = insert?.statement ?? {};
      const verdict = database.client.query(text, [...params]).then(
        () => 'stored',
        (error: unknown) => (error as { code: string }).code,
      );
      verdicts.push(await verdict);
    }
    expect(verdicts).toEqual(['stored', '22008', 'stored']);
  });

  it('cannot change the schema with values that look like SQL', async () => {
    const hostile = [`'); DROP TABLE app.customers; --`, '"}\'),({', '$1', '\\', 'NULL', '{NULL}'];
    const rows = await database.store(
      JSON.stringify(hostile.map((text) => ({ text, jsonb: { [text]: text } }))),
      SIX_TYPES,
      'text, jsonb',
    );
    expect(rows.map(({ text }) => text)).toEqual(hostile);
    expect(rows.map(({ jsonb }) => JSON.parse(jsonb as string) as unknown)).toEqual(
      hostile.map((text) => ({ [text]: text })),
    );
  });
});
