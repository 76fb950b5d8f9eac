/**
 * The path of a project that has outgrown its server: an ordinary move to a Citus cluster, after which its tables are
 * distributed one by one.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { type CitusCluster, citusServer, hasCitus, startCitus } from '../support/citus-cluster.js';
import { eventually } from '../support/program.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { distributionOf, expectIntact, spread } from '../support/spread-project.js';

const ADMIN = '/api/cdp/admin';

describe.runIf(hasCitus())('a move to a Citus cluster', () => {
  let cluster: CitusCluster;
  let other: AddedServer;
  let service: TestService;
  let project: TestProject;
  let admin: string;

  beforeAll(async () => {
    [cluster, other] = [await startCitus(), await startAddedServer(15)];
    service = await startTestService();
    admin = (await service.engine.tokens.create(null)).token;
    const { host, port, user, password, database } = await cluster.database();
    const giant = `postgres://${user}:${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
    for (const [name, url, engine] of [
      ['eu-1', other.url, 'postgres'],
      ['giant', giant, 'citus'],
    ] as const) {
      const body = { name, url_reference: `env:${variableWith(url)}`, engine };
      const added = await service.call('POST', `${ADMIN}/servers`, { token: admin, body });
      expect(added.status, added.text).toBe(201);
    }
    project = await service.project('outgrown', 'eu-1');
  });
  afterAll(async () => {
    await service?.close();
    await Promise.all([cluster?.close(), other?.close()]);
  });

  const insert = (records: object[], key: string) =>
    project.call('POST', '/api/cdp/data/orders', { body: records, headers: { 'idempotency-key': key } });

  const move = async (to: string, more: object = {}) => {
    const path = `${ADMIN}/projects/outgrown/move`;
    const { body, status, text } = await service.call('POST', path, { token: admin, body: { to, ...more } });
    if (status !== 202) throw new Error(text);
    const { id } = body.move as { id: string };
    const seen = async () =>
      (await service.call('GET', `${ADMIN}/moves/${id}`, { token: admin })).body.move as Record<string, unknown>;
    await eventually('the move ends', async () => (await seen()).ended_at !== null);
    return seen();
  };

  it('brings everything along, and each table can then be distributed', async () => {
    await project.table('orders', { customer: 'TEXT', n: 'INTEGER' });
    await project.table('countries', { name: 'TEXT' });
    await project.rows(`CREATE VIEW large AS SELECT customer FROM orders WHERE n > 100`);
    const records = Array.from({ length: 200 }, (_, n) => ({ customer: `c${n % 20}`, n }));
    expect((await insert(records, 'first')).status).toBe(201);
    // It cannot be streamed to a cluster.
    const moved = await move('giant', { mode: 'stream', verify: 'full' });
    expect(moved).toMatchObject({ state: 'done', fallback: expect.stringContaining('Citus') as string });
    for (const [table, body] of [
      ['orders', { kind: 'hash', column: 'customer' }],
      ['countries', { kind: 'reference' }],
    ] as const) {
      const response = await project.call('PUT', `/api/cdp/schema/table/${table}/distribution`, { body });
      expect(response.status, response.text).toBe(200);
    }
    expect(await project.rows('SELECT count(*)::int AS n, sum(n)::int AS sum FROM orders')).toEqual([
      { n: 200, sum: 19_900 },
    ]);
    expect(await project.rows('SELECT count(*)::int AS n FROM large')).toEqual([{ n: 99 }]);
    const replayed = await insert(records, 'first');
    expect(replayed.headers.get('idempotency-replayed')).toBe('true');
    expect((await insert(records, 'second')).status).toBe(201);
  });

  it('distributes the tables again if it is from another cluster; a move away makes them ordinary tables', async () => {
    for (const table of ['orders', 'countries']) await project.rows(`DROP TABLE ${table} CASCADE`);
    await spread(project);
    const before = await distributionOf(project);
    const another = await citusServer(service, cluster);
    for (const to of [another, 'eu-1']) {
      expect(await move(to, { verify: 'full' })).toMatchObject({ state: 'done', to, reason: null });
      const moved = await project.seenAnew();
      const [found] = Object.values(await distributionOf(moved));
      if (to === another) expect(await distributionOf(moved)).toEqual(before);
      else expect(found).toBeNull();
      await expectIntact(moved);
    }
  });
});
