/**
 * Transactions that a session of the writer has prepared for two-phase commit, on a server whose operator allows them:
 * they are rolled back after a while, and do not prevent the deletion of a project.
 */
import { chmod, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { makeFolder } from '../support/folder.js';
import type { TestServer } from '../support/postgres.js';
import { onServer, startTestService, type TestProject, type TestService } from '../support/service.js';
import { startThrowaway, type ThrowawayServer } from '../support/throwaway-postgres.js';
import { login, withClient } from './connect.js';

let folder: string;
let throwaway: ThrowawayServer;
let asSuperuser: TestServer;

beforeAll(async () => {
  folder = makeFolder('cdp-test-');
  await chmod(folder, 0o711);
  throwaway = await startThrowaway(join(folder, 'd'), { settings: ['max_prepared_transactions=5'] });
  asSuperuser = { major: 18, connection: throwaway.connection };
  await onServer(asSuperuser, (client) => client.query("CREATE ROLE careful LOGIN CREATEDB CREATEROLE PASSWORD 'x'"));
});

afterAll(async () => {
  await throwaway?.stop('immediate');
  await rm(folder, { recursive: true, force: true });
});

const prepared = (): Promise<unknown[]> =>
  onServer(
    asSuperuser,
    async (client) => (await client.query<{ gid: string }>('SELECT gid FROM pg_prepared_xacts')).rows,
  );

/** Leaves one that holds a lock on a table. */
async function prepare(service: TestService, project: TestProject): Promise<void> {
  await project.table('locked', { n: 'INTEGER' });
  await withClient(login(service, project), async (client) => {
    await client.query('BEGIN; INSERT INTO locked (n) VALUES (1); LOCK TABLE locked');
    await client.query("PREPARE TRANSACTION 'it''s \\ mine'");
  });
  expect(await prepared()).toHaveLength(1);
}

describe.each([
  ['a superuser', {}],
  ['CREATEDB and CREATEROLE alone', { user: 'careful', password: 'x' }],
])('a service with %s rolls back', (_name, role) => {
  let service: TestService;
  const start = async (settings: Record<string, string>): Promise<TestProject> => {
    const server = { major: 18, connection: { ...throwaway.connection, ...role } };
    service = await startTestService({ 'pg-port': '0', ...settings }, server);
    return service.project();
  };

  it('those that nobody has finished in time', async () => {
    const project = await start({ 'pg-transaction-ms': '1000' });
    try {
      await prepare(service, project);
      await vi.waitFor(async () => expect(await prepared()).toEqual([]), { timeout: 30_000, interval: 200 });
      expect(await project.rows('SELECT n FROM locked')).toEqual([]);
    } finally {
      await service.close();
    }
  });

  it('those of a project that is deactivated, or deleted', async () => {
    const project = await start({});
    const { engine } = service;
    try {
      await prepare(service, project);
      // The owner may have changed how it logs in.
      await withClient(login(service, project), (client) => client.query("ALTER ROLE CURRENT_USER PASSWORD 'x'"));
      await engine.projects.setActive(project.name, false, BY_ITSELF);
      expect(await prepared()).toEqual([]);
      await engine.projects.setActive(project.name, true, BY_ITSELF);
      const again = await project.seenAnew();
      await again.rows('DROP TABLE locked');
      await prepare(service, again);
      await engine.projects.delete(project.name, BY_ITSELF);
      expect(await prepared()).toEqual([]);
      expect(await engine.projects.list()).toEqual([]);
    } finally {
      await service.close();
    }
  });
});
