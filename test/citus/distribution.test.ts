/** Distributing tables of a project on Citus, what can prevent it, and what the schema shows about it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CitusCluster, citusProject, hasCitus, startCitus } from '../support/citus-cluster.js';
import { expectRefused } from '../support/schema.js';
import {
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../support/service.js';

describe.runIf(hasCitus())('tables of a project on Citus', () => {
  let cluster: CitusCluster;
  let service: TestService;
  let project: TestProject;

  beforeAll(async () => {
    cluster = await startCitus();
    service = await startTestService();
    project = await citusProject(service, cluster);
  });
  afterAll(async () => {
    await service?.close();
    await cluster?.close();
  });

  const distribute = (table: string, body: unknown, query = ''): Promise<TestResponse> =>
    project.call('PUT', `/api/cdp/schema/table/${table}/distribution${query}`, { body });
  const shown = async (table: string) => {
    const { body } = await project.call('GET', `/api/cdp/schema/table/${table}`);
    return body.table as Record<string, unknown> & { distribution: Record<string, unknown> };
  };

  it('are distributed, redistributed by another column, copied and made local again, with their rows, comments and grants', async () => {
    await project.table('orders', { customer: 'TEXT', n: 'INTEGER' });
    const comment = { comment: 'what was bought' };
    await project.call('PUT', '/api/cdp/schema/table/orders', { body: comment });
    await project.call('PUT', '/api/cdp/schema/table/orders/column/n', { body: { comment: 'how many' } });
    const body = Array.from({ length: 250 }, (_, n) => ({ customer: `c${n}`, n }));
    await project.call('POST', '/api/cdp/data/orders', { body });
    expect((await shown('orders')).distribution).toEqual({
      ...{ kind: 'local', column: null, colocated_with: [], shards: 0, nodes: [], skew: null },
    });
    for (const [wish, key, shards] of [
      [{ kind: 'hash', column: 'id' }, ['id'], 4],
      [{ kind: 'hash', column: 'customer' }, ['id', 'customer'], 4],
      [{ kind: 'reference' }, ['id', 'customer'], 1],
      [{ kind: 'local' }, ['id', 'customer'], 0],
    ] as const) {
      const response = await distribute('orders', wish);
      expect(response.status, response.text).toBe(200);
      const column = 'column' in wish ? wish.column : null;
      expect(response.body).toMatchObject({ distribution: { kind: wish.kind, column }, primary_key: key });
      expect(await distribute('orders', wish)).toMatchObject({ status: 200 });
      const table = await shown('orders');
      expect(table.distribution).toMatchObject({ kind: wish.kind, column, shards });
      expect(table).toMatchObject(comment);
      expect(table.columns).toContainEqual({ name: 'n', type: 'INTEGER', comment: 'how many' });
      const reader = await project.tokenWith('sql:read');
      const sum = { body: { sql: 'SELECT count(*) AS n FROM orders' }, token: reader };
      expect((await project.call('POST', '/api/cdp/sql', sum)).body.rows).toEqual([{ n: 250 }]);
    }
  });

  it('are shown with their shards, bytes on each node, skew and colocated tables', async () => {
    const create = (table_name: string, distribution: unknown) =>
      project.call('POST', '/api/cdp/schema/table', {
        body: { table_name, columns: [{ name: 'customer', type: 'TEXT' }], distribution },
      });
    expect((await create('people', { kind: 'hash', column: 'customer' })).status).toBe(201);
    const near = { kind: 'hash', column: 'customer', colocate_with: 'people' };
    expect((await create('visits', near)).status).toBe(201);
    const body = Array.from({ length: 250 }, () => ({ customer: 'the same' }));
    for (let i = 0; i < 4; i++) await project.call('POST', '/api/cdp/data/people', { body });
    const { distribution, approximate_rows: rows } = await shown('people');
    expect(rows).toBeNull();
    expect(distribution).toMatchObject({ kind: 'hash', column: 'customer', colocated_with: ['visits'], shards: 4 });
    const nodes = distribution.nodes as { shards: number; bytes: number }[];
    expect(nodes.map(({ shards }) => shards)).toEqual([2, 2]);
    expect(Math.min(...nodes.map(({ bytes }) => bytes))).toBeGreaterThan(0);
    expect(distribution.skew).toBeGreaterThan(1.5);
    const { body: all } = await project.call('GET', '/api/cdp/schema');
    const kinds = (all.tables as { name: string; distribution?: { kind: string } }[]).map(
      ({ distribution }) => distribution?.kind,
    );
    expect(kinds).toContain('hash');
  });

  it('stay as they are if anything prevents the change, and the error names every reason', async () => {
    await project.table('lists', { code: 'TEXT' });
    await project.table('busy', { a: 'TEXT', code: 'TEXT', list: 'TEXT' });
    await project.rows(`
      CREATE UNIQUE INDEX ON lists (code);
      CREATE UNIQUE INDEX busy_code ON busy (code);
      ALTER TABLE busy ADD CONSTRAINT busy_list FOREIGN KEY (list) REFERENCES lists (code);
      CREATE TABLE of_busy (code text CONSTRAINT of_busy_code REFERENCES busy (code));
      CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
      CREATE TRIGGER touched BEFORE INSERT ON busy FOR EACH ROW EXECUTE FUNCTION touch();
      INSERT INTO busy (code) VALUES ('x')`);
    const wish = { kind: 'hash', column: 'a', colocate_with: 'lists' };
    for (const query of ['?dry_run=true', '']) {
      const path = `/api/cdp/schema/table/busy/distribution${query}`;
      const { errors = [] } = await expectRefused(project, ['PUT', path, wish], 409, 'citus_limit');
      expect(errors.map(({ message }) => message).sort()).toEqual(
        [
          'the trigger "touched"',
          'the foreign key "of_busy_code" of data.of_busy refers to it',
          'the foreign key "busy_list" refers to data.lists, which is local',
          'the unique index "busy_code" does not have the column',
          '"lists" is not distributed by a column',
          '1 row with NULL in the column',
        ].sort(),
      );
    }
    const url = '/api/cdp/schema/table/busy/distribution';
    await expectRefused(project, ['PUT', url, { kind: 'hash' }], 400, 'invalid_request');
    await expectRefused(project, ['PUT', url, { kind: 'reference', column: 'a' }], 400, 'invalid_request');
    await expectRefused(project, ['PUT', url, { kind: 'hash', column: 'none' }], 400, 'unknown_column');
    await expectRefused(project, ['PUT', url.replace('busy', 'none'), { kind: 'local' }], 404, 'table_not_found');
  });

  it('do not change in a dry run', async () => {
    await project.table('tried', { a: 'TEXT' });
    const { status, body } = await distribute('tried', { kind: 'hash', column: 'a' }, '?dry_run=true');
    expect([status, body.dry_run, body.primary_key]).toEqual([200, true, ['id', 'a']]);
    expect((await shown('tried')).distribution.kind).toBe('local');
  });

  it('refuse what Citus cannot do with them, with a code of its own', async () => {
    await project.table('spread', { a: 'TEXT' });
    await distribute('spread', { kind: 'hash', column: 'id' });
    const table = '/api/cdp/schema/table/spread';
    await expectRefused(project, ['POST', `${table}/index`, { columns: ['a'], unique: true }], 409, 'citus_limit');
    await expectRefused(project, ['PUT', `${table}/column/a`, { unique: true }], 409, 'citus_limit');
    await expectRefused(
      project,
      ['POST', `${table}/column`, { name: 'b', type: 'TEXT', unique: true }],
      409,
      'citus_limit',
    );
    const sql = { sql: 'CREATE TRIGGER t BEFORE INSERT ON spread FOR EACH ROW EXECUTE FUNCTION touch()' };
    expectFailure(await project.call('POST', '/api/cdp/sql', { body: sql }), 409, 'citus_limit');
    await project.table('by_a', { a: 'TEXT' });
    await distribute('by_a', { kind: 'hash', column: 'a' });
    const column = '/api/cdp/schema/table/by_a/column/a';
    await expectRefused(project, ['PUT', column, { new_type: 'INTEGER' }], 409, 'citus_limit');
    await expectRefused(project, ['DELETE', column], 409, 'citus_limit');
  });

  it('are local if the project is not on a cluster, and the schema does not mention distribution', async () => {
    const elsewhere = await service.project();
    await elsewhere.table('plain', { a: 'TEXT' });
    const url = '/api/cdp/schema/table/plain/distribution';
    const { message } = await expectRefused(
      elsewhere,
      ['PUT', url, { kind: 'hash', column: 'a' }],
      400,
      'invalid_request',
    );
    expect(message).toContain('not on a Citus cluster');
    expect((await elsewhere.call('PUT', url, { body: { kind: 'local' } })).status).toBe(200);
    const { body } = await elsewhere.call('GET', '/api/cdp/schema/table/plain');
    expect(Object.keys(body.table as object)).not.toContain('distribution');
  });
});
