/** Creating, reading and dropping tables over HTTP (specification 4.1, contract sections 3 and 5). */
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService } from '../../src/service.js';
import { testServers } from '../support/postgres.js';
import { columnTypes, refused, snapshot, tableNames } from '../support/schema.js';
import { failure, onServer, startTestService, type TestProject, type TestService } from '../support/service.js';

const TABLE = '/api/cdp/schema/table';
const TEXT = [{ name: 'a', type: 'TEXT' }];
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** All sorts of characters that a comment may hold. */
const ODD_COMMENT = `it's "quoted" \\ back\\'slash $$ $1 %s; -- /* \n\t 🎉 \u{1F1E9}\u{1F1EA} e\u0301 NULL`;

describe.each(testServers())('tables on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
  });
  afterAll(() => service.close());

  const create = (body: unknown, by = project) => by.call('POST', TABLE, { body });
  const read = async (name: string, by = project) =>
    (await by.call('GET', `${TABLE}/${name}`)).body.table as { comment: unknown; columns: Record<string, unknown>[] };

  /** As the superuser in the project's own database, beside the service. */
  const inDatabase = async <T>(work: Parameters<typeof onServer<T>>[1], of = project): Promise<T> => {
    const row = await service.engine.control.projectByName(of.name);
    return onServer(server, work, row?.placement.database);
  };

  describe('works', () => {
    it('answers 201 with the names of the columns, id first', async () => {
      const answer = await create({
        table_name: 'customers',
        comment: 'People',
        columns: [
          { name: 'email', type: 'TEXT', comment: 'Primary address' },
          { name: 'age', type: 'INTEGER' },
        ],
      });
      expect(answer.status).toBe(201);
      expect(answer.body).toEqual({
        success: true,
        message: 'table created',
        table: 'customers',
        columns: ['id', 'email', 'age'],
      });
      expect(await read('customers')).toMatchObject({
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

    it('makes id a uuid primary key that the server fills with a UUID v7, for free SQL too', async () => {
      await project.table('with_ids', { a: 'TEXT' });
      const [row] = await project.rows(`INSERT INTO with_ids (a) VALUES ('x') RETURNING id`);
      expect(row?.id).toMatch(UUID_V7);
      expect(
        await project.rows(`SELECT contype, pg_get_constraintdef(oid) AS rule FROM pg_constraint
          WHERE conrelid = 'with_ids'::regclass AND contype = 'p'`),
      ).toEqual([{ contype: 'p', rule: 'PRIMARY KEY (id)' }]);
    });

    it('takes the six types in any case and answers them in capitals', async () => {
      const types = ['text', 'Integer', 'FLOAT', 'bOOLEAN', 'timestamp', 'Jsonb'];
      await create({ table_name: 'cases', columns: types.map((type, i) => ({ name: `c${i}`, type })) });
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
    ])('keeps a comment of %s as it is', async (_title, comment) => {
      await create({ table_name: 'commented', comment, columns: [{ name: 'a', type: 'TEXT', comment }] });
      expect(await read('commented')).toMatchObject({ comment, columns: [{ comment: null }, { comment }] });
      await project.call('DELETE', `${TABLE}/commented`);
    });

    it.each(['', null])('takes %j as no comment', async (comment) => {
      await create({ table_name: 'uncommented', comment, columns: [{ name: 'a', type: 'TEXT', comment }] });
      expect(await read('uncommented')).toMatchObject({
        comment: null,
        columns: [{ comment: null }, { comment: null }],
      });
      await project.call('DELETE', `${TABLE}/uncommented`);
    });

    it('takes keywords of SQL as names of tables and columns, from creation to drop', async () => {
      const keywords = ['select', 'table', 'user', 'order', 'from', 'null', 'default', 'SELECT_', 'primary'];
      for (const keyword of keywords) {
        const columns = keywords.map((name) => ({ name, type: 'TEXT' }));
        expect((await create({ table_name: keyword, columns })).status).toBe(201);
        const inserted = await project.call('POST', `/api/cdp/data/${keyword}`, { body: [{ [keyword]: 'x' }] });
        expect(inserted.status).toBe(201);
        expect(await project.rows(`SELECT "${keyword}" AS value FROM "${keyword}"`)).toEqual([{ value: 'x' }]);
        expect((await project.call('DELETE', `${TABLE}/${keyword}`)).status).toBe(200);
      }
    });

    it('keeps names of 63 characters and their case', async () => {
      const table = `T${'a'.repeat(61)}Z`;
      const column = `_${'B'.repeat(62)}`;
      expect((await create({ table_name: table, columns: [{ name: column, type: 'TEXT' }] })).body).toMatchObject({
        table,
        columns: ['id', column],
      });
      expect(await tableNames(project)).toContain(table);
      expect(await columnTypes(project, table)).toEqual({ id: 'uuid', [column]: 'TEXT' });
      // The names of its index and of a second such table's must not get into each other's way.
      const twin = `${table.slice(0, 62)}Y`;
      expect((await create({ table_name: twin, columns: TEXT })).status).toBe(201);
    });

    it('takes names like those of system catalogs and of the service without mixing them up', async () => {
      for (const name of ['pg_class', 'pg_attribute', 'projects', 'tokens', 'cdp', 'data', 'idempotency_keys']) {
        expect((await create({ table_name: name, columns: TEXT })).status).toBe(201);
        expect(await columnTypes(project, name)).toEqual({ id: 'uuid', a: 'TEXT' });
      }
      for (const name of ['pg_class', 'pg_attribute']) {
        expect((await project.call('DELETE', `${TABLE}/${name}`)).status).toBe(200);
      }
    });

    it('takes 500 columns', async () => {
      const columns = Array.from({ length: 500 }, (_, i) => ({ name: `c${i}`, type: 'INTEGER' }));
      const answer = await create({ table_name: 'wide', columns });
      expect(answer.status).toBe(201);
      expect(answer.body.columns).toEqual(['id', ...columns.map(({ name }) => name)]);
      expect(Object.keys(await columnTypes(project, 'wide'))).toHaveLength(501);
    });

    it('drops a table with its records, and its name is free again', async () => {
      await project.table('dropped', { a: 'TEXT' });
      await project.call('POST', '/api/cdp/data/dropped', { body: [{ a: 'x' }] });
      const answer = await project.call('DELETE', `${TABLE}/dropped`);
      expect(answer.status).toBe(200);
      expect(answer.body).toEqual({ success: true, message: 'table dropped', table: 'dropped' });
      failure(await project.call('GET', `${TABLE}/dropped`), 404, 'table_not_found');
      await project.table('dropped', { b: 'TEXT' });
      expect(await project.rows('SELECT * FROM dropped')).toEqual([]);
    });

    it('takes a DELETE with the content type of JSON and no body', async () => {
      await project.table('dropped_by_header', { a: 'TEXT' });
      const headers = { 'content-type': 'application/json' };
      expect((await project.call('DELETE', `${TABLE}/dropped_by_header`, { headers })).status).toBe(200);
    });

    it('shows no tables where there are none', async () => {
      const empty = await service.project();
      expect((await empty.call('GET', '/api/cdp/schema')).body).toEqual({
        success: true,
        message: '0 tables',
        tables: [],
      });
    });

    it('shows whatever free SQL made: tables, views and types by their names in Postgres', async () => {
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

    it('tells about how many rows there are', async () => {
      await project.table('counted', { n: 'INTEGER' });
      await project.rows('INSERT INTO counted (n) SELECT generate_series(1, 1000)');
      await project.rows('ANALYZE counted');
      const { body } = await project.call('GET', `${TABLE}/counted`);
      expect(body.table).toMatchObject({ approximate_rows: 1_000 });
    });

    it('sees in the next request what free SQL or another instance has just changed', async () => {
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
          failure(await project.call('POST', '/api/cdp/data/shared', { body: [{ a: 'z' }] }), 400, 'unknown_column');
          await project.rows('ALTER TABLE shared ADD COLUMN c integer');
          expect((await elsewhere('POST', '/api/cdp/data/shared', [{ b: 'z', c: 1 }])).status).toBe(201);
          expect(await columnTypes(project, 'shared')).toEqual({ id: 'uuid', b: 'TEXT', c: 'integer' });
          expect((await elsewhere('DELETE', `${TABLE}/shared`)).status).toBe(200);
          failure(await project.call('GET', `${TABLE}/shared`), 404, 'table_not_found');
          failure(await project.call('POST', '/api/cdp/data/shared', { body: [{ b: 'x' }] }), 404, 'table_not_found');
        }
      } finally {
        await second.close();
      }
    });
  });

  describe('refuses', () => {
    const table = (over: object) => ({ table_name: 'fresh', columns: TEXT, ...over });
    const column = (over: object) => table({ columns: [{ name: 'a', type: 'TEXT', ...over }] });

    it.each<[string, unknown, string]>([
      ['an array', [], 'invalid_request'],
      ['null', null, 'invalid_request'],
      ['no table_name', { columns: TEXT }, 'invalid_request'],
      ['a table_name that is a number', table({ table_name: 1 }), 'invalid_request'],
      ['no columns', { table_name: 'fresh' }, 'invalid_request'],
      ['an empty list of columns', table({ columns: [] }), 'invalid_request'],
      ['columns that are an object', table({ columns: { a: 'TEXT' } }), 'invalid_request'],
      ['a column that is a string', table({ columns: ['a'] }), 'invalid_request'],
      ['a column without a name', table({ columns: [{ type: 'TEXT' }] }), 'invalid_request'],
      ['a column without a type', table({ columns: [{ name: 'a' }] }), 'invalid_request'],
      ['a type that is a list', column({ type: ['TEXT'] }), 'invalid_request'],
      ['an unknown field', table({ tablename: 'x' }), 'invalid_request'],
      ['an unknown field of a column', column({ nullable: false }), 'invalid_request'],
      ['a declared primary key field', table({ id: 'uuid' }), 'invalid_request'],
      ['the field __proto__', JSON.parse('{"table_name":"fresh","columns":[],"__proto__":{}}'), 'invalid_request'],
      ['a comment that is a number', table({ comment: 1 }), 'invalid_request'],
      ['a comment of 2,001 characters', table({ comment: 'x'.repeat(2_001) }), 'invalid_request'],
      ['a comment of 2,001 characters on a column', column({ comment: '🎉'.repeat(2_001) }), 'invalid_request'],
      ['U+0000 in a comment', table({ comment: 'a\u0000b' }), 'invalid_request'],
      ['U+0000 in the comment of a column', column({ comment: '\u0000' }), 'invalid_request'],
      ['an empty type', column({ type: '' }), 'unknown_type'],
      ['a type of Postgres', column({ type: 'VARCHAR' }), 'unknown_type'],
      ['a type with a space behind it', column({ type: 'TEXT ' }), 'unknown_type'],
      ['a type with SQL behind it', column({ type: 'TEXT); DROP TABLE kept; --' }), 'unknown_type'],
      ['a type whose capital is no ASCII', column({ type: 'ınteger' }), 'unknown_type'],
      ['a type named like a property', column({ type: 'constructor' }), 'unknown_type'],
      ['one name twice', table({ columns: [...TEXT, ...TEXT] }), 'invalid_request'],
    ])('%s', async (_title, body, code) => {
      await refused(project, ['POST', TABLE, body], 400, code);
    });

    it('501 columns', async () => {
      const columns = Array.from({ length: 501 }, (_, i) => ({ name: `c${i}`, type: 'INTEGER' }));
      await refused(project, ['POST', TABLE, { table_name: 'fresh', columns }], 400, 'invalid_request');
    });

    it('a lone surrogate in a comment', async () => {
      const body = '{"table_name":"fresh","columns":[{"name":"a","type":"TEXT"}],"comment":"\\ud800"}';
      await refused(project, ['POST', TABLE, body], 400, 'invalid_request');
    });

    const INVALID = [
      '',
      '1a',
      'a b',
      'a-b',
      'a.b',
      'a"b',
      "a'b",
      'ä',
      'a\u0000',
      'a\n',
      ' a',
      'a;',
      '💥',
      'a'.repeat(64),
    ];
    it.each(INVALID)('the name %j for a table', async (name) => {
      await refused(project, ['POST', TABLE, { table_name: name, columns: TEXT }], 400, 'invalid_name');
    });
    it.each(INVALID)('the name %j for a column', async (name) => {
      await refused(project, ['POST', TABLE, column({ name })], 400, 'invalid_name');
    });

    it.each(['_cdp_', '_cdp_x', '_CDP_x'])('the reserved name %s for a table', async (name) => {
      await refused(project, ['POST', TABLE, { table_name: name, columns: TEXT }], 400, 'reserved_name');
    });
    it.each(['id', 'ctid', 'xmin', 'xmax', 'cmin', 'cmax', 'tableoid', '_cdp_', '_cdp_x', '_CDP_x'])(
      'the reserved name %s for a column',
      async (name) => {
        await refused(project, ['POST', TABLE, column({ name })], 400, 'reserved_name');
      },
    );

    it('columns that differ only by case', async () => {
      const columns = ['email', 'Email'].map((name) => ({ name, type: 'TEXT' }));
      const before = await snapshot(project);
      const answer = await create({ table_name: 'fresh', columns });
      expect([400, 409]).toContain(answer.status);
      failure(answer, answer.status, answer.status === 409 ? 'column_exists' : 'invalid_request');
      expect(await snapshot(project)).toEqual(before);
    });

    it('every wrong column in one answer, 50 of them listed', async () => {
      const columns = Array.from({ length: 60 }, (_, i) => ({ name: `${i}`, type: 'TEXT' }));
      const error = await refused(project, ['POST', TABLE, { table_name: 'fresh', columns }], 400, 'invalid_name');
      expect(error.errors).toHaveLength(50);
      expect(error.error_count).toBe(60);
      expect(error.errors?.[7]).toMatchObject({ column: '7', error: 'invalid_name' });
    });

    it.each<[string, string]>([
      ['the same name', 'Taken'],
      ['a name that differs by case', 'tAKEN'],
      ['the name of a view', 'taken_view'],
      ['the name of a view in another case', 'TAKEN_VIEW'],
      ['the name of a sequence', 'taken_sequence'],
      ['the name of an index', 'taken_index'],
      ['the name of a type', 'taken_type'],
    ])('%s with 409', async (_title, name) => {
      await project.rows(`
        CREATE TABLE IF NOT EXISTS "Taken" (a text);
        CREATE OR REPLACE VIEW taken_view AS SELECT 1 AS one;
        CREATE SEQUENCE IF NOT EXISTS taken_sequence;
        CREATE INDEX IF NOT EXISTS taken_index ON "Taken" (a);
        DROP TYPE IF EXISTS taken_type;
        CREATE TYPE taken_type AS ENUM ('a')`);
      await refused(project, ['POST', TABLE, { table_name: name, columns: TEXT }], 409, 'table_exists');
    });

    it('to read or drop a table that is not there, with a near name as hint', async () => {
      await project.table('invoices', { a: 'TEXT' });
      for (const method of ['GET', 'DELETE']) {
        const error = await refused(project, [method, `${TABLE}/invoicse`], 404, 'table_not_found');
        expect(error.hint).toContain('invoices');
        await refused(project, [method, `${TABLE}/INVOICES`], 404, 'table_not_found');
      }
    });

    it.each(['%00', '%22', '..%2F..', 'a%20b', '%F0%9F%8E%89', "x'--", 'a'.repeat(64), 'a'.repeat(400), '_cdp_x'])(
      'the path %s as a table that is not there',
      async (path) => {
        for (const method of ['GET', 'DELETE']) {
          await refused(project, [method, `${TABLE}/${path}`], 404, 'table_not_found');
        }
      },
    );

    it('to drop a view', async () => {
      await project.rows('CREATE OR REPLACE VIEW kept_view AS SELECT 1 AS one');
      await refused(project, ['DELETE', `${TABLE}/kept_view`], 404, 'table_not_found');
    });

    it('to drop a table that views and foreign keys depend on, and names them', async () => {
      await project.table('base', { a: 'TEXT' });
      await project.rows(`CREATE VIEW base_view AS SELECT a FROM base;
        CREATE TABLE base_child (b uuid REFERENCES base)`);
      const error = await refused(project, ['DELETE', `${TABLE}/base`], 409, 'dependent_objects');
      expect(error.message).toContain('base_view');
      expect(error.message).toContain('base_child');
    });
  });

  describe('protects', () => {
    it('the whole: a table whose comment fails does not come into being', async () => {
      const other = await service.project();
      await inDatabase(async (client) => {
        await client.query(`CREATE FUNCTION data.refuse() RETURNS event_trigger LANGUAGE plpgsql
          AS $$ BEGIN RAISE EXCEPTION 'no comments today'; END $$`);
        await client.query(`CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('COMMENT')
          EXECUTE FUNCTION data.refuse()`);
      }, other);
      const columns = [{ name: 'a', type: 'TEXT', comment: 'x' }];
      const answer = await create({ table_name: 'half', columns }, other);
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(await tableNames(other)).toEqual([]);
      expect((await create({ table_name: 'half', columns: TEXT }, other)).status).toBe(201);
    });

    it('one name: of many that create it at once, in two cases and on two instances, one succeeds', async () => {
      const second = await startService(service.config, pino({ level: 'silent' }));
      try {
        const creating = Array.from({ length: 8 }, async (_, i) => {
          const response = await fetch((i % 2 === 0 ? service.url : second.url) + TABLE, {
            method: 'POST',
            headers: { authorization: `Bearer ${project.token}`, 'content-type': 'application/json' },
            body: JSON.stringify({ table_name: i < 4 ? 'race' : 'Race', columns: TEXT }),
          });
          return { status: response.status, body: (await response.json()) as { error?: string } };
        });
        const answers = await Promise.all(creating);
        expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409, 409, 409]);
        expect(new Set(answers.map(({ body }) => body.error))).toEqual(new Set([undefined, 'table_exists']));
      } finally {
        await second.close();
      }
      expect((await tableNames(project)).filter((name) => name.toLowerCase() === 'race')).toHaveLength(1);
    });

    it('the tables from SQL in names and comments', async () => {
      const other = await service.project();
      await other.table('kept', { a: 'TEXT' });
      await other.rows(`INSERT INTO kept (a) VALUES ('still here')`);
      const before = await snapshot(other);
      const attacks = [
        `x"; DROP TABLE kept; --`,
        `x'; DROP TABLE kept; --`,
        `x\\'; DROP TABLE kept; --`,
        `$$; DROP TABLE kept; --`,
        `kept"; DELETE FROM "kept`,
        `a') ; DROP TABLE data.kept; COMMIT; --`,
        `\\`,
        `E'\\'; DROP TABLE kept; --`,
      ];
      for (const attack of attacks) {
        const path = encodeURIComponent(attack);
        for (const answer of [
          await create({ table_name: attack, columns: TEXT }, other),
          await create({ table_name: 'fresh', columns: [{ name: attack, type: 'TEXT' }] }, other),
          await create({ table_name: 'fresh', columns: [{ name: 'a', type: attack }] }, other),
          await other.call('GET', `${TABLE}/${path}`),
          await other.call('DELETE', `${TABLE}/${path}`),
        ]) {
          expect(answer.status).toBeGreaterThanOrEqual(400);
          expect(answer.status).toBeLessThan(500);
        }
        expect(await snapshot(other)).toEqual(before);
        const columns = [{ name: 'a', type: 'TEXT', comment: attack }];
        expect((await create({ table_name: 'noted', comment: attack, columns }, other)).status).toBe(201);
        expect(await read('noted', other)).toMatchObject({ comment: attack, columns: [{}, { comment: attack }] });
        expect((await other.call('DELETE', `${TABLE}/noted`)).status).toBe(200);
        expect(await snapshot(other)).toEqual(before);
      }
    });

    it('itself from functions, operators and types that a project puts in the way', async () => {
      const other = await service.project();
      await other.rows(`
        CREATE FUNCTION lower(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
        CREATE FUNCTION count(text) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
        CREATE FUNCTION uuid_v7() RETURNS uuid LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
        CREATE FUNCTION trap(name, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
        CREATE OPERATOR = (LEFTARG = name, RIGHTARG = text, FUNCTION = trap);
        CREATE DOMAIN "text" AS integer;
        CREATE DOMAIN "uuid" AS integer;
        CREATE DOMAIN int8 AS boolean`);
      expect(
        (await create({ table_name: 'safe', columns: [...TEXT, { name: 'n', type: 'INTEGER' }] }, other)).status,
      ).toBe(201);
      expect(await columnTypes(other, 'safe')).toEqual({ id: 'uuid', a: 'TEXT', n: 'INTEGER' });
      expect((await other.call('POST', '/api/cdp/data/safe', { body: [{ a: 'x', n: 1 }] })).status).toBe(201);
      expect((await other.call('DELETE', `${TABLE}/safe`)).status).toBe(200);
    });

    it('projects from each other: the same names side by side, and nothing of the other to be seen', async () => {
      const [one, two] = [await service.project(), await service.project()];
      await create({ table_name: 'orders', comment: 'of one', columns: [{ name: 'a', type: 'TEXT' }] }, one);
      await create({ table_name: 'orders', comment: 'of two', columns: [{ name: 'b', type: 'INTEGER' }] }, two);
      await one.table('secret_plans', { a: 'TEXT' });
      expect(await read('orders', one)).toMatchObject({ comment: 'of one' });
      expect(await read('orders', two)).toMatchObject({ comment: 'of two' });
      expect(await tableNames(two)).toEqual(['orders']);
      const error = failure(await two.call('GET', `${TABLE}/secret_plan`), 404, 'table_not_found');
      expect(JSON.stringify(error)).not.toContain('secret_plans');
      expect((await two.call('DELETE', `${TABLE}/orders`)).status).toBe(200);
      expect(await columnTypes(one, 'orders')).toEqual({ id: 'uuid', a: 'TEXT' });
    });

    it('the caller from waiting: a table that is locked is busy after 2 s, and reading the schema does not wait', async () => {
      await project.table('locked', { a: 'TEXT' });
      await inDatabase(async (client) => {
        await client.query('BEGIN');
        await client.query('LOCK TABLE data.locked IN ACCESS EXCLUSIVE MODE');
        const started = performance.now();
        expect((await project.call('GET', '/api/cdp/schema')).status).toBe(200);
        expect((await project.call('GET', `${TABLE}/locked`)).status).toBe(200);
        expect(performance.now() - started).toBeLessThan(1_000);

        const dropping = performance.now();
        const answer = await project.call('DELETE', `${TABLE}/locked`);
        failure(answer, 503, 'table_busy');
        expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
        expect(performance.now() - dropping).toBeGreaterThan(1_500);
        expect(performance.now() - dropping).toBeLessThan(3_500);
        await client.query('ROLLBACK');
      });
      expect(await columnTypes(project, 'locked')).toEqual({ id: 'uuid', a: 'TEXT' });
      expect((await project.call('DELETE', `${TABLE}/locked`)).status).toBe(200);
    });
  });
});
