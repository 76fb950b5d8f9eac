/** Renaming and commenting a table over HTTP. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADVISORY_LOCKS } from '../../../src/tenancy/locks.js';
import { embeddedServer } from '../../support/postgres.js';
import { expectRefused, snapshot } from '../../support/schema.js';
import { expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';
import { freshName, inDatabase, tablePath, Tables } from '../../support/tables.js';

describe.each([embeddedServer()])('a change of a table on Postgres $major', (server) => {
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

  it('works for the name: records, columns, comment and views keep working, and inserts follow at once', async () => {
    const name = await tables.fresh({ a: 'TEXT' });
    const renamed = freshName();
    await tables.alterTable(name, { comment: 'kept' });
    expect((await insert(name, [{ a: 'x' }])).status).toBe(201);
    await project.rows(`CREATE VIEW ${name}_view AS SELECT a FROM ${name}`);
    const response = await tables.alterTable(name, { new_name: renamed });
    expect([response.status, response.body]).toEqual([
      200,
      { success: true, message: 'table altered', table: renamed, comment: 'kept' },
    ]);
    expectFailure(await insert(name, [{ a: 'y' }]), 404, 'table_not_found');
    expect((await insert(renamed, [{ a: 'y' }])).status).toBe(201);
    expect(await project.rows(`SELECT a FROM ${name}_view ORDER BY a`)).toEqual([{ a: 'x' }, { a: 'y' }]);
    // Another table takes the name: what is remembered of the first does not serve it.
    await project.table(name, { a: 'INTEGER' });
    expectFailure(await insert(name, [{ a: 'z' }]), 400, 'invalid_value');
    expect((await insert(name, [{ a: 1 }])).status).toBe(201);
  });

  it('works for a comment, set and removed, and for the case of the name', async () => {
    const name = await tables.fresh({ a: 'TEXT' });
    const comment = `it's \\ "odd" 🎉`;
    expect((await tables.alterTable(name, { comment })).body).toMatchObject({ table: name, comment });
    expect(await tables.read(name)).toMatchObject({ comment });
    const upper = name.toUpperCase();
    expect((await tables.alterTable(name, { new_name: upper, comment: '' })).body).toMatchObject({ comment: null });
    expect(await tables.read(upper)).toMatchObject({ name: upper, comment: null });
    expect((await tables.alterTable(upper, { new_name: upper })).status).toBe(200);
  });

  it('works once for each Idempotency-Key, although its path no longer exists', async () => {
    const name = await tables.fresh({ a: 'TEXT' });
    const call = { body: { new_name: freshName() }, headers: { 'idempotency-key': name } };
    const first = await project.call('PUT', tablePath(name), call);
    const repeat = await project.call('PUT', tablePath(name), call);
    expect([first.status, repeat.text, repeat.headers.get('idempotency-replayed')]).toEqual([200, first.text, 'true']);
  });

  it.each<[string, unknown, string]>([
    ['an empty object', {}, 'invalid_request'],
    ['a name that is null', { new_name: null }, 'invalid_request'],
    ['an unknown field', { new_name: 'x', schema: 'public' }, 'invalid_request'],
    ['a comment of 2,001 characters', { comment: 'x'.repeat(2_001) }, 'invalid_request'],
    ['U+0000 in the comment', { comment: 'a\u0000' }, 'invalid_request'],
    ['an empty name', { new_name: '' }, 'invalid_name'],
    ['SQL as the name', { new_name: 'x"; DROP TABLE y; --' }, 'invalid_name'],
    ['a name of the service', { new_name: '_cdp_x' }, 'reserved_name'],
  ])('refuses %s', async (_title, body, code) => {
    const name = await tables.fresh({ a: 'TEXT' });
    await expectRefused(project, ['PUT', tablePath(name), body], 400, code);
    await tables.drop(name);
  });

  it('refuses a name that is taken in any case, a table that does not exist, and a view', async () => {
    const [name, other] = [await tables.fresh({ a: 'TEXT' }), await tables.fresh({ a: 'TEXT' })];
    await project.rows(`CREATE VIEW ${name}_view AS SELECT 1 AS one`);
    for (const taken of [other, other.toUpperCase(), `${name}_view`, `${name}_pkey`]) {
      const error = await expectRefused(
        project,
        ['PUT', tablePath(name), { new_name: taken, comment: 'x' }],
        409,
        'table_exists',
      );
      expect(error.message).toContain(taken);
    }
    for (const missing of ['nowhere', 'a"b', '%00', `${name}_view`]) {
      await expectRefused(project, ['PUT', tablePath(missing), { comment: 'x' }], 404, 'table_not_found');
    }
  });

  it('protects names: no table takes one that is being taken', async () => {
    const name = await tables.fresh({ a: 'TEXT' });
    await inDatabase(service, project, async (client) => {
      await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.newTable]);
      expectFailure(await tables.alterTable(name, { new_name: 'Race' }), 503, 'table_busy');
      expect((await tables.alterTable(name, { comment: 'x' })).status).toBe(200);
    });
    expect((await tables.alterTable(name, { new_name: 'Race' })).status).toBe(200);
  });

  it('protects the caller from waiting, and the tables of another project', async () => {
    const [one, two] = [await service.project(), await service.project()];
    for (const by of [one, two]) await by.table('orders', { a: 'TEXT' });
    const before = await snapshot(two);
    await inDatabase(service, one, async (client) => {
      await client.query('BEGIN; SELECT FROM data.orders');
      expectFailure(await new Tables(one).alterTable('orders', { new_name: 'sales' }), 503, 'table_busy');
      await client.query('ROLLBACK');
    });
    expect((await new Tables(one).alterTable('orders', { new_name: 'sales', comment: 'x' })).status).toBe(200);
    expect(await snapshot(two)).toEqual(before);
  });
});
