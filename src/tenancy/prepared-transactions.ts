/**
 * Rolls back transactions prepared for two-phase commit. They outlive their session with all locks, and keep a database
 * from being dropped. There are none unless the operator has set max_prepared_transactions.
 */
import { literal, PostgresError, type Session, sql, withSession, SQLSTATE } from '../pg/index.js';
import { isRoleOf, type Placement } from './placement.js';
import { resetRoles } from './project-rights.js';
import { roleLogin } from './role-login.js';
import { withServiceSession } from './service-pool.js';
import { serviceWork } from './postgres-errors.js';
import type { Tenancy } from './tenancy.js';

/**
 * Rolls back prepared transactions of projects, for {@link Tenancy.rollBackPrepared}.
 * @param placements all on one server
 * @param olderThanMs their minimum age
 * @throws EngineError database_unavailable
 */
export async function rollBackPrepared(
  tenancy: Tenancy,
  placements: readonly Placement[],
  olderThanMs: number,
): Promise<void> {
  const [first] = placements;
  if (first === undefined) return;
  const { pool } = tenancy.serverOf(first);
  await serviceWork(async () => {
    const rows = await pool.query(
      sql`SELECT gid, database, owner FROM pg_prepared_xacts
          WHERE prepared <= now() - make_interval(secs => ${olderThanMs / 1_000})`,
    );
    for (const [gid, database, owner] of rows) {
      const placement = placements.find((one) => one.database === database);
      if (gid == null || owner == null || placement === undefined || !isRoleOf(placement, owner)) continue;
      await rollBack(tenancy, placement, owner, gid);
    }
  });
}

/** A prepared transaction can be rolled back only in its database, and only by a superuser or its owner. */
async function rollBack(tenancy: Tenancy, placement: Placement, owner: string, gid: string): Promise<void> {
  const { database } = placement;
  const { address } = tenancy.serverOf(placement);
  const roll = async (session: Session): Promise<void> => {
    try {
      await session.query(sql`ROLLBACK PREPARED ${literal(gid)}`);
    } catch (error) {
      // Another instance may have been faster.
      if (!hasSqlstate(error, SQLSTATE.UNDEFINED_OBJECT)) throw error;
    }
  };
  try {
    await withServiceSession(address, database, roll);
  } catch (error) {
    if (!hasSqlstate(error, SQLSTATE.INSUFFICIENT_PRIVILEGE)) throw error;
    // The owner may have changed its password.
    await withServiceSession(address, database, (session) =>
      resetRoles(session, placement, (role) => tenancy.roleOptions(role)),
    );
    await withSession(await roleLogin(tenancy, placement, owner, { search_path: 'pg_catalog' }), roll);
  }
}

const hasSqlstate = (error: unknown, sqlstate: string): boolean =>
  error instanceof PostgresError && error.sqlstate === sqlstate;
