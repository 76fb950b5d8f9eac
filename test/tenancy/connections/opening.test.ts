/**
 * Opening a connection as a project's role: whatever the project has planted or broken, it succeeds or ends in time.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fixed, type Session, withSession } from '../../../src/pg/index.js';
import type { Placement } from '../../../src/tenancy/placement.js';
import { roleLogin } from '../../../src/tenancy/role-login.js';
import { CONNECTION_KINDS } from '../../../src/tenancy/connections/session-settings.js';
import { type ProjectSession, ProjectSessions } from '../../../src/tenancy/connections/project-session.js';
import { testServers } from '../../support/postgres.js';
import {
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

/** Types that the service's own queries compare, and those that stand close to them. */
const TYPES = [
  'oid',
  'regnamespace',
  'regrole',
  'regclass',
  'regtype',
  'name',
  'text',
  '"char"',
  'bigint',
  'integer',
  'boolean',
];

/** Operators and functions of the project that fail whoever is led to them. */
const HOSTILE = [
  `CREATE FUNCTION data.hostile(a anyelement) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''hostile''; END'`,
  ...TYPES.flatMap((left) =>
    TYPES.flatMap((right) => [
      `CREATE FUNCTION data.hostile(a ${left}, b ${right}) RETURNS boolean LANGUAGE plpgsql
         AS 'BEGIN RAISE ''hostile ${left.replaceAll('"', '')} ${right.replaceAll('"', '')}''; END'`,
      ...['=', '<>'].map(
        (name) => `CREATE OPERATOR data.${name} (LEFTARG = ${left}, RIGHTARG = ${right}, FUNCTION = data.hostile)`,
      ),
    ]),
  ),
  ...['count(oid)', 'has_schema_privilege(text, text)', 'aclexplode(aclitem[])'].map(
    (signature) =>
      `CREATE FUNCTION data.${signature} RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''hostile''; END'`,
  ),
];

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  let sessions: ProjectSessions;
  const opened: ProjectSession[] = [];

  beforeAll(async () => {
    service = await startTestService({}, server);
    const { servers, databaseSetup: databases } = service.engine;
    sessions = new ProjectSessions(servers, databases);
  });
  afterAll(async () => {
    await Promise.all(opened.map(({ session }) => session.close()));
    await service.close();
  });

  const placementOf = async (project: TestProject): Promise<Placement> =>
    (await service.engine.projects.get(project.name)).placement;

  async function open(placement: Placement, kind: (typeof CONNECTION_KINDS)[number]): Promise<ProjectSession> {
    const session = await sessions.open({ placement, kind, role: null });
    opened.push(session);
    return session;
  }

  const asSuperuser = (placement: Placement, ...texts: string[]): Promise<void> =>
    onServer(
      server,
      async (client) => {
        for (const text of texts) await client.query(text);
      },
      placement.database,
    );

  it.each(CONNECTION_KINDS)('runs no code of the project: %s', async (kind) => {
    const placement = await placementOf(await service.project());
    await asSuperuser(placement, ...HOSTILE);
    const { session, backend } = await open(placement, kind);
    expect(backend.seenAt).toMatch(/^\d{4}-/);
    // What follows is the project's own again.
    expect(session.inTransaction).toBe(false);
    expect((await session.run([{ text: 'SHOW search_path', params: [] }]))[0]?.rows).toEqual([[placement.schema]]);
  });

  it('ends the backend that it opened, and not a newer one with the same PID', async () => {
    const placement = await placementOf(await service.project());
    const { session, backend } = await open(placement, 'write');
    const { backendControl } = service.engine.servers.serverOf(placement);
    await backendControl.terminate({ ...backend, seenAt: '2000-01-01' });
    expect((await session.run([{ text: 'SELECT 1', params: [] }]))[0]?.rows).toEqual([['1']]);
    await backendControl.terminate(backend);
    await expect(session.run([{ text: 'SELECT 1', params: [] }])).rejects.toThrow();
  });

  it('finds what the project broke despite the objects that it planted', async () => {
    const placement = await placementOf(await service.project());
    await asSuperuser(placement, ...HOSTILE, `ALTER ROLE ${placement.writer} SET synchronous_commit = local`);
    const { session } = await open(placement, 'sql-write');
    const { rows } = await onServer(server, (client) =>
      client.query<[string]>({ text: 'SHOW synchronous_commit', rowMode: 'array' }),
    );
    expect(rows).not.toEqual([['local']]);
    expect((await session.run([{ text: 'SHOW synchronous_commit', params: [] }]))[0]?.rows).toEqual(rows);
  });

  it('plans its own statements as Postgres does by default, whatever the project has set, and SQL as set', async () => {
    const placement = await placementOf(await service.project());
    const { writer } = placement;
    await asSuperuser(placement, `ALTER ROLE ${writer} SET enable_hashjoin = off`);
    const shown = async (session: Session) => (await session.query(fixed('SHOW enable_hashjoin')))[0];
    expect(await shown((await open(placement, 'write')).session)).toEqual(['on']);
    expect(await shown((await open(placement, 'sql-write')).session)).toEqual(['off']);
    const tenancy = service.engine.servers.tenancyOf(placement);
    expect(await withSession(await roleLogin(tenancy, placement, writer, {}), shown)).toEqual(['on']);
  });

  it('ends in time if Postgres hangs, and leaves no connection behind', async () => {
    const placement = await placementOf(await service.project());
    await onServer(
      server,
      async (client) => {
        await client.query('BEGIN; LOCK pg_catalog.pg_default_acl IN ACCESS EXCLUSIVE MODE');
        const started = performance.now();
        for (const attempt of await Promise.allSettled(
          CONNECTION_KINDS.map((kind) => sessions.open({ placement, kind, role: null })),
        )) {
          expect(attempt).toMatchObject({
            reason: { code: 'database_unavailable', message: 'The database is not available at the moment' },
          });
        }
        expect(performance.now() - started).toBeLessThan(15_000);
      },
      placement.database,
    );
    const left = () =>
      onServer(server, async (client) => {
        const sessions = 'SELECT FROM pg_stat_activity WHERE datname = $1';
        return (await client.query(sessions, [placement.database])).rowCount;
      });
    await expect.poll(left, { timeout: 5_000 }).toBe(0);
    await open(placement, 'write');
  });

  it('repairs for many connections at once, and while another process repairs or alters the same role', async () => {
    const project = await service.project();
    const placement = await placementOf(project);
    const { servers, databaseSetup: databases } = service.engine;
    const tenancy = servers.defaultTenancy;
    for (let round = 0; round < 3; round++) {
      await asSuperuser(placement, `ALTER ROLE ${placement.writer} SET work_mem = '1MB'`);
      const responses = await Promise.allSettled([
        ...Array.from({ length: 12 }, (_, i) =>
          open(placement, CONNECTION_KINDS[i % CONNECTION_KINDS.length] ?? 'write'),
        ),
        databases.restoreRights(tenancy, placement),
        databases.restoreRights(tenancy, placement),
      ]);
      expect(responses.filter(({ status }) => status === 'rejected')).toEqual([]);
    }
    expect(await project.rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
  });

  it('shows a caller nothing of a login that the server refused', async () => {
    const project = await service.project();
    const placement = await placementOf(project);
    await onServer(server, (client) => client.query(`ALTER DATABASE ${placement.database} ALLOW_CONNECTIONS false`));
    const response = await project.call('GET', '/api/cdp/schema');
    const body = expectFailure(response, 503, 'database_unavailable');
    expect(body.postgres).toBe(undefined);
    expect(response.text).not.toContain(placement.database);
    expect(response.headers.get('retry-after')).toBe('1');
  });
});
