/** Collects statistics for a moved project: a copy has none, and until autovacuum runs, the planner would guess. */
import { sql, withSession } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { roleLogin } from '../../tenancy/role-login.js';
import { type Tenancy, withServer } from '../../tenancy/tenancy.js';

/**
 * Runs as the writer, because index expressions may call the project's code.
 * @throws PostgresError, ConnectionLost, EngineError database_unavailable; the signal's reason
 */
export function analyze(tenancy: Tenancy, placement: Placement, signal: AbortSignal): Promise<void> {
  const login = roleLogin(tenancy, placement, placement.writer, { search_path: 'pg_catalog' }, 'cdp move');
  return withServer(tenancy.serverOf(placement), () =>
    withSession(login, async (session) => void (await session.query(sql`ANALYZE`)), signal),
  );
}
