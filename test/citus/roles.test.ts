/** Roles that a project on Citus makes: what they may do holds on the workers, too. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AddedServer, startAddedServer } from '../support/added-server.js';
import { type CitusCluster, citusProject, hasCitus, startCitus } from '../support/citus-cluster.js';
import { call, startTestService, type TestProject, type TestService } from '../support/service.js';
import { spread } from '../support/spread-project.js';

describe.runIf(hasCitus())('a role on Citus', () => {
  let cluster: CitusCluster;
  let other: AddedServer;
  let service: TestService;
  let project: TestProject;
  let intern: string;
  beforeAll(async () => {
    [cluster, other] = [await startCitus(), await startAddedServer(15)];
    service = await startTestService({}, { major: 15, connection: other.connection });
    project = await citusProject(service, cluster);
    await spread(project);
    const { body } = await project.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } });
    intern = (body['role'] as { postgres_name: string }).postgres_name;
  });
  afterAll(async () => {
    await service?.close();
    await Promise.all([cluster?.close(), other?.close()]);
  });

  const as = async (token: string, sql: string) =>
    (await call(service.url, 'POST', '/api/cdp/sql', { token, body: { sql } })).status;

  it('reads the columns of a distributed table that were granted, and no others', async () => {
    const [column] = await project.rows(
      `SELECT attname FROM pg_attribute WHERE attrelid = 'customers'::regclass AND attnum > 0 AND attname <> 'id' ORDER BY attnum LIMIT 1`,
    );
    const name = String(column?.['attname']);
    const token = await project.tokenAs('intern', 'sql:read');
    expect(await as(token, 'SELECT count(id) FROM customers')).toBe(403);
    await project.rows(`GRANT SELECT (id) ON customers TO ${intern}`);
    expect(await as(token, 'SELECT count(id) FROM customers')).toBe(200);
    expect(await as(token, `SELECT count(${name}) FROM customers`)).toBe(403);
    await project.rows(`REVOKE SELECT (id) ON customers FROM ${intern}`);
    expect(await as(token, 'SELECT count(id) FROM customers')).toBe(403);
  });

  it('sees the rows of a distributed table that policies allow', async () => {
    await project.rows(`GRANT SELECT ON customers TO ${intern}; ALTER TABLE customers ENABLE ROW LEVEL SECURITY`);
    const token = await project.tokenAs('intern', 'sql:read');
    const rows = async () => {
      const response = await call(service.url, 'POST', '/api/cdp/sql', {
        token,
        body: { sql: 'SELECT count(*)::int AS n FROM customers' },
      });
      return [
        response.status,
        (response.body['rows'] as { n: number }[] | undefined)?.[0]?.n,
        response.body['message'],
      ];
    };
    expect(await rows()).toEqual([200, 0, undefined]);
    await project.rows(`CREATE POLICY all_rows ON customers FOR SELECT TO ${intern} USING (true)`);
    const [all] = await project.rows('SELECT count(*)::int AS n FROM customers');
    expect(await rows()).toEqual([200, all?.['n'], undefined]);
  });

  it('is dropped everywhere', async () => {
    expect(await project.call('DELETE', '/api/cdp/schema/role/intern')).toMatchObject({ status: 200 });
  });
});
