/**
 * The lock of a project in the control database, held while the project is created, moved, repaired or deleted. It
 * excludes other instances and commands, and ends with the process.
 */
import { EngineError } from '../../contract/errors.js';
import { type ServerAddress, sql } from '../../pg/index.js';
import { LockHeld, takeAdvisoryLock } from '../locks.js';
import { withServiceSession } from '../service-pool.js';
import { serviceWork } from '../postgres-errors.js';
import type { ProjectRow } from './control-rows.js';

/** Another process holds the lock. */
export const NOT_LOCKED = Symbol('not locked');

/** How long to wait for another process that is creating, moving, repairing or deleting the same project. */
export const PROJECT_LOCK_WAIT_MS = 5_000;

/**
 * Runs `work` while a separate session holds the lock, since `work` needs those of the pool.
 * @param address of the control database
 * @param work gets a signal that is aborted if the session ends: from then on another process may hold the lock
 * @throws EngineError request_in_flight if another process holds the lock for longer, with a cause that names it for
 * operators; database_unavailable; what `work` throws
 */
export const withProjectLock = <T>(
  address: ServerAddress,
  { id, name }: Pick<ProjectRow, 'id' | 'name'>,
  work: (lost: AbortSignal) => Promise<T>,
): Promise<T> =>
  locked(address, id, work, PROJECT_LOCK_WAIT_MS, (held) => {
    throw inUseElsewhere(name, held);
  });

/**
 * As {@link withProjectLock}.
 * @param waitMs how long to wait for the holder, at least 1
 * @returns NOT_LOCKED, without `work`, if the lock stayed taken
 */
export const tryWithProjectLock = <T>(
  address: ServerAddress,
  id: string,
  work: (lost: AbortSignal) => Promise<T>,
  waitMs = 1,
): Promise<T | typeof NOT_LOCKED> => locked(address, id, work, waitMs, () => NOT_LOCKED);

/** @param taken called instead of `work` if the lock stays taken, with an error that names the holder */
function locked<T, R>(
  address: ServerAddress,
  id: string,
  work: (lost: AbortSignal) => Promise<T>,
  waitMs: number,
  taken: (held: LockHeld) => R,
): Promise<T | R> {
  return serviceWork(() =>
    withServiceSession(address, address.database, async (session) => {
      const lost = new AbortController();
      session.onClose((cause) => lost.abort(lockLost(cause)));
      try {
        await takeAdvisoryLock(session, sql`hashtextextended(${id}, 0)`, { name: "The project's lock", ms: waitMs });
      } catch (error) {
        if (error instanceof LockHeld) return taken(error);
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

/** @param cause who holds the lock, for operators */
export const inUseElsewhere = (name: string, cause?: Error) =>
  new EngineError(
    'request_in_flight',
    `Project "${name}" is being created, moved, repaired or deleted by another request`,
    { cause },
  );
