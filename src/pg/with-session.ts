/** A session for the duration of some work. */
import type { LoginOptions } from './address.js';
import type { ConnectionLimits } from './connection.js';
import { Session } from './session.js';
import { BEGIN, COMMIT, ROLLBACK } from './sql-tag.js';

/**
 * Runs `work` in a short-lived session.
 * @param signal aborted: closes the connection at once, even while it waits
 * @throws PostgresError, ConnectionLost; the signal's reason; what `work` throws
 */
export async function withSession<T>(
  options: LoginOptions & ConnectionLimits,
  work: (session: Session) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  signal?.throwIfAborted();
  let session: Session | undefined;
  const breakOff = () => session?.destroy(signal?.reason as Error);
  signal?.addEventListener('abort', breakOff);
  try {
    session = await Session.connect(options, signal);
    return await work(session);
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  } finally {
    signal?.removeEventListener('abort', breakOff);
    await session?.close();
  }
}

/**
 * Runs `work` in a transaction of the session, or as a part of the one that is open. A failure rolls it back.
 * @throws what `work` throws; PostgresError, ConnectionLost
 */
export async function inTransaction(session: Session, work: () => Promise<void>): Promise<void> {
  if (session.inTransaction) return work();
  await session.query(BEGIN);
  try {
    await work();
    await session.query(COMMIT);
  } catch (error) {
    // If the connection is lost, Postgres rolls back by itself; the first error is the one that tells why.
    await session.query(ROLLBACK).catch(() => {});
    throw error;
  }
}
