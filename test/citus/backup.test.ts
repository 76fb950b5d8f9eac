/**
 * A backup of a project on Citus: its tables are distributed again on another cluster, and are ordinary ones elsewhere.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { backup } from '../../src/backup/backup.js';
import { restore } from '../../src/backup/restore.js';
import { BY_ITSELF } from '../../src/engine/audit/audit.js';
import { type AddedServer, startAddedServer } from '../support/added-server.js';
import { type CitusCluster, citusProject, citusServer, hasCitus, startCitus } from '../support/citus-cluster.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { distributionOf, isWhole, spread } from '../support/spread-project.js';

const folder = mkdtempSync('/tmp/cdp-citus-backup-');
const shared = {
  places: { folder: null, path: process.env.PATH ?? '' },
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
    backup(service.engine.installation(BY_ITSELF), {
      ...shared,
      file: join(folder, name),
      project: project.name,
      form: null,
      jobs: 1,
      version: '0.0.0',
    });

  const load = (name: string, as: string, server: string) =>
    restore(service.engine.installation(BY_ITSELF), {
      ...shared,
      file: join(folder, name),
      project: project.name,
      as,
      at: null,
      missing: false,
      place: { server },
    });

  it('comes back distributed on another cluster, whole though it was written to while it was saved', async () => {
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
    await service.engine.deleteProject('busy');
    const { projects } = await load('all.cdp', 'copied', there);
    expect(projects).toMatchObject([{ name: 'copied', left_out: [] }]);
    const copied = await service.found('copied');
    expect(await distributionOf(copied)).toEqual(before);
    await isWhole(copied);
  });

  it('comes back with ordinary tables on a server that is no cluster, which is said', async () => {
    const { projects } = await load('all.cdp', 'ordinary', 'default');
    expect(projects[0]?.left_out).toEqual([
      'how tables are distributed, as this server is no Citus cluster: customers, orders, countries',
    ]);
    await isWhole(await service.found('ordinary'));
  });
});
