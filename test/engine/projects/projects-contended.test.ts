/**
 * Projects that are created and deleted while another session works on the same rows and locks of the server's catalog.
 */
import type pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { Placement } from '../../../src/tenancy/placement.js';
import { startService } from '../../../src/service.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { testServers } from '../../support/postgres.js';
import { onServer, startTestService, type TestService } from '../../support/service.js';
import { until } from '../../support/stream.js';

const LONG_MS = 60_000;

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
  await onServer(service.server, async (client) => {
    // Whoever closes the circle of a deadlock in this time is not the one that Postgres ends.
    await client.query(`ALTER DATABASE ${service.database} SET deadlock_timeout = '3s'`);
    // What an operator may have set for everybody.
    for (const limit of ['statement_timeout', 'lock_timeout', 'idle_session_timeout']) {
      await client.query(`ALTER DATABASE ${service.database} SET ${limit} = '1ms'`);
    }
  });
});
afterAll(() => service.close());

const left = ({ database, writer, reader }: Placement, client: pg.Client) =>
  client.query(
    'SELECT datname FROM pg_database WHERE datname = $1 UNION SELECT rolname FROM pg_roles WHERE rolname = ANY ($2)',
    [database, [writer, reader]],
  );

/**
 * Deletes a project while a transaction has changed a row that DROP ROLE deletes.
 * @param meet what the transaction does once DROP ROLE waits for it; it is then committed
 * @returns false where the transaction was refused, which leaves the deletion alone
 */
async function deleteAgainst(meet: (client: pg.Client, placement: Placement) => Promise<unknown>): Promise<boolean> {
  const { name } = await service.project();
  const { placement } = await service.engine.projects.get(name);
  const { writer } = placement;
  return onServer(service.server, async (client) => {
    await client.query(`SET deadlock_timeout = '${LONG_MS}'`);
    await client.query('BEGIN');
    await client.query(`GRANT ${writer} TO CURRENT_USER WITH ADMIN OPTION`);
    const deleting = service.engine.projects.delete(name, BY_ITSELF);
    const isWaiting = async () => {
      const { rowCount } = await onServer(service.server, (other) =>
        other.query(
          `SELECT FROM pg_stat_activity WHERE query = 'DROP ROLE IF EXISTS "${writer}"' AND wait_event_type = 'Lock'`,
        ),
      );
      return rowCount === 1;
    };
    let hasMet = true;
    try {
      await until(isWaiting, LONG_MS);
      await meet(client, placement);
      await client.query('COMMIT');
    } catch (error) {
      if ((error as { code?: unknown }).code !== '40P01') throw error;
      await client.query('ROLLBACK');
      hasMet = false;
    }
    await deleting;
    expect((await left(placement, client)).rows).toEqual([]);
    expect(await service.engine.control.projects.find('name', name)).toBe(null);
    return hasMet;
  });
}

it('completes a deletion even if a row of its roles changed meanwhile', async () => {
  expect(await deleteAgainst(() => Promise.resolve())).toBe(true);
});

it('completes a deletion even if Postgres aborts one of its statements because of a deadlock', async () => {
  // A machine that stood still at the wrong moment has the other one ended.
  const meet = (client: pg.Client, { writer }: Placement) => client.query(`COMMENT ON ROLE ${writer} IS 'in the way'`);
  while (!(await deleteAgainst(meet)));
});

it.each(testServers())(
  'another installation starts while a session creates roles and databases on Postgres $major',
  async (server) => {
    await onServer(server, async (client) => {
      await client.query('BEGIN');
      // What every login, CREATE ROLE, DROP DATABASE and the like take, and some keep to the end of their transaction.
      await client.query(
        'LOCK TABLE pg_database, pg_auth_members, pg_shdepend, pg_shdescription IN ROW EXCLUSIVE MODE',
      );
      const other = await startTestService({}, server);
      try {
        const project = await other.project();
        expect(await project.rows(`SELECT has_table_privilege('pg_database', 'SELECT') AS yes`)).toEqual([
          { yes: false },
        ]);
      } finally {
        await client.query('ROLLBACK');
        await other.close();
      }
    });
  },
);

it('creates a project despite limits that an operator has set for all sessions', async () => {
  const second = await startService(service.config, pino({ level: 'silent' }));
  try {
    await second.engine.projects.create('limited');
    await second.engine.projects.repair('limited', BY_ITSELF);
    await second.engine.projects.delete('limited', BY_ITSELF);
  } finally {
    await second.close();
  }
});

it('a running service clears away what another process has left half done', async () => {
  const { name } = await service.project();
  const { id, placement } = await service.engine.projects.get(name);
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  try {
    service.engine.projects.startClearing();
    await service.engine.control.projects.setStatus(id, ['active'], 'deleting', null);
    vi.advanceTimersByTime(60_000);
    await until(async () => (await service.engine.control.projects.find('name', name)) === null, LONG_MS);
    await onServer(service.server, async (client) => expect((await left(placement, client)).rows).toEqual([]));
    service.engine.projects.close();
  } finally {
    vi.useRealTimers();
  }
});
