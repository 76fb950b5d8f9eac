/** The life of projects (contract C3): created and deleted as a whole, whatever crashes in between. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { ProjectStatus } from '../../../src/contract/projects.js';
import { ProjectSessions } from '../../../src/tenancy/connections/project-session.js';
import type { Placement } from '../../../src/tenancy/placement.js';
import { tryWithProjectLock } from '../../../src/tenancy/control/project-lock.js';
import { messageOf } from '../../../src/contract/errors.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { expectFailure, onServer, runningRequests, startTestService, type TestService } from '../../support/service.js';
import { projectOutOfReach } from '../../support/added-server.js';
import { until } from '../../support/stream.js';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.close());

const projects = () => service.engine.projects;
const reconcile = () => projects().unfinished.clear();

/** What there is of a placement on the server. */
const remains = ({ database, writer, reader }: Placement): Promise<string[]> =>
  onServer(service.server, async (client) => {
    const { rows } = await client.query<{ name: string }>(
      `SELECT 'database ' || datname AS name FROM pg_database WHERE datname = $1
       UNION ALL SELECT 'role ' || rolname FROM pg_roles WHERE rolname = ANY ($2)`,
      [database, [writer, reader]],
    );
    return rows.map(({ name }) => name);
  });

const rowOf = (name: string) => service.engine.control.projects.find('name', name);

/** Leaves behind what a crash would: a row in a status, and as many steps of creation as were done. */
async function leave(name: string, status: ProjectStatus, steps: number): Promise<Placement> {
  const placement = await service.engine.servers.defaultTenancy.newPlacement();
  const { database, writer, reader } = placement;
  await service.engine.control.projects.insert({ id: randomUUID(), name, status, placement, schemaVersion: 1 });
  const all = [
    `CREATE ROLE ${writer} LOGIN`,
    `CREATE ROLE ${reader} LOGIN`,
    `CREATE DATABASE ${database} TEMPLATE cdp_template_${service.engine.control.instanceId}`,
    `REVOKE ALL ON DATABASE ${database} FROM PUBLIC`,
    `GRANT CONNECT ON DATABASE ${database} TO ${writer}, ${reader}`,
  ];
  await onServer(service.server, async (client) => {
    for (const step of all.slice(0, steps)) await client.query(step);
  });
  if (steps === all.length) {
    await onServer(
      service.server,
      (client) =>
        client.query(`GRANT USAGE, CREATE ON SCHEMA data TO ${writer};
          SET ROLE ${writer}; CREATE TABLE data.t (n int);
          ALTER DEFAULT PRIVILEGES IN SCHEMA data GRANT SELECT ON TABLES TO ${reader}`),
      database,
    );
  }
  return placement;
}
const STEPS = 5;

