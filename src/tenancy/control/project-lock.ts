/**
 * The lock of a project in the control database, held while the project is created, moved, repaired or deleted. It
 * excludes other instances and commands, and ends with the process.
 */
import { EngineError } from '../../contract/errors.js';
import { PostgresError, type ServerAddress, sql, SQLSTATE } from '../../pg/index.js';
import { withServiceSession } from '../service-pool.js';
import { serviceWork } from '../service-work.js';

/**
 * Runs `work` while a separate session holds the lock, since `work` needs those of the pool.
 * @param address of the control database
 * @param work gets a signal that is aborted if the session ends: from then on another process may hold the lock
 * @param waitMs how long to wait for the holder, at least 1
 * @returns null if the lock stayed taken
 */
export function tryWithProjectLock<T>(
  address: ServerAddress,
  id: string,
  work: (lost: AbortSignal) => Promise<T>,
  waitMs = 1,
): Promise<T | null> {
  return serviceWork(() =>
    withServiceSession(address, address.database, async (session) => {
      const lost = new AbortController();
      session.onClose((cause) => lost.abort(lockLost(cause)));
      try {
        await session.run([
          sql`SELECT set_config('lock_timeout', ${waitMs}, false)`,
          sql`SELECT pg_advisory_lock(hashtextextended(${id}, 0))`,
        ]);
      } catch (error) {
        if (error instanceof PostgresError && error.sqlstate === SQLSTATE.LOCK_NOT_AVAILABLE) return null;
        throw error;
      }
      return work(lost.signal);
    }),
  );
}

const lockLost = (cause: Error): EngineError =>
  new EngineError('database_unavailable', "The project's lock was lost with the connection to the control database", {
    cause,
  });
