/** Creating, reading and dropping tables over HTTP (contract C4, C6). */
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService } from '../../../src/service.js';
import { testServers } from '../../support/postgres.js';
import { columnTypes, tableNames } from '../../support/schema.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { inDatabase, TABLE, Tables } from '../../support/tables.js';

const TEXT = [{ name: 'a', type: 'TEXT' }];
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const ODD_COMMENT = `it's "quoted" \\ back\\'slash $$ $1 %s; -- /* \n\t 🎉 \u{1F1E9}\u{1F1EA} e\u0301 NULL`;

describe.each(testServers())('tables on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let tables: Tables;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    tables = new Tables(project);
  });
  afterAll(() => service.close());

  it('are created with 201 and the names of the columns, id first', async () => {
    const response = await tables.create({
      table_name: 'customers',
      comment: 'People',
      columns: [
        { name: 'email', type: 'TEXT', comment: 'Primary address' },
        { name: 'age', type: 'INTEGER' },
      ],
    });
    expect(response.status).toBe(201);
    expect(response.body).toEqual({
      success: true,
      message: 'table created',
      table: 'customers',
      columns: ['id', 'email', 'age'],
    });
    expect(await tables.read('customers')).toMatchObject({
      name: 'customers',
      kind: 'table',
      comment: 'People',
      columns: [
        { name: 'id', type: 'uuid', comment: null },
        { name: 'email', type: 'TEXT', comment: 'Primary address' },
        { name: 'age', type: 'INTEGER', comment: null },
      ],
    });
  });

  it('have id as a uuid primary key that the server fills with a UUID v7, for free SQL too', async () => {
    await project.table('with_ids', { a: 'TEXT' });
    const [row] = await project.rows(`INSERT INTO with_ids (a) VALUES ('x') RETURNING id`);
    expect(row?.id).toMatch(UUID_V7);
    expect(
      await project.rows(`SELECT contype, pg_get_constraintdef(oid) AS rule FROM pg_constraint
        WHERE conrelid = 'with_ids'::regclass AND contype = 'p'`),
    ).toEqual([{ contype: 'p', rule: 'PRIMARY KEY (id)' }]);
  });

  it('have the six types in any case, returned in capitals', async () => {
    const types = ['text', 'Integer', 'FLOAT', 'bOOLEAN', 'timestamp', 'Jsonb'];
    await tables.create({ table_name: 'cases', columns: types.map((type, i) => ({ name: `c${i}`, type })) });
    expect(await columnTypes(project, 'cases')).toEqual({
      id: 'uuid',
      c0: 'TEXT',
      c1: 'INTEGER',
      c2: 'FLOAT',
      c3: 'BOOLEAN',
      c4: 'TIMESTAMP',
      c5: 'JSONB',
    });
    const rows = await project.rows(`SELECT data_type FROM information_schema.columns
      WHERE table_name = 'cases' AND column_name <> 'id' ORDER BY ordinal_position`);
    expect(rows.map(({ data_type: type }) => type)).toEqual([
      'text',
      'bigint',
      'double precision',
      'boolean',
      'timestamp with time zone',
      'jsonb',
    ]);
  });

  it.each([
    ['odd characters', ODD_COMMENT],
    ['2,000 letters', 'x'.repeat(2_000)],
    ['2,000 characters outside the Basic Multilingual Plane', '🎉'.repeat(2_000)],
    ['one backslash', '\\'],
    ['one quote', `'`],
  ])('keep a comment of %s unchanged', async (_title, comment) => {
    await tables.create({ table_name: 'commented', comment, columns: [{ name: 'a', type: 'TEXT', comment }] });
    expect(await tables.read('commented')).toMatchObject({ comment, columns: [{ comment: null }, { comment }] });
    await tables.drop('commented');
  });

  it.each(['', null])('have no comment if it is %j', async (comment) => {
    await tables.create({ table_name: 'uncommented', comment, columns: [{ name: 'a', type: 'TEXT', comment }] });
    expect(await tables.read('uncommented')).toMatchObject({
      comment: null,
      columns: [{ comment: null }, { comment: null }],
    });
    await tables.drop('uncommented');
  });

  it('can be named like SQL keywords, and so can columns, from creation to drop', async () => {
    const keywords = ['select', 'table', 'user', 'order', 'from', 'null', 'default', 'SELECT_', 'primary'];
    for (const keyword of keywords) {
      const columns = keywords.map((name) => ({ name, type: 'TEXT' }));
      expect((await tables.create({ table_name: keyword, columns })).status).toBe(201);
      const inserted = await project.call('POST', `/api/cdp/data/${keyword}`, { body: [{ [keyword]: 'x' }] });
      expect(inserted.status).toBe(201);
      expect(await project.rows(`SELECT "${keyword}" AS value FROM "${keyword}"`)).toEqual([{ value: 'x' }]);
      expect((await tables.drop(keyword)).status).toBe(200);
    }
  });

  it('keep names of 63 characters and their case', async () => {
    const table = `T${'a'.repeat(61)}Z`;
    const column = `_${'B'.repeat(62)}`;
    expect((await tables.create({ table_name: table, columns: [{ name: column, type: 'TEXT' }] })).body).toMatchObject({
      table,
      columns: ['id', column],
    });
    expect(await tableNames(project)).toContain(table);
    expect(await columnTypes(project, table)).toEqual({ id: 'uuid', [column]: 'TEXT' });
    // The names of its index and of a second such table's must not get into each other's way.
    const twin = `${table.slice(0, 62)}Y`;
    expect((await tables.create({ table_name: twin, columns: TEXT })).status).toBe(201);
  });

  it('can be named like system catalogs and tables of the service without confusion', async () => {
    for (const name of ['pg_class', 'pg_attribute', 'projects', 'tokens', 'cdp', 'data', 'idempotency_keys']) {
      expect((await tables.create({ table_name: name, columns: TEXT })).status).toBe(201);
      expect(await columnTypes(project, name)).toEqual({ id: 'uuid', a: 'TEXT' });
    }
    for (const name of ['pg_class', 'pg_attribute']) {
      expect((await tables.drop(name)).status).toBe(200);
    }
  });

  it('can have 500 columns', async () => {
    const columns = Array.from({ length: 500 }, (_, i) => ({ name: `c${i}`, type: 'INTEGER' }));
    const response = await tables.create({ table_name: 'wide', columns });
    expect(response.status).toBe(201);
    expect(response.body.columns).toEqual(['id', ...columns.map(({ name }) => name)]);
    expect(Object.keys(await columnTypes(project, 'wide'))).toHaveLength(501);
  });

  it('are dropped with their records, and the name is free again', async () => {
    await project.table('dropped', { a: 'TEXT' });
    await project.call('POST', '/api/cdp/data/dropped', { body: [{ a: 'x' }] });
    const response = await tables.drop('dropped');
    expect(response.status).toBe(200);
    expect(response.body).toEqual({ success: true, message: 'table dropped', table: 'dropped' });
    expectFailure(await project.call('GET', `${TABLE}/dropped`), 404, 'table_not_found');
    await project.table('dropped', { b: 'TEXT' });
    expect(await project.rows('SELECT * FROM dropped')).toEqual([]);
  });

  it('can be deleted with the content type of JSON and no body', async () => {
    await project.table('dropped_by_header', { a: 'TEXT' });
    const headers = { 'content-type': 'application/json' };
    expect((await project.call('DELETE', `${TABLE}/dropped_by_header`, { headers })).status).toBe(200);
  });

  it('are an empty list in an empty project', async () => {
    const empty = await service.project();
    expect((await empty.call('GET', '/api/cdp/schema')).body).toEqual({
      success: true,
      message: '0 tables',
      tables: [],
    });
  });

  it('are shown with 20,000 columns without comments', async () => {
    const many = await service.project();
    for (let from = 0; from < 40; from += 10) {
      await many.rows(`DO $$ BEGIN FOR i IN ${from}..${from + 9} LOOP
        EXECUTE format('CREATE TABLE wide_%s (%s)', i, (SELECT string_agg('c' || n || ' text', ', ') FROM generate_series(1, 500) n)); END LOOP; END $$`);
    }
    const { status, body } = await many.call('GET', '/api/cdp/schema');
    expect([status, (body.tables as unknown[]).length]).toEqual([200, 40]);
  });

  it('are refused as a list with more columns and comments than a response holds, but shown one by one', async () => {
    const large = await service.project();
    const copies = (from: number, to: number) =>
      large.rows(`DO $$ BEGIN
      FOR i IN ${from}..${to} LOOP EXECUTE format('CREATE TABLE copy_%s (LIKE wide INCLUDING COMMENTS)', i); END LOOP; END $$`);
    await large.rows(`DO $$ BEGIN
      EXECUTE 'CREATE TABLE wide (' || (SELECT string_agg('c' || i || ' text', ', ') FROM generate_series(1, 400) i) || ')';
      FOR i IN 1..400 LOOP EXECUTE format('COMMENT ON COLUMN wide.c%s IS %L', i, repeat('x', 2100)); END LOOP; END $$`);
    await copies(1, 16);
    const { status, text } = await large.call('GET', '/api/cdp/schema');
    expect([status, text.length > 13e6]).toEqual([200, true]);
    await copies(17, 20);
    expectFailure(await large.call('GET', '/api/cdp/schema'), 400, 'result_too_large');
    expect((await large.call('GET', '/api/cdp/schema/table/copy_20')).status).toBe(200);
  });

  it('are shown as free SQL made them: tables, views and types by their Postgres names', async () => {
    const other = await service.project();
    await other.table('people', { name: 'TEXT' });
    await other.rows(`
      CREATE TYPE mood AS ENUM ('good', 'bad');
      CREATE DOMAIN percent AS integer CHECK (VALUE BETWEEN 0 AND 100);
      CREATE TABLE odd ("My Column" numeric(10,2), v varchar(20), i integer, s smallint, r real, l text[], m mood,
        p percent, d date, t timestamp, b bytea, j json, g integer GENERATED ALWAYS AS (i * 2) STORED);
      CREATE VIEW names AS SELECT name, length(name) AS long FROM people;
      CREATE MATERIALIZED VIEW stored AS SELECT count(*) AS n FROM people;
      CREATE TABLE parts (k bigint) PARTITION BY RANGE (k);
      CREATE TABLE nothing ();
      COMMENT ON VIEW names IS 'their names'`);
    const { body } = await other.call('GET', '/api/cdp/schema');
    const tables = body.tables as { name: string; kind: string; columns: { name: string; type: string }[] }[];
    expect(tables.map(({ name, kind }) => [name, kind])).toEqual([
      ['names', 'view'],
      ['nothing', 'table'],
      ['odd', 'table'],
      ['parts', 'table'],
      ['people', 'table'],
      ['stored', 'materialized_view'],
    ]);
    expect(body.message).toBe('6 tables');
    expect(tables[0]).toMatchObject({ comment: 'their names', approximate_rows: null });
    expect(tables[1]).toMatchObject({ columns: [] });
    expect(tables[2]?.columns.map(({ name, type }) => `${name}: ${type}`)).toEqual([
      'My Column: numeric(10,2)',
      'v: character varying(20)',
      'i: integer',
      's: smallint',
      'r: real',
      'l: text[]',
      'm: mood',
      'p: percent',
      'd: date',
      't: timestamp without time zone',
      'b: bytea',
      'j: json',
      'g: integer',
    ]);
  });

  it('lists a partitioned table with the rows of its partitions, which are not listed', async () => {
    await project.rows(`CREATE TABLE visits (n bigint) PARTITION BY RANGE (n);
      CREATE TABLE visits_low PARTITION OF visits FOR VALUES FROM (0) TO (10);
      CREATE TABLE visits_high PARTITION OF visits FOR VALUES FROM (10) TO (100) PARTITION BY RANGE (n);
      CREATE TABLE visits_higher PARTITION OF visits_high FOR VALUES FROM (10) TO (100);
      INSERT INTO visits SELECT generate_series(0, 49); ANALYZE visits`);
    const tables = (await project.call('GET', '/api/cdp/schema')).body.tables as { name: string }[];
    const listed = tables.filter(({ name }) => name.startsWith('visits'));
    expect(listed).toMatchObject([{ name: 'visits', kind: 'table', approximate_rows: 50 }]);
    expect((await project.call('GET', `${TABLE}/visits_low`)).body.table).toMatchObject({ approximate_rows: 10 });
  });

  it('are shown with an approximate number of rows', async () => {
    await project.table('counted', { n: 'INTEGER' });
    // A session reports its changes when it is idle: after ANALYZE, whose result has these rows already.
    const liveTuples = await inDatabase(service, project, async (client) => {
      await client.query(`INSERT INTO data.counted (n) SELECT generate_series(1, 1000); COMMIT; ANALYZE data.counted;
        SELECT pg_stat_force_next_flush()`);
      const { rows } = await client.query(`SELECT pg_stat_get_live_tuples('data.counted'::regclass)::int AS n`);
      return rows as unknown;
    });
    expect(liveTuples).toEqual([{ n: 2_000 }]);
    const approximateRows = async () =>
      (await project.call('GET', `${TABLE}/counted`)).body.table as { approximate_rows: number };
    expect(await approximateRows()).toMatchObject({ approximate_rows: 1_000 });
    // As after a crash.
    await inDatabase(service, project, (client) => client.query('SELECT pg_stat_reset()'));
    expect(await approximateRows()).toMatchObject({ approximate_rows: 1_000 });
  });

  it('can be read and filled with absurd statistics, which Postgres 18 lets their owner import', async () => {
    for (const [table, rows] of [
      ['absurd', '1e30'],
      ['no_number', 'NaN'],
    ] as const) {
      await project.table(table, { a: 'TEXT' });
      await inDatabase(service, project, (client) =>
        client.query('UPDATE pg_class SET reltuples = $1 WHERE relname = $2', [rows, table]),
      );
      const { status, body } = await project.call('GET', `${TABLE}/${table}`);
      expect({ status, body }).toMatchObject({
        status: 200,
        body: { table: { approximate_rows: 999_999_986_991_104 } },
      });
      expect((await project.call('GET', '/api/cdp/schema')).status).toBe(200);
      expect((await project.call('POST', `/api/cdp/data/${table}`, { body: [{ a: 'x' }] })).status).toBe(201);
      expect(await project.rows(`SELECT count(*) AS n FROM ${table}`)).toEqual([{ n: 1 }]);
    }
  });

  it('show in the next request what free SQL or another instance has just changed', async () => {
    const second = await startService(service.config, pino({ level: 'silent' }));
    try {
      const elsewhere = (method: string, path: string, body?: unknown) =>
        fetch(second.url + path, {
          method,
          headers: { authorization: `Bearer ${project.token}`, 'content-type': 'application/json' },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
      for (let round = 0; round < 5; round++) {
        await project.table('shared', { a: 'TEXT' });
        expect((await project.call('POST', '/api/cdp/data/shared', { body: [{ a: 'x' }] })).status).toBe(201);
        expect((await elsewhere('POST', '/api/cdp/data/shared', [{ a: 'y' }])).status).toBe(201);
        const altered = await elsewhere('PUT', `${TABLE}/shared/column/a`, { new_name: 'b' });
        expect(altered.status).toBe(200);
        expectFailure(
          await project.call('POST', '/api/cdp/data/shared', { body: [{ a: 'z' }] }),
          400,
          'unknown_column',
        );
        await project.rows('ALTER TABLE shared ADD COLUMN c integer');
        expect((await elsewhere('POST', '/api/cdp/data/shared', [{ b: 'z', c: 1 }])).status).toBe(201);
        expect(await columnTypes(project, 'shared')).toEqual({ id: 'uuid', b: 'TEXT', c: 'integer' });
        expect((await elsewhere('DELETE', `${TABLE}/shared`)).status).toBe(200);
        expectFailure(await project.call('GET', `${TABLE}/shared`), 404, 'table_not_found');
        expectFailure(
          await project.call('POST', '/api/cdp/data/shared', { body: [{ b: 'x' }] }),
          404,
          'table_not_found',
        );
      }
    } finally {
      await second.close();
    }
  });
});
