/** A transaction that takes several round trips. */
import type { Session } from './session.js';
import { BEGIN, COMMIT, ROLLBACK } from './sql.js';

/**
 * Runs `work` in a transaction of the session. A failure rolls it back.
 * @throws what `work` throws; PostgresError, ConnectionLost
 */
export async function inTransaction(session: Session, work: () => Promise<void>): Promise<void> {
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
