/**
 * Ends all writes to a project where it lives, so that its copy is complete: its writer may no longer log in. That
 * holds for every instance of the service, also for one that has slept and does not know of the move.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../contract/errors.js';
import { ident, type Session, sql } from '../pg/index.js';
import type { Placement } from './placement.js';
import { takeRepairLock } from './repair-lock.js';
import { withServiceSession } from './service-pool.js';
import { type Tenancy, withServer } from './tenancy.js';

type Role = 'writer' | 'reader';

const CHECK_MS = 50;

/** A backend that was told to end does so when it is next interrupted, which is at once but for code that cannot be. */
const END_MS = 30_000;

/**
 * Whether a move is still where a step of it belongs, asked under the lock that all changes of the fence take. A
 * process that has lost the project's lock may learn it too late: without the question it would raise the fence of a
 * move that is undone already, or lower that of the next one.
 */
type IsStill = () => Promise<boolean>;

/**
 * Resolves when no session of the role is left.
 * @param role the writer: what it had not committed is rolled back. The reader: at the end, so that nobody reads what
 * is old
 * @returns false, and nothing is changed, unless `isStill`
 * @throws PostgresError, Error if its sessions do not end
 */
export const raiseFence = (tenancy: Tenancy, placement: Placement, role: Role, isStill: IsStill): Promise<boolean> =>
  locked(tenancy, placement, isStill, async (session) => {
    const [name, database] = [ident(placement[role]), ident(placement.database)];
    await session.query(sql`ALTER ROLE ${name} NOLOGIN`);
    // For a login that has passed the check of its role just now: the one of the database comes later.
    await session.query(sql`REVOKE CONNECT ON DATABASE ${database} FROM ${name}`);
    const until = performance.now() + END_MS;
    for (let left = 1; left > 0;) {
      left = (await loggingIn(session)) + (await terminate(session, placement[role]));
      if (left === 0) return;
      if (performance.now() > until) throw new Error(`${left} sessions of the project do not end`);
      await sleep(CHECK_MS);
    }
  });

/**
 * Sessions that are being started hold a lock on their database, and are listed with their role before they release it.
 */
async function loggingIn(session: Session): Promise<number> {
  const [[count] = []] = await session.query(
    sql`SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_database'::regclass
        AND objid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()`,
  );
  return Number(count);
}

/** @returns the number of the role's sessions */
async function terminate(session: Session, role: string): Promise<number> {
  const left = await session.query(
    sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ${role}::name`,
  );
  return left.length;
}

/** Lets both log in again, as they may have been able to. @returns false, and nothing is changed, unless `isStill` */
export const lowerFence = (tenancy: Tenancy, placement: Placement, isStill: IsStill): Promise<boolean> =>
  locked(tenancy, placement, isStill, async (session) => {
    const database = ident(placement.database);
    for (const role of [placement.writer, placement.reader].map((name) => ident(name))) {
      await session.query(sql`ALTER ROLE ${role} LOGIN`);
      await session.query(sql`GRANT CONNECT ON DATABASE ${database} TO ${role}`);
    }
  });

/** Whether one of a project's roles may not log in: no project can take that right from its own roles. */
export async function isFenced(session: Session, { writer, reader }: Placement): Promise<boolean> {
  const fenced = await session.query(
    sql`SELECT FROM pg_roles WHERE rolname = ANY (${[writer, reader]}) AND NOT rolcanlogin`,
  );
  return fenced.length > 0;
}

/** To a write while the project is copied. */
export const moving = (): EngineError =>
  new EngineError('database_unavailable', 'The project is being moved to another server; retry the write shortly', {
    dependency: null,
  });

/** Repairs hold the same lock. @returns whether `work` was done */
const locked = (
  tenancy: Tenancy,
  placement: Placement,
  isStill: IsStill,
  work: (session: Session) => Promise<void>,
): Promise<boolean> => {
  const server = tenancy.serverOf(placement);
  return withServer(server, () =>
    withServiceSession(server.address, placement.database, async (session) => {
      await takeRepairLock(session);
      if (!(await isStill())) return false;
      await work(session);
      return true;
    }),
  );
};