describe('a crash', () => {
  it.each(Array.from({ length: STEPS + 1 }, (_, step) => step))(
    'in a creation after step %i leaves nothing once the next start has checked',
    async (step) => {
      const placement = await leave(`creating-${step}`, 'creating', step);
      await reconcile();
      expect(await remains(placement)).toEqual([]);
      expect(await rowOf(`creating-${step}`)).toBe(null);
    },
  );

  it('in a deletion is followed by its completion, however far it got', async () => {
    for (const steps of [STEPS, 3, 1, 0]) {
      const placement = await leave(`deleting-${steps}`, 'deleting', steps);
      await reconcile();
      expect(await remains(placement)).toEqual([]);
      expect(await rowOf(`deleting-${steps}`)).toBe(null);
    }
  });

  it('blocks no name: the next creation removes its remains', async () => {
    const placement = await leave('again', 'creating', 4);
    const project = await service.project('again');
    expect(await remains(placement)).toEqual([]);
    expect(await project.rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
  });

  it('is distinguished from a creation or deletion in progress', async () => {
    const placement = await leave('busy', 'creating', 3);
    const id = (await rowOf('busy'))?.id ?? '';
    await tryWithProjectLock(service.engine.control.address, id, async () => {
      await reconcile();
      expect((await remains(placement)).length).toBe(3);
      await expect(projects().create('busy')).rejects.toMatchObject({ code: 'unique_violation' });
    });
    await reconcile();
    expect(await remains(placement)).toEqual([]);
  });

  it('names the session that holds a project, for operators', async () => {
    await service.project('held');
    const id = (await rowOf('held'))?.id ?? '';
    const error = await tryWithProjectLock(service.engine.control.address, id, () =>
      projects()
        .repair('held', BY_ITSELF)
        .catch((found: unknown) => found),
    );
    expect(error).toMatchObject({
      code: 'request_in_flight',
      message: expect.not.stringContaining('process') as string,
    });
    expect(messageOf(error)).toMatch(
      /^Project "held" is being .*: The project's lock was not free within 5 s; held by process \d+ of Postgres \(role \w+, application "cdp service", database \w+, since \S+Z\); SELECT pg_terminate_backend\(\d+\) ends it$/,
    );
  });

  it('leaves complete projects alone', async () => {
    const project = await service.project('whole');
    await projects().setActive('whole', false, BY_ITSELF);
    await reconcile();
    await projects().setActive('whole', true, BY_ITSELF);
    expect(await project.rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
  });
});

it('a deleted project keeps no connection, not even one whose end goes unnoticed', async () => {
  const open = vi.spyOn(ProjectSessions.prototype, 'open');
  try {
    await (await service.project('connected')).rows('SELECT 1');
    const [opened] = await Promise.all(open.mock.results.map(({ value }) => value as ReturnType<typeof open>));
    expect(opened?.session.closed).toBe(false);
    // As where the network has swallowed what Postgres says of its end.
    opened?.session.pause();
    await service.engine.projects.delete('connected', BY_ITSELF);
    expect(opened?.session.closed).toBe(true);
  } finally {
    open.mockRestore();
  }
});

describe('many concurrent creations', () => {
  it('each get a database of their own that works', async () => {
    const names = Array.from({ length: 8 }, (_, i) => `parallel-${i}`);
    const made = await Promise.all(names.map((name) => service.project(name)));
    const databases = await Promise.all(made.map((project) => project.rows('SELECT current_database() AS name')));
    expect(new Set(databases.map(([row]) => row?.name)).size).toBe(8);
    await Promise.all(names.map((name) => service.engine.projects.delete(name, BY_ITSELF)));
    const left = (await projects().list()).map(({ name }) => name);
    expect(left.filter((name) => name.startsWith('parallel-'))).toEqual([]);
  });

  it('of the same name create one project', async () => {
    const attempts = await Promise.allSettled(Array.from({ length: 4 }, () => projects().create('same')));
    expect(attempts.filter(({ status }) => status === 'fulfilled').length).toBe(1);
    for (const attempt of attempts) {
      if (attempt.status === 'rejected') expect(attempt.reason).toMatchObject({ code: 'unique_violation' });
    }
    expect((await projects().get('same')).status).toBe('active');
  });

  it('do not delay the tokens of others', async () => {
    const project = await service.project('calm');
    const making = Promise.all(Array.from({ length: 6 }, (_, i) => projects().create(`noise-${i}`)));
    let slowest = 0;
    for (let i = 0; i < 10; i++) {
      const started = performance.now();
      expect((await project.call('GET', '/api/cdp/schema')).status).toBe(200);
      slowest = Math.max(slowest, performance.now() - started);
    }
    await making;
    expect(slowest).toBeLessThan(8_000);
  });
});

describe('a deleted project', () => {
  it('loses its database, roles and tokens, and its name is free', async () => {
    const project = await service.project('short-lived');
    await project.table('kept', { n: 'INTEGER' });
    const placement = (await projects().get('short-lived')).placement;
    expect((await remains(placement)).length).toBe(3);
    await service.engine.projects.delete('short-lived', BY_ITSELF);
    expect(await remains(placement)).toEqual([]);
    expectFailure(await project.call('GET', '/api/cdp/schema'), 401, 'unauthorized');

    const next = await service.project('short-lived');
    expect((await next.call('GET', '/api/cdp/schema')).body.tables).toEqual([]);
    expectFailure(await project.call('GET', '/api/cdp/schema'), 401, 'unauthorized');
    expect((await projects().get('short-lived')).placement.database).not.toBe(placement.database);
  });

  it('is removed even if statements run in it', async () => {
    const project = await service.project('in-use');
    const running = project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT pg_sleep(30)' } });
    await until(() => runningRequests(service) > 0, 5_000);
    await service.engine.projects.delete('in-use', BY_ITSELF);
    expect([401, 403]).toContain((await running).status);
    expect(await rowOf('in-use')).toBe(null);
  });

  it('cannot be deleted twice, nor one that never existed', async () => {
    await service.project('once');
    await service.engine.projects.delete('once', BY_ITSELF);
    await expect(service.engine.projects.delete('once', BY_ITSELF)).rejects.toMatchObject({ code: 'not_found' });
    await expect(service.engine.projects.delete('never', BY_ITSELF)).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('deactivating', () => {
  it('waits for running requests, so that a backup made afterward contains everything acknowledged', async () => {
    const project = await service.project('moving');
    await project.table('t', { a: 'TEXT' });
    const sql = `INSERT INTO t (a) SELECT 'late' FROM pg_sleep(3)`;
    let acknowledged: number | null = null;
    const insert = project
      .call('POST', '/api/cdp/sql', { body: { sql } })
      .then(({ status }) => (acknowledged = status));
    await expect.poll(() => runningRequests(service)).toBe(1);
    await projects().setActive('moving', false, BY_ITSELF);
    expect(acknowledged).toBe(200);
    await insert;
  });
});

describe('refuses', () => {
  it('names that do not match the pattern', async () => {
    for (const name of ['', 'A', '1a', 'a_b', 'a b', '-a', 'a'.repeat(64), 'é', 'a"; DROP DATABASE x']) {
      await expect(projects().create(name)).rejects.toMatchObject({ code: 'invalid_name' });
    }
    expect((await projects().create('a'.repeat(63))).status).toBe('active');
  });

  it('every request while the project is inactive', async () => {
    const project = await service.project('paused');
    await projects().setActive('paused', false, BY_ITSELF);
    expectFailure(await project.call('GET', '/api/cdp/schema'), 403, 'cdp_inactive');
    expectFailure(await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1' } }), 403, 'cdp_inactive');
    await projects().setActive('paused', true, BY_ITSELF);
    // What an instance knows of a token may be a second old.
    await until(async () => (await project.call('GET', '/api/cdp/schema')).status === 200, 1_100);
  });
});

it('prepared transactions are rolled back although the URL of another server is missing', async () => {
  const { control, servers } = service.engine;
  await projects().create('at-home');
  const id = await projectOutOfReach(service, 'abroad');
  const rolledBack = vi.spyOn(servers.defaultTenancy, 'rollBackPrepared');
  const failed: unknown = await projects()
    .rollBackPrepared(0)
    .catch((error: unknown) => error);
  expect(rolledBack).toHaveBeenCalledOnce();
  expect(messageOf(failed)).toContain('The server away cannot be reached: the environment of the service');
  rolledBack.mockRestore();
  await control.projects.delete(id, null);
});
