/** Which connections to projects are kept if there are more projects than connections. */
import { chmod, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { Session } from '../../../src/pg/index.js';
import { ProjectConnectionPool } from '../../../src/tenancy/connections/project-connection-pool.js';
import type { Placement } from '../../../src/tenancy/placement.js';
import { makeFolder } from '../../support/folder.js';
import { embeddedServer } from '../../support/postgres.js';
import { startThrowaway } from '../../support/throwaway-postgres.js';
import { onServer, startTestService, type TestProject } from '../../support/service.js';

/** Projects of a service that keeps `connections`, each with a table. */
async function crowd(projects: number, connections: number) {
  const service = await startTestService({ 'max-connections': String(connections) });
  const members: TestProject[] = [];
  for (let i = 0; i < projects; i++) members.push(await service.project());
  for (const project of members) await project.table('t', { n: 'INTEGER' });
  const databases = await Promise.all(
    members.map(async ({ name }) => (await service.engine.projects.get(name)).placement.database),
  );
  return { service, projects: members, processes: (of?: number[]) => processes(databases, of) };
}

async function write(project: TestProject | undefined): Promise<void> {
  expect((await project?.call('POST', '/api/cdp/data/t', { body: [{ n: 1 }] }))?.status).toBe(201);
}

/** Processes that serve writers in these databases, or in those of them that are named by number. */
async function processes(databases: string[], of: number[] = [...databases.keys()]): Promise<number[]> {
  const { rows } = await onServer(embeddedServer(), (client) =>
    client.query<{ pid: number }>('SELECT pid FROM pg_stat_activity WHERE datname = ANY ($1) AND usename ~ $2', [
      of.map((index) => databases[index]),
      '^w_',
    ]),
  );
  return rows.map(({ pid }) => pid);
}

it('closes idle ones if Postgres has no connection left, and then opens fewer than before', async () => {
  const folder = makeFolder('cdp-few-');
  await chmod(folder, 0o711);
  const server = await startThrowaway(join(folder, 'server'), { settings: ['max_connections=25'] });
  try {
    const service = await startTestService({}, { major: 18, connection: server.connection });
    const projects: TestProject[] = [];
    for (let i = 0; i < 24; i++) projects.push(await service.project());
    for (const project of projects) await project.table('t', { n: 'INTEGER' });
    for (const project of projects) await write(project);
    expect(service.engine.load.connections[0]?.max).toBeLessThan(24);
    // Of 25, Postgres keeps 3 for superusers: some of the others are left for commands.
    for (const project of projects) await write(project);
    const others = `SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`;
    const open = () => onServer(service.server, async (client) => (await client.query(others)).rows.length);
    await expect.poll(open, { timeout: 10_000 }).toBeLessThanOrEqual(20);
    await service.close();
  } finally {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
});

it('gives the connections of projects that are no longer in use to others', async () => {
  const { service, projects, processes } = await crowd(4, 2);
  try {
    const [a, b, c, d] = projects;
    for (const project of [a, b]) for (let i = 0; i < 3; i++) await write(project);
    expect(await processes([0, 1])).toHaveLength(2);
    for (const project of [c, d]) await write(project);
    const theirs = await processes([2, 3]);
    for (const project of [c, d]) await write(project);
    expect((await processes([2, 3])).filter((pid) => theirs.includes(pid))).toHaveLength(2);
  } finally {
    await service.close();
  }
});

it('gives all but one connection of a project to others, even if it may need them again', async () => {
  const { service, projects, processes } = await crowd(4, 4);
  try {
    const [a, b, c, d] = projects as [TestProject, TestProject, TestProject, TestProject];
    // From now on an insert uses a connection once.
    for (const project of [b, c, d]) await write(project);
    for (let burst = 0; burst < 2; burst++) {
      const responses = [1, 2, 3, 4].map(() =>
        a.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT pg_sleep(0.3)' } }),
      );
      for (const response of await Promise.all(responses)) expect(response.status).toBe(200);
      await sleep(1_000);
    }
    for (const project of [b, c, d]) await write(project);
    const theirs = await processes([1, 2, 3]);
    for (const project of [b, c, d]) await write(project);
    expect((await processes([1, 2, 3])).filter((pid) => theirs.includes(pid))).toHaveLength(3);
  } finally {
    await service.close();
  }
});

it.runIf(process.platform === 'linux')('closes those whose backends keep much memory, and no others', async () => {
  const service = await startTestService();
  try {
    const [greedy, modest] = [await service.project(), await service.project()];
    const pidOf = async (project: TestProject, before = ''): Promise<number> => {
      const [row] = await project.rows(`${before} SELECT pg_backend_pid() AS pid`);
      return row?.pid as number;
    };
    const isThere = async (pid: number) =>
      (await onServer(service.server, (client) => client.query('SELECT FROM pg_stat_activity WHERE pid = $1', [pid])))
        .rowCount === 1;
    const small = await pidOf(modest);
    // Some 110 MiB, which DISCARD does not free, and which are used while the request runs.
    const large = await pidOf(
      greedy,
      'SET temp_buffers = 1500000; CREATE TEMP TABLE t (a int); INSERT INTO t VALUES (1);',
    );
    const reused = await pidOf(greedy);
    expect(reused).toBe(large);
    while (await isThere(large)) await sleep(50);
    expect(await pidOf(modest)).toBe(small);
    expect(await pidOf(greedy)).not.toBe(large);
  } finally {
    await service.close();
  }
});

/** Connections on sessions of the superuser. */
function connectionsOf(limits: { total: number; perProject: number }): ProjectConnectionPool {
  const open = async () => {
    const session = await Session.connect({ ...embeddedServer().connection, connectionTimeoutMillis: 5_000 });
    return { session, backend: { processId: session.processId, role: 'writer', seenAt: '' } };
  };
  return new ProjectConnectionPool({ open }, { ...limits, idleMs: 60_000, isLocal: false }, pino({ level: 'silent' }));
}

const lend = (connections: ProjectConnectionPool, project: string) =>
  connections.lendNew(ownerOf(project), {} as Placement, 'write');

const ownerOf = (projectId: string) => ({ projectId, role: null });

it('leaves a project its only connection while others keep several, even if theirs were used later', async () => {
  const connections = connectionsOf({ total: 5, perProject: 2 });
  const use = async (project: string, times = 1) => {
    const lent = [];
    for (let i = 0; i < times; i++) lent.push(await lend(connections, project));
    for (const connection of lent) void connections.release(connection);
  };
  await use('modest');
  await use('greedy', 2);
  await use('another', 2);
  await use('new');
  await use('newer');
  for (const project of ['modest', 'greedy', 'another', 'new', 'newer']) {
    const connection = connections.lendIdle(ownerOf(project), 'write');
    expect(connection?.owner.projectId).toBe(project);
    connection?.closeAfterUse();
    if (connection) void connections.release(connection);
  }
  connections.close();
});

it('keeps no connection of a project that was closed while it logged in', async () => {
  const connections = connectionsOf({ total: 2, perProject: 2 });
  const lending = lend(connections, 'moved');
  connections.closeProject('moved');
  await connections.release(await lending);
  expect(connections.lendIdle(ownerOf('moved'), 'write')).toBeNull();
  expect(connections.open).toBe(0);
  connections.close();
});
