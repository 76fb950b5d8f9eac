/** Locks that sessions of a project hold do not hold up the service, and a lock that stays taken is explained. */
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { countRows } from '../../src/backup/logical/dump.js';
import { sql, withSession } from '../../src/pg/index.js';
import { startService } from '../../src/service.js';
import { ADVISORY_LOCKS, beginWithTableLock, LockHeld, takeAdvisoryLock } from '../../src/tenancy/locks.js';
import { publicDatabases } from '../../src/tenancy/database-privileges.js';
import { drain } from '../../src/tenancy/drain.js';
import type { Placement } from '../../src/tenancy/placement.js';
import type { Tenancy } from '../../src/tenancy/tenancy.js';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { connected } from '../support/postgres.js';
import { eventually } from '../support/program.js';
import { onServer, startOwnService, startTestService, type TestProject, type TestService } from '../support/service.js';

/** Those of `ADVISORY_LOCKS`, and their neighbours, which had other meanings. */
const NUMBERS = Array.from({ length: 12 }, (_, i) => 4_014_252_900 + i);

const KINDS = { 'a server of its own': () => startOwnService(), 'a shared server': () => startTestService() };

describe.each(Object.entries(KINDS))('on %s', (_, start) => {
  let service: TestService;
  let project: TestProject;
  let placement: Placement;
  beforeAll(async () => {
    service = await start();
    project = await service.project();
    ({ placement } = await service.engine.projects.get(project.name));
    await project.table('visits', { page: 'TEXT' });
  });
  afterAll(() => service.close());

  const loginOf = (role: string) => {
    const tenancy = service.engine.servers.tenancyOf(placement);
    const { host, port } = tenancy.serverOf(placement).address;
    return { host, port, user: role, password: tenancy.password(role), database: placement.database };
  };

  it.each(['reader', 'writer'] as const)(
    'a session of the %s with all locks holds up no repair or dump',
    async (who) => {
      await connected(loginOf(placement[who]), async (client) => {
        await client.query('BEGIN');
        for (const number of NUMBERS) await client.query('SELECT pg_advisory_lock($1)', [number]);
        // Parsing a statement locks its tables before any right is checked.
        for (const [i, table] of ['migrations', 'dump_lock'].entries())
          await client.query(`PREPARE p${i} AS DELETE FROM _cdp.${table}`);
        const tenancy = service.engine.servers.tenancyOf(placement);
        const { signal } = new AbortController();
        expect(await countRows(tenancy, placement, signal)).toEqual([{ name: 'visits', rows: 0 }]);
        await service.engine.databaseSetup.restoreRights(tenancy, placement);
        await service.engine.databaseSetup.upgrade(tenancy, placement);
        expect((await service.engine.projects.repair(project.name, BY_ITSELF)).project.id).toBe(project.id);
      });
    },
  );

  it.each(['reader', 'writer'] as const)('the %s cannot lock what repairs and dumps lock', async (who) => {
    for (const table of ['migrations', 'dump_lock']) {
      await connected(loginOf(placement[who]), async (client) => {
        await client.query('BEGIN');
        await expect(client.query(`LOCK TABLE _cdp.${table} IN SHARE UPDATE EXCLUSIVE MODE`)).rejects.toMatchObject({
          code: '42501',
        });
      });
    }
  });
});

describe('the control database', () => {
  let service: TestService;
  let project: TestProject;
  let placement: Placement;
  beforeAll(async () => {
    service = await startTestService();
    project = await service.project();
    ({ placement } = await service.engine.projects.get(project.name));
  });
  afterAll(() => service.close());

  const withPassword = (password: string, database: string): pg.ClientConfig => ({
    ...service.server.connection,
    ...{ user: placement.writer, password, database },
  });

  it('refuses roles of projects', async () => {
    const password = service.engine.servers.defaultTenancy.password(placement.writer);
    await expect(connected(withPassword(password, service.database), () => Promise.resolve())).rejects.toMatchObject({
      code: '42501',
    });
  });

  it('is not named among those that are open', async () => {
    const { address } = service.engine.control;
    expect(await withSession(address, publicDatabases)).not.toContain(service.database);
    await onServer(service.server, (client) => client.query(`GRANT CONNECT ON DATABASE ${service.database} TO PUBLIC`));
    expect(await withSession(address, publicDatabases)).toContain(service.database);
  });

  it('does not keep a start waiting once it is asked to stop', async () => {
    const { connection } = service.server;
    await connected({ ...connection, database: service.database }, async (client) => {
      await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.start]);
      const stop = new AbortController();
      const second = startService(service.config, pino({ level: 'silent' }), null, stop.signal);
      const failed = expect(second).rejects.toThrow('asked to stop');
      await eventually('it waits', async () => {
        const { rowCount } = await client.query(
          `SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND objid::bigint = $1`,
          [ADVISORY_LOCKS.start],
        );
        return rowCount === 1;
      });
      stop.abort(new Error('asked to stop'));
      await failed;
    });
  });

  it('ends a session that a project has opened past the service, when it repairs the password', async () => {
    await project.rows(`ALTER ROLE ${placement.writer} PASSWORD 'mine now'`);
    const client = new pg.Client(withPassword('mine now', placement.database));
    const ended = new Promise((resolve) => client.on('error', resolve));
    await client.connect();
    await onServer(service.server, (superuser) =>
      superuser.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1 AND pid <> $2', [
        placement.writer,
        (client as unknown as { processID: number }).processID,
      ]),
    );
    await eventually('it logs in again', async () => {
      const { status } = await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1' } });
      return status === 200;
    });
    expect(await ended).toMatchObject({ code: '57P01' });
  });

  it('says who holds a lock that stays taken', async () => {
    const { connection } = service.server;
    const { address } = service.engine.control;
    const holding = { ...connection, database: service.database, application_name: 'a report' };
    await connected(holding, async (client) => {
      await client.query('BEGIN');
      await client.query('SELECT pg_advisory_lock(77)');
      await client.query('LOCK TABLE cdp.migrations IN SHARE UPDATE EXCLUSIVE MODE');
      const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      const wait = { name: 'The lock', ms: 100 };
      const taking = [
        withSession(address, (session) => takeAdvisoryLock(session, sql`${77}`, wait)),
        withSession(address, (session) => beginWithTableLock(session, sql`cdp.migrations`, wait)),
      ];
      for (const outcome of await Promise.allSettled(taking)) {
        const error = (outcome as PromiseRejectedResult).reason as Error;
        expect(error).toBeInstanceOf(LockHeld);
        expect(error.message).toMatch(
          new RegExp(
            `^The lock was not free within 0\\.1 s; held by process ${rows[0]?.pid} of Postgres \\(role ${connection.user}, ` +
              `application "a report", database ${service.database}, since 20[-0-9]+T[:0-9]+Z\\); SELECT pg_terminate_backend`,
          ),
        );
      }
    });
  });
});

it('transactions of a project that do not end are not waited for without end', async () => {
  const pool = { query: () => Promise.resolve([['1']]) };
  const tenancy = { isRunning: () => true, serverOf: () => ({ pool }) } as unknown as Tenancy;
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => (now += 10_000));
  const signal = AbortSignal.timeout(20_000);
  const drained = drain(tenancy, { writer: 'w_x', reader: 'r_x' } as Placement, { maxMs: 0, signal });
  await expect(drained).rejects.toMatchObject({ code: 'database_unavailable' });
  vi.restoreAllMocks();
});
