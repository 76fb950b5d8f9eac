/** Opening a connection as a project's role: whatever the project has planted or spoilt, it works or ends in time. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Absence } from '../../src/tenancy/absence.js';
import { Credentials } from '../../src/tenancy/credentials.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { LANES, type ProjectSession, ProjectSessions } from '../../src/tenancy/connections/project-session.js';
import { Provisioning } from '../../src/tenancy/provisioning.js';
import { servicePool } from '../../src/tenancy/service-pool.js';
import { SilenceWatch } from '../../src/tenancy/connections/silence-watch.js';
import { Watchdog } from '../../src/tenancy/connections/watchdog.js';
import { testServers } from '../support/postgres.js';
import { failure, onServer, startTestService, type TestProject, type TestService } from '../support/service.js';

const PREPARATION = { allowUnhardened: false, extensions: [] };

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
  let pool: ReturnType<typeof servicePool>;
  let watchdog: Watchdog;
  const opened: ProjectSession[] = [];

  beforeAll(async () => {
    service = await startTestService({}, server);
    const database = /@\/(\w+)\?/.exec(service.config.databaseUrl ?? '')?.[1] ?? '';
    const address = { ...server.connection, database, connectionTimeoutMillis: 5_000 };
    const credentials = new Credentials(service.config.secret ?? '');
    pool = servicePool(address, 6);
    watchdog = new Watchdog(address, pool);
    const provisioning = new Provisioning(address, credentials, '', [], PREPARATION);
    sessions = new ProjectSessions(address, credentials, provisioning, new SilenceWatch(address, pool), new Absence());
  });
  afterAll(async () => {
    for (const { session } of opened) session.close();
    await pool.end();
    await service.close();
  });

  const placementOf = async (project: TestProject): Promise<Placement> =>
    (await service.engine.projects.get(project.name)).placement;

  async function open(placement: Placement, lane: (typeof LANES)[number]): Promise<ProjectSession> {
    const session = await sessions.open(placement, lane);
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

  it.each(LANES)('runs no code of the project: %s', async (lane) => {
    const placement = await placementOf(await service.project());
    await asSuperuser(placement, ...HOSTILE);
    const { session, backend } = await open(placement, lane);
    expect(backend.seenAt).toMatch(/^\d{4}-/);
    // What follows is the project's own again.
    expect(session.transaction).toBe('I');
    expect((await session.run([{ text: 'SHOW search_path', params: [] }]))[0]?.rows).toEqual([[placement.schema]]);
  });

  it('ends the backend that it opened, and none that has its number but began later', async () => {
    const placement = await placementOf(await service.project());
    const { session, backend } = await open(placement, 'typed');
    await watchdog.terminate({ ...backend, seenAt: '2000-01-01' });
    expect((await session.run([{ text: 'SELECT 1', params: [] }]))[0]?.rows).toEqual([['1']]);
    await watchdog.terminate(backend);
    await expect(session.run([{ text: 'SELECT 1', params: [] }])).rejects.toThrow();
  });

  it('sees through what was planted to what was spoilt', async () => {
    const placement = await placementOf(await service.project());
    await asSuperuser(placement, ...HOSTILE, `ALTER ROLE ${placement.writer} SET work_mem = '64kB'`);
    const { session } = await open(placement, 'sql-write');
    expect((await session.run([{ text: 'SHOW work_mem', params: [] }]))[0]?.rows).not.toEqual([['64kB']]);
  });

  it('ends in time where Postgres does not go on, and leaves no connection behind', async () => {
    const placement = await placementOf(await service.project());
    await onServer(
      server,
      async (client) => {
        await client.query('BEGIN; LOCK pg_catalog.pg_default_acl IN ACCESS EXCLUSIVE MODE');
        const started = performance.now();
        for (const attempt of await Promise.allSettled(LANES.map((lane) => sessions.open(placement, lane)))) {
          expect(attempt).toMatchObject({
            reason: { code: 'database_unavailable', message: 'The database is not available at the moment' },
          });
        }
        expect(performance.now() - started).toBeLessThan(15_000);
      },
      placement.database,
    );
    const left = async () =>
      (await pool.query('SELECT FROM pg_stat_activity WHERE datname = $1', [placement.database])).rowCount;
    await expect.poll(left, { timeout: 5_000 }).toBe(0);
    await open(placement, 'typed');
  });

  it('mends for many at once, and while another mends or alters the same role', async () => {
    const project = await service.project();
    const placement = await placementOf(project);
    const credentials = new Credentials(service.config.secret ?? '');
    const address = { ...server.connection, database: placement.database, connectionTimeoutMillis: 5_000 };
    const elsewhere = new Provisioning(address, credentials, '', [], PREPARATION);
    for (let round = 0; round < 3; round++) {
      await asSuperuser(placement, `ALTER ROLE ${placement.writer} SET work_mem = '1MB'`);
      const answers = await Promise.allSettled([
        ...Array.from({ length: 12 }, (_, i) => open(placement, LANES[i % LANES.length] ?? 'typed')),
        elsewhere.mend(placement),
        elsewhere.mend(placement),
      ]);
      expect(answers.filter(({ status }) => status === 'rejected')).toEqual([]);
    }
    expect(await project.rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
  });

  it('shows a caller nothing of a login that the server refuses', async () => {
    const project = await service.project();
    const placement = await placementOf(project);
    await asSuperuser(placement, `ALTER ROLE ${placement.writer} NOLOGIN`);
    const answer = await project.call('GET', '/api/cdp/schema');
    const body = failure(answer, 503, 'database_unavailable');
    expect(body.postgres).toBe(undefined);
    expect(answer.text).not.toContain(placement.writer);
    expect(answer.headers.get('retry-after')).toBe('1');
  });
});
