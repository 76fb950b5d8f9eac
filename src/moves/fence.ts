/**
 * Ends all writes to a project where it lives, so that its copy is complete: its writer may no longer log in. That also
 * stops an instance that was paused and does not know of the move.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ident, type Session, sql } from '../pg/index.js';
import type { Placement, ProjectRole } from '../tenancy/placement.js';
import { madeRoles, rolesAreLocked, rolesOf } from '../tenancy/project-rights.js';
import { withMaintenanceLock } from '../tenancy/locks.js';
import { inDatabase, type Tenancy } from '../tenancy/tenancy.js';

const CHECK_MS = 50;

/** How long terminated backends may take to end: at once, except in code that cannot be interrupted. */
const END_MS = 30_000;

/**
 * Whether a move is still in the state to which a step belongs, checked under the lock for all changes of the fence. A
 * process may lose the project's lock without noticing. This check keeps it from raising the fence for a move that was
 * undone, or lowering the fence of a later move.
 */
type IsStill = () => Promise<boolean>;

/**
 * Forbids logins of roles, and resolves when they have no session left.
 * @param role the writer, and with it all roles that the project has made: their uncommitted work is rolled back; or at
 * the end the reader, so that nobody reads old data
 * @returns false unless `isStill`, or if another process has lowered the fence meanwhile
 * @throws PostgresError, LockHeld; Error if the sessions do not end
 */
export const raiseFence = (
  tenancy: Tenancy,
  placement: Placement,
  role: ProjectRole,
  isStill: IsStill,
): Promise<boolean> =>
  inDatabase(tenancy, placement, async (session) => {
    const roles = [placement[role], ...(role === 'writer' ? await madeRoles(session, placement) : [])];
    const isRaised = await locked(session, isStill, async () => {
      for (const name of roles.map((one) => ident(one))) {
        await session.query(sql`ALTER ROLE ${name} NOLOGIN`);
        // Stops a login that has just passed the check of its role: the check of the database comes later.
        await session.query(sql`REVOKE CONNECT ON DATABASE ${ident(placement.database)} FROM ${name}`);
      }
    });
    if (!isRaised) return false;
    for (const until = performance.now() + END_MS; ; await sleep(CHECK_MS)) {
      if (!(await rolesAreLocked(session, placement))) return false;
      const left = (await loggingIn(session)) + (await terminate(session, roles));
      if (left === 0) return true;
      if (performance.now() > until) throw new Error(`${left} sessions of the project do not end`);
    }
  });

/** A starting session holds a lock on its database until it is listed with its role. */
async function loggingIn(session: Session): Promise<number> {
  const [count] = await session.row(
    sql`SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_database'::regclass
        AND objid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()`,
  );
  return Number(count);
}

/** @returns the number of the roles' sessions */
async function terminate(session: Session, roles: readonly string[]): Promise<number> {
  const rows = await session.query(
    sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ANY (${roles}::name[])`,
  );
  return rows.length;
}

/** Lets all roles log in again, even if they already could. @returns false, without changes, unless `isStill` */
export const lowerFence = (tenancy: Tenancy, placement: Placement, isStill: IsStill): Promise<boolean> =>
  inDatabase(tenancy, placement, (session) =>
    locked(session, isStill, async () => {
      const database = ident(placement.database);
      for (const role of (await rolesOf(session, placement)).map((name) => ident(name))) {
        await session.query(sql`ALTER ROLE ${role} LOGIN`);
        await session.query(sql`GRANT CONNECT ON DATABASE ${database} TO ${role}`);
      }
    }),
  );

/** Repairs hold the same lock. @returns whether `work` was done */
const locked = (session: Session, isStill: IsStill, work: () => Promise<void>): Promise<boolean> =>
  withMaintenanceLock(session, async () => {
    if (!(await isStill())) return false;
    await work();
    return true;
  });
