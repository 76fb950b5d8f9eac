/**
 * Backups of a project on Citus: its tables are distributed again on another cluster, and become ordinary tables
 * elsewhere.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { backup } from '../../src/backup/backup.js';
import { restore } from '../../src/backup/restore.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { type AddedServer, startAddedServer } from '../support/added-server.js';
import { type CitusCluster, citusProject, citusServer, hasCitus, startCitus } from '../support/citus-cluster.js';
import { makeFolder } from '../support/folder.js';
import { connected } from '../support/postgres.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { distributionOf, expectIntact, spread } from '../support/spread-project.js';

const folder = makeFolder('cdp-citus-backup-');
const shared = {
  programSearch: { folder: null, path: process.env.PATH ?? '' },
  signal: new AbortController().signal,
  progress: () => {},
};

describe.runIf(hasCitus())('a project on Citus', () => {
  let cluster: CitusCluster;
  let other: AddedServer;
  let service: TestService;
  let project: TestProject;

  beforeAll(async () => {
    [cluster, other] = [await startCitus(), await startAddedServer(15)];
    // Its client programs are there with the server of the cluster's version.
    service = await startTestService({}, { major: 15, connection: other.connection });
    project = await citusProject(service, cluster);
    await spread(project);
  });
  afterAll(async () => {
    await service?.close();
    await Promise.all([cluster?.close(), other?.close()]);
    rmSync(folder, { recursive: true, force: true });
  });

  const save = (name: string) =>
    backup(service.engine.backupServices(BY_ITSELF), {
      ...shared,
      file: join(folder, name),
      projectName: project.name,
      form: null,
      jobs: 1,
    });

  const load = (name: string, as: string, server: string) =>
    restore(service.engine.backupServices(BY_ITSELF), {
      ...shared,
      file: join(folder, name),
      projectName: project.name,
      as,
      at: null,
      missing: false,
      placementRequest: { server },
    });

  it('is restored with distributed tables on another cluster, complete although clients wrote to it during the backup', async () => {
    const before = await distributionOf(project);
    expect(before).toMatchObject({ customers: { others: ['orders'] }, countries: { kind: 'reference' } });
    let isSaving = true;
    const write = async () => {
      let n = 0;
      for (; isSaving; n++) {
        const sql = `INSERT INTO orders (customer, country, n) SELECT id, 'fr', 0 FROM customers`;
        await project.rows(sql);
      }
      return n;
    };
    const writing = write();
    await save('busy.cdp').finally(() => (isSaving = false));
    expect(await writing).toBeGreaterThan(0);
    await project.rows('DELETE FROM orders WHERE n = 0');
    await save('all.cdp');
    const there = await citusServer(service, cluster);
    await load('busy.cdp', 'busy', there);
    await service.engine.projects.delete('busy', BY_ITSELF);
    const { projects } = await load('all.cdp', 'copied', there);
    expect(projects).toMatchObject([{ name: 'copied', left_out: [] }]);
    const copied = await service.found('copied');
    expect(await distributionOf(copied)).toEqual(before);
    await expectIntact(copied);
  });

  it('contains what was committed while a worker missed the second phase of the commit', async () => {
    await project.table('missed', { n: 'INTEGER' });
    const body = { kind: 'hash', column: 'id' };
    expect((await project.call('PUT', '/api/cdp/schema/table/missed/distribution', { body })).status).toBe(200);
    await project.rows('INSERT INTO missed (n) SELECT 0 FROM generate_series(1, 20)');
    const { database } = (await service.engine.projects.get(project.name)).placement;
    const [worker] = cluster.workers;
    const gid = 'citus_0_1_1_1';
    await connected(cluster.coordinator.connection, async (client) => {
      await client.query('ALTER SYSTEM SET citus.recover_2pc_interval = -1');
      await client.query('SELECT pg_reload_conf()');
    });
    // As Citus leaves it if a worker dies between the two phases.
    const updated = await connected({ ...worker.connection, database }, async (client) => {
      await client.query('SET citus.enable_manual_changes_to_shards = on; SET citus.override_table_visibility = off');
      const shards = `SELECT relname FROM pg_class WHERE relname LIKE 'missed\\_%' AND relkind = 'r' LIMIT 1`;
      const [[shard]] = (await client.query({ text: shards, rowMode: 'array' })).rows as [[string]];
      await client.query('BEGIN');
      const { rowCount } = await client.query(`UPDATE data.${shard} SET n = 1`);
      await client.query(`PREPARE TRANSACTION '${gid}'`);
      return rowCount;
    });
    await connected({ ...cluster.coordinator.connection, database }, (client) =>
      client.query(
        `INSERT INTO pg_dist_transaction (groupid, gid) SELECT groupid, $1 FROM pg_dist_node WHERE nodeport = $2`,
        [gid, worker.tcpPort],
      ),
    );
    const count = 'SELECT count(*)::int AS n FROM missed WHERE n = 1';
    expect(await project.rows(count)).toEqual([{ n: 0 }]);
    await save('missed.cdp');
    await load('missed.cdp', 'missed', await citusServer(service, cluster));
    expect(await (await service.found('missed')).rows(count)).toEqual([{ n: updated }]);
    await project.rows('DROP TABLE missed');
  });

  it('is restored with ordinary tables on a server without Citus, and the command says so', async () => {
    const { projects } = await load('all.cdp', 'ordinary', 'default');
    expect(projects[0]?.left_out).toEqual([
      'how tables are distributed, because this server is not a Citus cluster: customers, orders, countries',
    ]);
    await expectIntact(await service.found('ordinary'));
  });
});
