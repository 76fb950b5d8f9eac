/**
 * The five basic operations (contract C1.1) on a Citus cluster: with tables on the coordinator, distributed by id and
 * by a column, and on every node.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CitusCluster, citusProject, hasCitus, startCitus } from '../support/citus-cluster.js';
import {
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../support/service.js';

const COLUMNS = { email: 'TEXT', n: 'INTEGER', f: 'FLOAT', b: 'BOOLEAN', at: 'TIMESTAMP', j: 'JSONB' };

/** How a table is distributed before it is used. */
const DISTRIBUTIONS = {
  'on the coordinator': { kind: 'local' },
  'distributed by id': { kind: 'hash', column: 'id' },
  'distributed by a column': { kind: 'hash', column: 'email' },
  'on every node': { kind: 'reference' },
} as const;

const records = (count: number, from = 0) =>
  Array.from({ length: count }, (_, i) => ({ email: `e${from + i}`, n: from + i }));

describe.runIf(hasCitus())('on a Citus cluster', () => {
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

  describe.each(Object.entries(DISTRIBUTIONS))('a table %s', (_name, distribution) => {
    let counter = 0;
    const by = 'column' in distribution ? distribution.column : null;

    const fresh = async (): Promise<string> => {
      const table = `t_${distribution.kind}_${by ?? ''}_${++counter}`;
      await project.table(table, COLUMNS);
      const url = `/api/cdp/schema/table/${table}/distribution`;
      expect((await project.call('PUT', url, { body: distribution })).status).toBe(200);
      return table;
    };
    const insert = (table: string, body: unknown, query = '', headers = {}): Promise<TestResponse> =>
      project.call('POST', `/api/cdp/data/${table}${query}`, { body, headers });
    const count = async (table: string): Promise<number> =>
      Number((await project.rows(`SELECT count(*) AS n FROM ${table}`))[0]?.n);

    it('stores batches of all types completely, and once for each key', async () => {
      const table = await fresh();
      const all = { email: 'a', n: 1, f: 0.5, b: true, at: '2024-02-29T12:00:00Z', j: { a: [1] } };
      expect((await insert(table, [all, { email: 'b' }])).body).toMatchObject({ success: true, inserted_rows: 2 });
      const [row] = await project.rows(`SELECT email, n, f, b, at, j FROM ${table} WHERE n = 1`);
      expect(row).toMatchObject({ email: 'a', n: 1, f: 0.5, b: true, j: { a: [1] } });
      const headers = { 'idempotency-key': `key ${table}` };
      for (const replayed of [null, 'true']) {
        const response = await insert(table, records(250), '', headers);
        expect([response.status, response.headers.get('idempotency-replayed')]).toEqual([201, replayed]);
      }
      expect(await count(table)).toBe(252);
    });

    it('returns ids in the order of the records', async () => {
      const table = await fresh();
      const { body } = await insert(table, records(250), '?return=ids');
      const rows = await project.rows(`SELECT id FROM ${table} ORDER BY n`);
      expect(body.ids).toEqual(rows.map(({ id }) => id));
    });

    it('names what is wrong with a record, and stores nothing of the batch', async () => {
      const table = await fresh();
      await project.rows(`ALTER TABLE ${table} ADD CONSTRAINT small CHECK (n < 1000)`);
      await project.call('PUT', `/api/cdp/schema/table/${table}/column/email`, { body: { not_null: true } });
      const [id] = (await insert(table, records(1), '?return=ids')).body.ids as string[];
      const wrong = expectFailure(await insert(table, [{ email: 'x', n: 'no' }]), 400, 'invalid_value');
      expect(wrong.errors).toMatchObject([{ record: 0, column: 'n' }]);

      const twice = expectFailure(await insert(table, [{ email: 'x' }, { id, email: 'e0' }]), 409, 'unique_violation');
      expect(twice.errors).toMatchObject([{ record: 1 }]);
      const postgres = { sqlstate: '23505', table, constraint: `${table}_pkey` };
      expect(twice.postgres).toMatchObject(postgres);
      expect(twice.message).toContain(`violates unique constraint "${table}_pkey"`);

      const large = expectFailure(await insert(table, [{ email: 'x', n: 1000 }]), 400, 'constraint_violation');
      expect(large.postgres).toMatchObject({ sqlstate: '23514', table, constraint: 'small' });
      expect(large.message).not.toMatch(/_\d{5,}"/);
      if (by !== 'email') {
        const missing = expectFailure(await insert(table, [{ n: 1 }]), 400, 'constraint_violation');
        expect(missing.errors).toMatchObject([{ record: 0, column: 'email' }]);
        expect(missing.postgres).toMatchObject({ sqlstate: '23502', table });
      }
      expect(await count(table)).toBe(1);
    });

    it('keeps refused records in the quarantine, and stores the others', async () => {
      const table = await fresh();
      const [id] = (await insert(table, records(1), '?return=ids')).body.ids as string[];
      const batch = [{ email: 'x', n: 1 }, { id, email: 'e0' }, { email: 'y', n: 'no' }, { email: 'z' }];
      const { body } = await insert(table, batch, '?on_error=quarantine');
      expect(body).toMatchObject({ inserted_rows: 2, quarantined_rows: 2 });
      expect(body.errors).toMatchObject([
        { record: 1, error: 'unique_violation' },
        { record: 2, column: 'n', error: 'invalid_value' },
      ]);
      expect(await count(table)).toBe(3);
    });

    it('upserts and deletes by a key that includes the distribution column', async () => {
      const table = await fresh();
      const columns = by === 'id' ? ['id'] : ['email'];
      if (columns[0] === 'email') {
        const body = { columns, unique: true };
        expect((await project.call('POST', `/api/cdp/schema/table/${table}/index`, { body })).status).toBe(201);
      }
      const ids = (await insert(table, records(2), '?return=ids')).body.ids as string[];
      const one = { id: ids[0], email: 'e0', n: 100 };
      const given = columns[0] === 'id' ? one : { email: 'e0', n: 100 };
      const upsert = (query: string) =>
        insert(table, [given, { email: 'new', ...(columns[0] === 'id' ? { id: crypto.randomUUID() } : {}) }], query);
      expect((await upsert(`?on_conflict=${columns.join()}`)).body).toMatchObject({
        inserted_rows: 1,
        updated_rows: 1,
      });
      expect(await project.rows(`SELECT n FROM ${table} WHERE email = 'e0'`)).toEqual([{ n: 100 }]);
      const ignored = await insert(table, [given], `?on_conflict=${columns.join()}&resolution=ignore`);
      expect(ignored.body).toMatchObject({ inserted_rows: 0, ignored_rows: 1 });

      const keys = [columns[0] === 'id' ? { id: ids[0] } : { email: 'e0' }];
      const gone = await project.call('DELETE', `/api/cdp/data/${table}?by=${columns.join()}`, { body: keys });
      expect(gone.body).toMatchObject({ deleted_rows: 1 });
      expect(await count(table)).toBe(2);
    });

    it('changes columns and types: keeps every value or changes nothing', async () => {
      const table = await fresh();
      const column = (name: string, body: unknown) =>
        project.call('PUT', `/api/cdp/schema/table/${table}/column/${name}`, { body });
      await insert(table, records(10));
      const added = await project.call('POST', `/api/cdp/schema/table/${table}/column`, {
        body: { name: 'extra', type: 'TEXT', comment: 'more' },
      });
      expect(added.status).toBe(201);
      for (const new_type of ['TEXT', 'INTEGER', 'FLOAT', 'TEXT']) {
        expect((await column('n', { new_type })).status).toBe(200);
      }
      expect(await project.rows(`SELECT n FROM ${table} WHERE email = 'e7'`)).toEqual([{ n: '7' }]);
      await insert(table, [{ email: 'word', n: 'seven' }]);
      const kept = expectFailure(await column('n', { new_type: 'INTEGER' }), 409, 'not_convertible');
      expect(kept.message).toContain('1 value of "n"');
      expect((await column('n', { new_name: 'number', comment: 'how many' })).status).toBe(200);
      expect((await insert(table, [{ email: 'late', number: '8', extra: 'x' }])).status).toBe(201);
      const { body } = await project.call('GET', `/api/cdp/schema/table/${table}`);
      expect((body.table as { columns: unknown[] }).columns).toContainEqual({
        ...{ name: 'number', type: 'TEXT', comment: 'how many' },
      });
      expect((await project.call('DELETE', `/api/cdp/schema/table/${table}`)).status).toBe(200);
    });

    it('answers free SQL', async () => {
      const table = await fresh();
      await insert(table, records(100));
      const sql = `SELECT count(*) AS rows, sum(n) AS total, max(email) AS last FROM ${table} WHERE n >= $1`;
      expect(await project.rows(sql, [50])).toEqual([{ rows: 50, total: 3725, last: 'e99' }]);
      const double = { sql: `INSERT INTO ${table} SELECT * FROM ${table}` };
      const refused = expectFailure(
        await project.call('POST', '/api/cdp/sql', { body: double }),
        409,
        'unique_violation',
      );
      expect(refused.postgres).toMatchObject({ sqlstate: '23505', constraint: `${table}_pkey` });
      expect(await count(table)).toBe(100);
    });
  });
});
