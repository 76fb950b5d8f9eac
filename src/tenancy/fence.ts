/**
 * Ends all writes to a project where it lives, so that its copy is all there is: its writer may not log in any more. That holds for
 * every instance of the service, also for one that has slept and does not know of the move.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../contract/errors.js';
import { ident, type Session, sql } from '../pg/index.js';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import type { Placement } from './placement.js';
import { withServiceSession } from './service-pool.js';
import { type Tenancy, withServer } from './tenancy.js';

type Role = 'writer' | 'reader';

const CHECK_MS = 50;

/** A backend that was told to end does so when it is next interrupted, which is at once but for code that cannot be. */
const END_MS = 30_000;

/**
 * Resolves when no session of the role is left.
 * @param role the writer: what it had not committed is rolled back. The reader: at the end, so that nobody reads what is old
 * @throws PostgresError, Error if its sessions do not end
 */
export const raiseFence = (tenancy: Tenancy, placement: Placement, role: Role): Promise<void> =>
  locked(tenancy, placement, async (session) => {
    await session.query(sql`ALTER ROLE ${ident(placement[role])} NOLOGIN`);
    for (const until = performance.now() + END_MS; ; await sleep(CHECK_MS)) {
      const left = await session.query(
        sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ${placement[role]}::name`,
      );
      if (left.length === 0) return;
      if (performance.now() > until) throw new Error(`${left.length} sessions of the project do not end`);
    }
  });

/** Lets both log in again. Nothing happens if they may. */
export const lowerFence = (tenancy: Tenancy, placement: Placement): Promise<void> =>
  locked(tenancy, placement, async (session) => {
    for (const role of [placement.writer, placement.reader]) {
      await session.query(sql`ALTER ROLE ${ident(role)} LOGIN`);
    }
  });

/**
 * For repairs, which would lower the fence: no project can take the right to log in from its own roles.
 * @throws EngineError database_unavailable
 */
export async function requireNoFence(session: Session, { writer, reader }: Placement): Promise<void> {
  const fenced = await session.query(
    sql`SELECT FROM pg_roles WHERE rolname = ANY (${[writer, reader]}) AND NOT rolcanlogin`,
  );
  if (fenced.length > 0) throw moving();
}

/** To a write while the project is copied. */
export const moving = (): EngineError =>
  new EngineError(
    'database_unavailable',
    'The project is being moved to another server: it takes writes again in a moment',
  );

/** Repairs hold the same lock. */
const locked = (tenancy: Tenancy, placement: Placement, work: (session: Session) => Promise<void>): Promise<void> => {
  const server = tenancy.serverOf(placement);
  return withServer(server, () =>
    withServiceSession(server.address, placement.database, async (session) => {
      await session.query(sql`SELECT pg_advisory_lock(${ADVISORY_LOCKS.repair})`);
      await work(session);
    }),
  );
};
