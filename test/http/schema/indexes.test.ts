/** Creating, listing and dropping indexes over HTTP, and columns declared as unique. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedServer } from '../../support/postgres.js';
import { expectRefused, snapshot } from '../../support/schema.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { freshName, indexPath, inDatabase, tablePath, Tables } from '../../support/tables.js';

const PLAIN = { unique: false, primary: false, partial: false, valid: true };
const primaryOf = (table: string) => ({
  ...PLAIN,
  name: `${table}_pkey`,
  columns: ['id'],
  unique: true,
  primary: true,
});

describe.each([embeddedServer()])('indexes on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let tables: Tables;
  beforeAll(async () => {
    service = await startTestService({}, server);
    project = await service.project();
    tables = new Tables(project);
  });
  afterAll(() => service.close());

  const insert = (table: string, records: unknown) => project.call('POST', `/api/cdp/data/${table}`, { body: records });

  describe('works', () => {
    it('for one column and several, with a name from Postgres or a given one', async () => {
      const name = await tables.fresh({ a: 'TEXT', B: 'INTEGER' });
      const created = await tables.createIndex(name, { columns: ['a', 'B'] });
      const first = { ...PLAIN, name: `${name}_a_B_idx`, columns: ['a', 'B'] };
      expect([created.status, created.body]).toEqual([
        201,
        { success: true, message: 'index created', table: name, index: first },
      ]);
      const again = (await tables.createIndex(name, { columns: ['a', 'B'], unique: false })).body.index;
      expect(again).toEqual({ ...first, name: `${name}_a_B_idx1` });
      const named = (await tables.createIndex(name, { columns: ['B'], name: `${name}_Named`, unique: true })).body
        .index;
      expect(named).toEqual({ ...PLAIN, name: `${name}_Named`, columns: ['B'], unique: true });
      const listed = await project.call('GET', `${tablePath(name)}/index`);
      expect(listed.body).toEqual({
        success: true,
        message: '4 indexes',
        table: name,
        indexes: [primaryOf(name), named, first, again],
      });
      const described = await project.call('GET', tablePath(name));
      expect((described.body.table as { indexes: unknown }).indexes).toEqual(listed.body.indexes);
      await project.rows(`CREATE VIEW ${name}_view AS SELECT a FROM ${name}`);
      expect((await project.call('GET', tablePath(`${name}_view`))).body.table).toMatchObject({ indexes: [] });
    });

    it('to keep values unique, also in the fast insert, until it is dropped', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      expect((await insert(name, [{ a: 'x' }, {}, {}])).status).toBe(201);
      expect((await tables.createIndex(name, { columns: ['a'], unique: true })).status).toBe(201);
      const error = expectFailure(await insert(name, [{ a: 'y' }, { a: 'x' }]), 409, 'unique_violation');
      expect(error.errors).toMatchObject([{ record: 1, column: 'a' }]);
      const dropped = await tables.dropIndex(name, `${name}_a_idx`);
      expect([dropped.status, dropped.body]).toEqual([
        200,
        { success: true, message: 'index dropped', table: name, index: `${name}_a_idx` },
      ]);
      expect(await tables.indexes(name)).toEqual([primaryOf(name)]);
      expect((await insert(name, [{ a: 'y' }, { a: 'x' }])).status).toBe(201);
    });

    it('for a column declared as unique, in a new table or an existing one', async () => {
      const name = freshName();
      const columns = [
        { name: 'email', type: 'TEXT', unique: true },
        { name: 'age', type: 'INTEGER', unique: false },
      ];
      expect((await tables.create({ table_name: name, columns })).status).toBe(201);
      await tables.insert(name, [{ email: 'a' }]);
      expect((await tables.add(name, { name: 'phone', type: 'TEXT', unique: true })).body.column).toEqual({
        name: 'phone',
        type: 'TEXT',
        comment: null,
      });
      const ofColumn = (column: string) => ({
        ...PLAIN,
        name: `${name}_${column}_key`,
        columns: [column],
        unique: true,
      });
      expect(await tables.indexes(name)).toEqual([primaryOf(name), ofColumn('email'), ofColumn('phone')]);
      for (const body of [[{ email: 'a' }], [{ phone: '1' }, { phone: '1' }]]) {
        expectFailure(await insert(name, body), 409, 'unique_violation');
      }
      // It is the index of a constraint.
      for (const column of ['email', 'phone'])
        expect((await tables.dropIndex(name, `${name}_${column}_key`)).status).toBe(200);
      expect((await insert(name, [{ email: 'a', phone: '1' }, { phone: '1' }])).status).toBe(201);
    });

    it('for what free SQL has created: expressions, partial indexes, constraints, names that the API cannot create', async () => {
      const name = await tables.fresh({ a: 'TEXT', b: 'TEXT' });
      await project.rows(`CREATE UNIQUE INDEX "an ""odd"" name" ON ${name} (lower(a), b) INCLUDE (id) WHERE b IS NOT NULL;
        ALTER TABLE ${name} ADD CONSTRAINT ${name}_c UNIQUE (b)`);
      expect(await tables.indexes(name)).toEqual([
        primaryOf(name),
        { ...PLAIN, name: 'an "odd" name', columns: [null, 'b'], unique: true, partial: true },
        { ...PLAIN, name: `${name}_c`, columns: ['b'], unique: true },
      ]);
      for (const index of ['an "odd" name', `${name}_c`]) {
        expect((await tables.dropIndex(name, index)).status).toBe(200);
      }
      expect(await tables.indexes(name)).toEqual([primaryOf(name)]);
      await project.rows(`CREATE VIEW ${name}_view AS SELECT 1 AS one`);
      expect(await tables.indexes(`${name}_view`)).toEqual([]);
    });

    it('once for each Idempotency-Key', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      const send = () =>
        project.call('POST', `${tablePath(name)}/index`, {
          body: { columns: ['a'] },
          headers: { 'idempotency-key': 'index' },
        });
      const first = await send();
      const repeat = await send();
      expect([first.status, repeat.status, repeat.text]).toEqual([201, 201, first.text]);
      expect(repeat.headers.get('idempotency-replayed')).toBe('true');
      expect(await tables.indexes(name)).toHaveLength(2);
    });
  });

  describe('refuses', () => {
    it.each<[string, unknown, number, string]>([
      ['an empty object', {}, 400, 'invalid_request'],
      ['no columns', { columns: [] }, 400, 'invalid_request'],
      ['a column twice', { columns: ['a', 'a'] }, 400, 'invalid_request'],
      ['33 columns', { columns: Array.from({ length: 33 }, (_, i) => `c${i}`) }, 400, 'invalid_request'],
      ['a column that is a number', { columns: [1] }, 400, 'invalid_request'],
      ['an expression', { columns: ['lower(a)'] }, 400, 'unknown_column'],
      ['a system column', { columns: ['ctid'] }, 400, 'unknown_column'],
      ['unique that is a text', { columns: ['a'], unique: 'yes' }, 400, 'invalid_request'],
      ['an unknown field', { columns: ['a'], method: 'gin' }, 400, 'invalid_request'],
      ['a name that is null', { columns: ['a'], name: null }, 400, 'invalid_request'],
      ['an empty name', { columns: ['a'], name: '' }, 400, 'invalid_name'],
      ['SQL as its name', { columns: ['a'], name: 'x" ON y; --' }, 400, 'invalid_name'],
      ['a name of the service', { columns: ['a'], name: '_cdp_x' }, 400, 'reserved_name'],
    ])('%s', async (_title, body, status, code) => {
      const name = await tables.fresh({ a: 'TEXT' });
      await expectRefused(project, ['POST', `${tablePath(name)}/index`, body], status, code);
      await tables.drop(name);
    });

    it('columns that do not exist, and suggests a name for each', async () => {
      const name = await tables.fresh({ email: 'TEXT' });
      const body = { columns: ['emial', 'email', 'phone'] };
      const error = await expectRefused(project, ['POST', `${tablePath(name)}/index`, body], 400, 'unknown_column');
      expect(error.errors).toEqual([
        {
          column: 'emial',
          error: 'unknown_column',
          message: `Table "${name}" has no column "emial". Did you mean "email"?`,
          hint: 'Did you mean "email"?',
        },
        { column: 'phone', error: 'unknown_column', message: `Table "${name}" has no column "phone"` },
      ]);
    });

    it('a name that is taken, also in another case', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      for (const taken of [name, name.toUpperCase(), `${name}_pkey`]) {
        const body = { columns: ['a'], name: taken };
        await expectRefused(project, ['POST', `${tablePath(name)}/index`, body], 409, 'table_exists');
      }
    });

    it('a unique index if values are duplicated, with their number and without the values', async () => {
      const name = await tables.fresh({ email: 'TEXT', Age: 'INTEGER' });
      await tables.insert(name, [
        ...Array.from({ length: 3 }, () => ({ email: 'secret', Age: 1 })),
        ...Array.from({ length: 2 }, () => ({ email: 'hidden', Age: 1 })),
        { email: 'once', Age: 1 },
        { Age: 1 },
        { Age: 1 },
      ]);
      const both = await expectRefused(
        project,
        ['POST', `${tablePath(name)}/index`, { columns: ['email', 'Age'], unique: true }],
        409,
        'unique_violation',
      );
      expect(both.message).toBe(
        `"email", "Age" cannot be unique in "${name}": 2 values occur more than once, up to 3 times`,
      );
      expect(JSON.stringify(both)).not.toMatch(/secret|hidden/);
      const found = await project.rows((both.hint ?? '').replace('Find them with SQL: ', ''));
      expect(found.map(({ email, count }) => [email, count]).sort()).toEqual([
        ['hidden', 2],
        ['secret', 3],
      ]);
    });

    it('values too large for an index, and types without an order', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      await project.rows(`ALTER TABLE ${name} ADD COLUMN p point;
        INSERT INTO ${name} (a) SELECT string_agg(gen_random_uuid()::text, '') FROM generate_series(1, 1000)`);
      await expectRefused(project, ['POST', `${tablePath(name)}/index`, { columns: ['a'] }], 400, 'row_too_large');
      await expectRefused(project, ['POST', `${tablePath(name)}/index`, { columns: ['p'] }], 400, 'sql_error');
    });

    it('to drop the primary key, what a foreign key needs, and an index that does not exist', async () => {
      const name = await tables.fresh({ email: 'TEXT' });
      await expectRefused(project, ['DELETE', indexPath(name, `${name}_pkey`)], 400, 'reserved_name');
      await tables.createIndex(name, { columns: ['email'], unique: true });
      const index = `${name}_email_idx`;
      await project.rows(`CREATE TABLE ${name}_mails (email text REFERENCES ${name} (email))`);
      await expectRefused(project, ['DELETE', indexPath(name, index)], 409, 'dependent_objects');
      const error = await expectRefused(
        project,
        ['DELETE', indexPath(name, `${name}_emial_idx`)],
        404,
        'index_not_found',
      );
      expect(error.hint).toBe(`Did you mean "${index}"?`);
      const other = await tables.fresh({ a: 'TEXT' });
      for (const missing of [index, name, `x"; DROP TABLE ${name}; --`, '\u0000']) {
        await expectRefused(project, ['DELETE', indexPath(other, missing)], 404, 'index_not_found');
      }
    });

    it('a table that does not exist, and a view', async () => {
      await project.rows('CREATE OR REPLACE VIEW a_view AS SELECT 1 AS a');
      for (const table of ['nowhere', '%00', 'a"b']) {
        await expectRefused(project, ['POST', `${tablePath(table)}/index`, { columns: ['a'] }], 404, 'table_not_found');
        await expectRefused(project, ['GET', `${tablePath(table)}/index`], 404, 'table_not_found');
        await expectRefused(project, ['DELETE', indexPath(table, 'x')], 404, 'table_not_found');
      }
      await expectRefused(
        project,
        ['POST', `${tablePath('a_view')}/index`, { columns: ['a'] }],
        404,
        'table_not_found',
      );
    });
  });

  describe('protects', () => {
    it('the tables of another project', async () => {
      const [one, two] = [await service.project(), await service.project()];
      for (const by of [one, two]) await by.table('orders', { a: 'TEXT' });
      const before = await snapshot(two);
      expect((await new Tables(one).createIndex('orders', { columns: ['a'], unique: true })).status).toBe(201);
      expect(await snapshot(two)).toEqual(before);
      expectFailure(await new Tables(two).dropIndex('orders', 'orders_a_idx'), 404, 'index_not_found');
      expect(await new Tables(one).indexes('orders')).toHaveLength(2);
    });

    it('the caller from waiting, and readers from a waiting change', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      await inDatabase(service, project, async (client) => {
        await client.query('BEGIN');
        await client.query(`INSERT INTO data.${name} (a) VALUES ('x')`);
        expectFailure(await tables.createIndex(name, { columns: ['a'] }), 503, 'table_busy');
        expect(await tables.indexes(name)).toEqual([primaryOf(name)]);
        await client.query('ROLLBACK; BEGIN');
        await client.query(`SELECT FROM data.${name}`);
        expect((await tables.createIndex(name, { columns: ['a'] })).status).toBe(201);
        expectFailure(await tables.dropIndex(name, `${name}_a_idx`), 503, 'table_busy');
        await client.query('ROLLBACK');
      });
      expect(await tables.indexes(name)).toHaveLength(2);
    });

    it('a name that another transaction takes at the same time', async () => {
      const [name, other] = [await tables.fresh({ a: 'TEXT' }), await tables.fresh({ a: 'TEXT' })];
      await inDatabase(service, project, async (client) => {
        await client.query('BEGIN');
        await client.query(`CREATE INDEX ${name}_both ON data.${other} (a)`);
        const creating = tables.createIndex(name, { columns: ['a'], name: `${name}_both` });
        const waiting = `SELECT FROM pg_stat_activity, pg_stat_clear_snapshot()
          WHERE datname = current_database() AND wait_event_type = 'Lock'`;
        let over = false;
        void creating.then(() => (over = true));
        await expect
          .poll(async () => over || (await client.query(waiting)).rowCount === 1, { timeout: 20_000 })
          .toBe(true);
        await client.query('COMMIT');
        // Busy, if this transaction took its time.
        expect(['table_exists', 'table_busy']).toContain((await creating).body.error);
      });
    });

    it('each index if many are created at once', async () => {
      const name = await tables.fresh({ a: 'TEXT' });
      const responses = await Promise.all(
        Array.from({ length: 6 }, () => tables.createIndex(name, { columns: ['a'] })),
      );
      const names = responses.map(({ status, body }) => {
        expect(status).toBe(201);
        return (body.index as { name: string }).name;
      });
      expect(new Set(names).size).toBe(6);
    });

    it('itself from operators that a project defines', async () => {
      const other = await service.project();
      await other.table('t', { a: 'TEXT' });
      await other.rows(`INSERT INTO t (a) VALUES ('x'), ('x');
        CREATE FUNCTION trap(xid, xid) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$;
        CREATE OPERATOR = (LEFTARG = xid, RIGHTARG = xid, FUNCTION = trap);
        CREATE FUNCTION count() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap'; END $$`);
      const theirs = new Tables(other);
      expect((await theirs.createIndex('t', { columns: ['a'] })).status).toBe(201);
      expectFailure(await theirs.createIndex('t', { columns: ['a'], unique: true }), 409, 'unique_violation');
      expect((await theirs.dropIndex('t', 't_a_idx')).status).toBe(200);
    });
  });
});
