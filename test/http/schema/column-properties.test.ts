/** DEFAULT, NOT NULL and UNIQUE of a column, set and dropped over HTTP, and how inserts treat them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedServer } from '../../support/postgres.js';
import { expectRefused, snapshot } from '../../support/schema.js';
import {
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';
import { columnPath, freshName, type ShownTable, TABLE, Tables } from '../../support/tables.js';

describe.each([embeddedServer()])('properties of a column on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let tables: Tables;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    tables = new Tables(project);
  });
  afterAll(() => service.close());

  const insert = (table: string, records: unknown, query = '') =>
    project.call('POST', `/api/cdp/data/${table}${query}`, { body: records });
  const values = async (table: string) => (await project.rows(`SELECT a FROM ${table} ORDER BY id`)).map(({ a }) => a);
  const constraints = (table: string) =>
    project.rows(`SELECT attname, attnotnull, pg_get_expr(adbin, adrelid) AS preset FROM pg_attribute
      LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
      WHERE attrelid = 'data.${table}'::regclass AND attname = 'a'`);

  describe('works', () => {
    it.each<[string, string, unknown]>([
      ['TEXT', `"it's \\\\ \\"odd\\" 🎉"`, `it's \\ "odd" 🎉`],
      ['TEXT', '12.50', '12.50'],
      ['INTEGER', '9007199254740993', '9007199254740993'],
      ['INTEGER', '"-7"', -7],
      ['FLOAT', '1.5', 1.5],
      ['FLOAT', '"NaN"', 'NaN'],
      ['BOOLEAN', 'false', false],
      ['TIMESTAMP', '"2026-01-31"', '2026-01-31T00:00:00Z'],
      ['JSONB', '{"a": [1, {"b": null}], "c": "\\\\d"}', { a: [1, { b: null }], c: '\\d' }],
      ['JSONB', '[]', []],
    ])('to set the default of %s to %s, and to drop it', async (type, preset, read) => {
      const name = await tables.fresh({ a: type, b: 'TEXT' });
      const response = await tables.alter(name, 'a', `{"default": ${preset}}`);
      expect([response.status, response.body]).toEqual([
        200,
        {
          success: true,
          message: 'column altered',
          table: name,
          column: { name: 'a', type, comment: null, default: (await constraints(name))[0]?.preset },
        },
      ]);
      // A record that leaves it out, one that does not, and the way that returns ids.
      expect((await insert(name, [{ b: 'x' }, { a: null, b: 'x' }])).status).toBe(201);
      expect((await insert(name, [{}], '?return=ids')).status).toBe(201);
      expect(await values(name)).toEqual([read, null, read]);
      expect((await tables.alter(name, 'a', { default: null })).status).toBe(200);
      await insert(name, [{}]);
      expect(await values(name)).toEqual([read, null, read, null]);
    });

    it('to set and drop NOT NULL, which inserts report by record and column', async () => {
      const name = await tables.fresh({ a: 'TEXT', b: 'INTEGER' });
      await tables.insert(name, [{ a: 'x' }]);
      expect((await tables.alter(name, 'a', { not_null: true })).status).toBe(200);
      for (const query of ['', '?return=ids']) {
        for (const bad of [{}, { b: 1 }, { a: null }]) {
          const { errors } = expectFailure(await insert(name, [{ a: 'y' }, bad], query), 400, 'constraint_violation');
          expect(errors).toMatchObject([{ record: 1, column: 'a', error: 'constraint_violation' }]);
          expect(errors?.[0]?.message).toContain('null value in column "a"');
        }
      }
      expect((await tables.alter(name, 'a', { default: 'z' })).status).toBe(200);
      for (const query of ['', '?return=ids']) expect((await insert(name, [{ b: 1 }], query)).status).toBe(201);
      expectFailure(await insert(name, [{ a: null }]), 400, 'constraint_violation');
      expect((await tables.alter(name, 'a', { not_null: false })).status).toBe(200);
      expect((await insert(name, [{ a: null }])).status).toBe(201);
      expect(await values(name)).toEqual(['x', 'z', 'z', null]);
    });

    it('to make a column unique and not unique again, whatever its index is called; twice has no further effect', async () => {
      const name = await tables.fresh({ a: 'TEXT', b: 'TEXT' });
      await project.rows(`CREATE UNIQUE INDEX ${name}_some ON ${name} (a) WHERE b IS NULL`);
      for (let i = 0; i < 2; i++) expect((await tables.alter(name, 'a', { unique: true })).status).toBe(200);
      await tables.createIndex(name, { columns: ['a'], unique: true, name: `${name}_own` });
      await tables.createIndex(name, { columns: ['a', 'b'], unique: true });
      expect(await tables.indexes(name)).toHaveLength(5);
      expectFailure(
        await insert(name, [
          { a: 'x', b: '1' },
          { a: 'x', b: '2' },
        ]),
        409,
        'unique_violation',
      );
      for (let i = 0; i < 2; i++) expect((await tables.alter(name, 'a', { unique: false })).status).toBe(200);
      expect(await tables.indexes(name)).toMatchObject([{ primary: true }, { columns: ['a', 'b'] }, { partial: true }]);
      expect(
        (
          await insert(name, [
            { a: 'x', b: '1' },
            { a: 'x', b: '2' },
          ])
        ).status,
      ).toBe(201);
    });

    it('for all of them with a new name and type, if the old default cannot be converted', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      await tables.alter(name, 'a', { default: 'none' });
      await tables.insert(name, [{ a: '1' }, { a: '2' }]);
      const error = await expectRefused(
        project,
        ['PUT', columnPath(name, 'a'), { new_type: 'INTEGER' }],
        409,
        'not_convertible',
      );
      expect(error.hint).toContain('"default"');
      const all = { new_name: 'n', new_type: 'INTEGER', default: 3, not_null: true, unique: true, comment: 'x' };
      expect((await tables.alter(name, 'a', all)).body.column).toEqual({
        ...{ name: 'n', type: 'INTEGER', comment: 'x' },
        ...{ not_null: true, default: "'3'::bigint" },
      });
      await insert(name, [{}]);
      expect(await project.rows(`SELECT n FROM ${name} ORDER BY n`)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
      expectFailure(await insert(name, [{}]), 409, 'unique_violation');
    });

    it('to read them back, also from tables that SQL has created', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      const column = async (of: string) => (await tables.read(name)).columns.find((found) => found.name === of);
      expect((await tables.read(name)).columns).toEqual([
        { name: 'id', type: 'uuid', comment: null },
        { name: 'a', type: 'TEXT', comment: null },
      ]);
      await tables.alter(name, 'a', { default: "it's", not_null: true });
      const rules = { name: 'a', type: 'TEXT', comment: null, not_null: true, default: "'it''s'::text" };
      expect(await column('a')).toEqual(rules);
      const renamed = await tables.alter(name, 'a', { new_name: 'b' });
      expect(renamed.body.column).toEqual({ ...rules, name: 'b' });
      await tables.alter(name, 'b', { default: null, not_null: false });
      expect(await column('b')).toEqual({ name: 'b', type: 'TEXT', comment: null });

      const made = `${name}_sql`;
      await project.rows(`CREATE TYPE ${name}_mood AS ENUM ('ok'); CREATE TABLE ${made} (id uuid PRIMARY KEY,
        n integer GENERATED ALWAYS AS IDENTITY, at timestamptz DEFAULT now(), mood ${name}_mood NOT NULL DEFAULT 'ok',
        twice integer GENERATED ALWAYS AS (length('ab') * 2) STORED, code serial)`);
      const { columns } = await tables.read(made);
      expect(columns).toEqual([
        { name: 'id', type: 'uuid', comment: null, not_null: true },
        { name: 'n', type: 'integer', comment: null, not_null: true },
        { name: 'at', type: 'TIMESTAMP', comment: null, default: 'now()' },
        { name: 'mood', type: `${name}_mood`, comment: null, not_null: true, default: `'ok'::${name}_mood` },
        { name: 'twice', type: 'integer', comment: null },
        {
          name: 'code',
          type: 'integer',
          comment: null,
          not_null: true,
          default: `nextval('${made}_code_seq'::regclass)`,
        },
      ]);
      const { body } = await project.call('GET', '/api/cdp/schema');
      expect((body.tables as ShownTable[]).find((table) => table.name === made)?.columns).toEqual(columns);
    });

    it('to read a default while a change locks the table', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      await tables.alter(name, 'a', { default: 'x' });
      const held = project.rows(`LOCK ${name} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(30.017)`).catch(() => []);
      const sleeps = `SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%(30.017)%'`;
      const pids = () => onServer(service.server, async (pg) => (await pg.query<{ pid: number }>(sleeps)).rows);
      await expect.poll(pids, { timeout: 10_000 }).toHaveLength(1);
      expect((await tables.read(name)).columns[1]?.default).toBe("'x'::text");
      const [sleeping] = await pids();
      expect(sleeping).toBeDefined();
      await onServer(service.server, (pg) => pg.query('SELECT pg_terminate_backend($1)', [sleeping?.pid]));
      await held;
    });

    it('to declare them with a new table or column', async () => {
      const name = freshName();
      const created = await project.call('POST', TABLE, {
        body: `{"table_name": "${name}", "columns": [{"name": "a", "type": "INTEGER", "not_null": true, "default": 9007199254740993},
          {"name": "b", "type": "TEXT", "not_null": true}, {"name": "c", "type": "JSONB", "default": {"x": 1.50}}]}`,
      });
      expect(created.status).toBe(201);
      expectFailure(await insert(name, [{}]), 400, 'constraint_violation');
      await tables.insert(name, [{ b: 'x' }]);
      const added = await tables.add(name, { name: 'd', type: 'TEXT', not_null: true, default: 'new' });
      const d = { name: 'd', type: 'TEXT', comment: null, not_null: true, default: "'new'::text" };
      expect([added.status, added.body.column]).toEqual([201, d]);
      expect(await project.rows(`SELECT a::text, c::text, d FROM ${name}`)).toEqual([
        { a: '9007199254740993', c: '{"x": 1.50}', d: 'new' },
      ]);
      expect((await tables.read(name)).columns).toEqual([
        { name: 'id', type: 'uuid', comment: null },
        { name: 'a', type: 'INTEGER', comment: null, not_null: true, default: "'9007199254740993'::bigint" },
        { name: 'b', type: 'TEXT', comment: null, not_null: true },
        { name: 'c', type: 'JSONB', comment: null, default: `'{"x": 1.50}'::jsonb` },
        d,
      ]);
      const plain = await tables.add(name, { name: 'e', type: 'TEXT', not_null: false, default: null });
      expect(plain.body.column).toEqual({ name: 'e', type: 'TEXT', comment: null });
      // Rows would have NULL, or all the same value.
      const path = `${TABLE}/${name}/column`;
      const nulls = await expectRefused(
        project,
        ['POST', path, { name: 'f', type: 'TEXT', not_null: true }],
        400,
        'constraint_violation',
      );
      expect(nulls.message).toBe('"f" cannot be NOT NULL: 1 row has NULL in it');
      expect(nulls.hint).toBe('Give the column a default, too.');
      await tables.insert(name, [{ b: 'y' }]);
      const same = { name: 'f', type: 'TEXT', unique: true, default: 'x' };
      await expectRefused(project, ['POST', path, same], 409, 'unique_violation');
      await project.rows(`DELETE FROM ${name}`);
      expect((await tables.add(name, { name: 'f', type: 'TEXT', not_null: true })).status).toBe(201);
    });

    it('for a column of a type that free SQL has created', async () => {
      await project.rows(
        `CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE moods (id uuid PRIMARY KEY DEFAULT _cdp.uuid_v7(), a mood)`,
      );
      expect((await tables.alter('moods', 'a', { default: 'ok', not_null: true, unique: true })).status).toBe(200);
      expect((await insert('moods', [{}])).status).toBe(201);
      expect(await values('moods')).toEqual(['ok']);
      await expectRefused(project, ['PUT', columnPath('moods', 'a'), { default: 'happy' }], 400, 'sql_error');
    });

    it('once for each Idempotency-Key', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      const send = () =>
        project.call('PUT', columnPath(name, 'a'), {
          body: { not_null: true, default: 'x' },
          headers: { 'idempotency-key': 'k' },
        });
      const first = await send();
      await tables.alter(name, 'a', { not_null: false });
      const repeat = await send();
      expect([first.status, repeat.text, repeat.headers.get('idempotency-replayed')]).toEqual([
        200,
        first.text,
        'true',
      ]);
      expect(await constraints(name)).toMatchObject([{ attnotnull: false, preset: "'x'::text" }]);
    });
  });

  describe('refuses', () => {
    it.each<[string, unknown, string]>([
      ['INTEGER', { default: 'now()' }, 'invalid_value'],
      ['INTEGER', { default: 1.5 }, 'invalid_value'],
      ['FLOAT', { default: 'x' }, 'invalid_value'],
      ['BOOLEAN', { default: 'true' }, 'invalid_value'],
      ['TIMESTAMP', { default: 'now' }, 'invalid_value'],
      ['TIMESTAMP', { default: 0 }, 'invalid_value'],
      ['TEXT', { default: {} }, 'invalid_value'],
      ['TEXT', { default: 'a\u0000' }, 'invalid_value'],
      ['JSONB', { default: ['\ud800'] }, 'invalid_value'],
      ['TEXT', { new_type: 'INTEGER', default: 'x' }, 'invalid_value'],
      ['TEXT', { not_null: 'true' }, 'invalid_request'],
      ['TEXT', { not_null: null }, 'invalid_request'],
      ['TEXT', { unique: 1 }, 'invalid_request'],
    ])('for %s: %j', async (type, body, code) => {
      const name = await tables.fresh({ a: type });
      const error = await expectRefused(project, ['PUT', columnPath(name, 'a'), body], 400, code);
      if (code === 'invalid_value') {
        expect(error.message).toMatch(/^Default of column "a": /);
        expect(error.hint).toContain('Only SQL can set an expression');
      }
      await tables.drop(name);
    });

    it('a default that is invalid for the type of a new column, and names every one', async () => {
      const columns = [
        { name: 'a', type: 'INTEGER', default: 1.5 },
        { name: 'b', type: 'TEXT', default: 'fine' },
        { name: 'c', type: 'TIMESTAMP', default: 'now()' },
      ];
      const error = await expectRefused(
        project,
        ['POST', TABLE, { table_name: freshName(), columns }],
        400,
        'invalid_value',
      );
      expect(error.errors).toMatchObject([
        {
          column: 'a',
          error: 'invalid_value',
          hint: expect.stringContaining('Only SQL can set an expression') as string,
        },
        { column: 'c', error: 'invalid_value' },
      ]);
      const name = await tables.fresh({ a: 'TEXT' });
      await expectRefused(project, ['POST', `${TABLE}/${name}/column`, columns[0]], 400, 'invalid_value');
    });

    it('NOT NULL if there are NULLs, with the number of rows, and changes nothing else of the request', async () => {
      const name = await tables.fresh({ a: 'JSONB' });
      await tables.insert(name, [{ a: 1 }, {}, { a: null }]);
      const before = await constraints(name);
      const body = { not_null: true, default: 5, new_name: 'b', comment: 'x' };
      const error = await expectRefused(project, ['PUT', columnPath(name, 'a'), body], 400, 'constraint_violation');
      expect(error.message).toBe('"a" cannot be NOT NULL: 2 rows have NULL in it');
      expect(error.hint).toContain(`UPDATE "${name}" SET "a" = … WHERE "a" IS NULL`);
      expect(await constraints(name)).toEqual(before);
      // A JSON null becomes NULL with the type.
      await project.rows(`UPDATE ${name} SET a = 'null' WHERE a IS NULL`);
      const typed = await expectRefused(
        project,
        ['PUT', columnPath(name, 'a'), { not_null: true, new_type: 'INTEGER' }],
        400,
        'constraint_violation',
      );
      expect(typed.message).toContain('2 rows');
    });

    it('UNIQUE if values are duplicated, with their number and without the values', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      await tables.insert(name, [{ a: 'secret' }, { a: 'secret' }, {}, {}]);
      const body = { unique: true, not_null: false, default: 'x' };
      const error = await expectRefused(project, ['PUT', columnPath(name, 'a'), body], 409, 'unique_violation');
      expect(error.message).toBe(`"a" cannot be unique in "${name}": 1 value occurs more than once, up to 2 times`);
      expect(JSON.stringify(error)).not.toContain('secret');
      expect(await constraints(name)).toMatchObject([{ preset: null }]);
      // Different as text, equal as numbers.
      await project.rows(`DELETE FROM ${name}; INSERT INTO ${name} (a) VALUES ('1'), ('1.0')`);
      await expectRefused(
        project,
        ['PUT', columnPath(name, 'a'), { unique: true, new_type: 'FLOAT' }],
        409,
        'unique_violation',
      );
    });

    it('any change to id except its comment, and to drop what a foreign key needs', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      for (const body of [{ default: null }, { not_null: false }, { unique: false }, { unique: true, comment: 'x' }]) {
        await expectRefused(project, ['PUT', columnPath(name, 'id'), body], 400, 'reserved_name');
      }
      await tables.alter(name, 'a', { unique: true });
      await project.rows(`CREATE TABLE ${name}_of (a text REFERENCES ${name} (a))`);
      await expectRefused(project, ['PUT', columnPath(name, 'a'), { unique: false }], 409, 'dependent_objects');
    });

    it('a token that may not change the schema', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      const token = await project.tokenWith('schema:read', 'data:write', 'sql:read', 'sql:write');
      const before = await snapshot(project);
      expectFailure(
        await project.call('PUT', columnPath(name, 'a'), { body: { not_null: true }, token }),
        403,
        'insufficient_scope',
      );
      expect(await snapshot(project)).toEqual(before);
    });
  });

  it('protects against SQL in a default', async () => {
    const name = await tables.fresh({ a: 'TEXT' });
    const attacks = [
      `'; DROP TABLE ${name}; --`,
      `\\'; DROP TABLE ${name}; --`,
      `' || pg_sleep(9) || '`,
      '$$',
      `E'\\'`,
    ];
    for (const attack of attacks) {
      expect((await tables.alter(name, 'a', { default: attack })).status).toBe(200);
      await insert(name, [{}]);
    }
    expect(await values(name)).toEqual(attacks);
  });
});
