/** Collects statistics for a moved project: a copy has none, and until autovacuum runs, the planner would guess. */
import { sql, startupOptions, withSession } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { type Tenancy, withServer } from '../../tenancy/tenancy.js';

/**
 * Runs as the writer, because index expressions may call the project's code.
 * @throws PostgresError, ConnectionLost, EngineError database_unavailable; the signal's reason
 */
export function analyze(tenancy: Tenancy, placement: Placement, signal: AbortSignal): Promise<void> {
  const { database, writer } = placement;
  const server = tenancy.serverOf(placement);
  const login = {
    ...server.address,
    database,
    user: writer,
    password: tenancy.password(writer),
    application_name: 'cdp move',
    options: startupOptions({ search_path: 'pg_catalog' }),
  };
  return withServer(server, () =>
    withSession(login, async (session) => void (await session.query(sql`ANALYZE`)), signal),
  );
}
