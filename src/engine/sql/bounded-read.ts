/**
 * Reads that may run at a streaming replica of the project's server (docs/decisions/0048-replicas.md). If a replica
 * cannot answer, the primary does.
 */
import { EngineError } from '../../contract/errors.js';
import { SQLSTATE } from '../../pg/index.js';
import type { Project } from '../project.js';
import { NotReplayed } from '../database/position.js';

export type ServedBy = 'replica' | 'primary';

/**
 * @param position of a write that the read must see; undefined: it may see an older state
 * @param read runs at a replica, and again at the primary if the replica fails it
 * @param hasBegun whether part of the response has gone out, so that the read cannot run again
 * @throws what `read` throws at the primary, or at the replica if the replica is not the cause
 */
export async function boundedRead<T>(
  project: Project,
  position: string | undefined,
  read: (project: Project, servedBy: ServedBy) => Promise<T>,
  hasBegun: () => boolean,
): Promise<T> {
  const replica = project.atReplica(position);
  if (replica !== null) {
    try {
      return await read(replica, 'replica');
    } catch (error) {
      if (hasBegun() || !isOfReplica(error)) throw error;
    }
  }
  return read(project, 'primary');
}

/**
 * Errors of operations that a hot standby refuses but a primary may allow (Postgres manual, 26.4.1): unlogged tables,
 * transaction ids, locks. The primary decides.
 */
const REFUSED_IN_RECOVERY = new Set<string | undefined>([
  SQLSTATE.FEATURE_NOT_SUPPORTED,
  SQLSTATE.OBJECT_NOT_IN_PREREQUISITE_STATE,
  SQLSTATE.READ_ONLY_SQL_TRANSACTION,
]);

/** The replica lags, cannot be reached, or has canceled the statement because of a conflict with recovery. */
function isOfReplica(error: unknown): boolean {
  if (error instanceof NotReplayed) return true;
  if (!(error instanceof EngineError)) return false;
  const sqlstate = error.postgres?.sqlstate;
  return (
    error.code === 'database_unavailable' || sqlstate?.startsWith('40') === true || REFUSED_IN_RECOVERY.has(sqlstate)
  );
}
