/** `repair` of the admin API restores what a project, or a backup restored halfway, has broken. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Placement } from '../../../src/tenancy/placement.js';
import { testServers } from '../../support/postgres.js';
import {
  expectFailure,
  inProject,
  startOwnService,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

const TENANCIES = [
  { where: 'a server of its own', start: () => startOwnService() },
  ...testServers().map((server) => ({
    where: `a shared Postgres ${server.major}`,
    start: () => startTestService({}, server),
  })),
];

describe.each(TENANCIES)('on $where', ({ start }) => {
  let service: TestService;
  let admin: string;
  beforeAll(async () => {
    service = await start();
    admin = (await service.engine.tokens.create(null)).token;
  });
  afterAll(() => service.close());

  const repair = (name: string, query = '') =>
    service.call('POST', `/api/cdp/admin/projects/${name}/repair${query}`, { token: admin });

  const insert = (project: TestProject) =>
    project.call('POST', '/api/cdp/data/customers', { body: [{ email: 'a@example.com' }] });

  async function newProject(): Promise<{ project: TestProject; placement: Placement }> {
    const project = await service.project();
    await project.table('customers', { email: 'TEXT' });
    return { project, placement: (await service.engine.projects.get(project.name)).placement };
  }

  /** Rows, rights and pools: everything of the project works. */
  async function expectWhole(project: TestProject, rows: number): Promise<void> {
    expect((await insert(project)).text).toContain('"inserted_rows":1');
    expect(await project.rows('SELECT count(*) AS n FROM customers')).toEqual([{ n: rows + 1 }]);
    const reader = await project.tokenWith('sql:read');
    const read = await project.call('POST', '/api/cdp/sql', {
      token: reader,
      body: { sql: 'SELECT * FROM customers' },
    });
    expect(read).toMatchObject({ status: 200, body: { row_count: rows + 1 } });
    await project.table('orders', { total: 'FLOAT' });
    const seen = await project.call('POST', '/api/cdp/sql', { token: reader, body: { sql: 'SELECT * FROM orders' } });
    expect(seen).toMatchObject({ status: 200 });
  }

  it('finds nothing wrong with an intact project, and changes nothing', async () => {
    const { project } = await newProject();
    await insert(project);
    await project.rows('CREATE TYPE floats AS RANGE (subtype = float8)');
    expect(await repair(project.name)).toMatchObject({
      status: 200,
      body: {
        success: true,
        message: 'project repaired',
        project: { id: project.id, name: project.name },
        repaired: [],
      },
    });
    await expectWhole(project, 1);
  });

  it.each<[string, (placement: Placement) => string[], RegExp]>([
    [
      'a role that may not log in any more',
      ({ writer }) => [`ALTER ROLE ${writer} NOLOGIN`],
      /^its roles may not log in$/,
    ],
    [
      'roles that a restored server does not have',
      ({ database, writer, reader }) => [
        `REASSIGN OWNED BY ${writer} TO CURRENT_USER`,
        `DROP OWNED BY ${writer}`,
        `DROP OWNED BY ${reader}`,
        `REVOKE ALL ON DATABASE ${database} FROM ${writer}`,
        `DROP ROLE ${writer}, ${reader}`,
      ],
      /^the role w\w+ was missing,the role r\w+ was missing,1 tables and other objects in its schemas had another owner,its roles lack privileges,it may not create schemas, although its setting allows that$/,
    ],
    [
      'a schema of another owner',
      ({ schema, writer }) => [`ALTER SCHEMA ${schema} OWNER TO ${writer}`],
      /^the schema data belonged to w\w+,its roles lack privileges$/,
    ],
    [
      'a setting of a role that may lose data, and rights that were taken away',
      ({ schema, writer, reader }) => [
        `ALTER ROLE ${writer} SET synchronous_commit = off`,
        `REVOKE ALL ON SCHEMA ${schema} FROM ${writer}, ${reader}`,
      ],
      /^its roles have their own synchronous_commit,its roles lack privileges$/,
    ],
  ])('repairs %s', async (_what, spoil, repaired) => {
    const { project, placement } = await newProject();
    await insert(project);
    await inProject(service, placement, async (client) => {
      for (const text of spoil(placement)) await client.query(text);
    });
    const response = await repair(project.name);
    expect(response.status).toBe(200);
    expect((response.body.repaired as string[]).join(',')).toMatch(repaired);
    // What the writer had granted to the reader went with the roles.
    expect((await repair(project.name, '?reader_reads_all=true')).status).toBe(200);
    await expectWhole(project, 1);
    expect((await repair(project.name)).body.repaired).toEqual([]);
  });

  it('gives back what the project took from itself by SQL only if it is asked to', async () => {
    const { project } = await newProject();
    await project.rows('REVOKE ALL ON customers FROM CURRENT_USER');
    expectFailure(await insert(project), 403, 'permission_denied');
    expect(await repair(project.name)).toMatchObject({ status: 200, body: { repaired: [] } });
    expectFailure(await insert(project), 403, 'permission_denied');
    expect(await repair(project.name, '?writer_writes_all=true')).toMatchObject({ status: 200 });
    await expectWhole(project, 0);
  });

  it('refuses a project that does not exist', async () => {
    expectFailure(await repair('nobody'), 404, 'not_found');
  });
});
