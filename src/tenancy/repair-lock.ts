/**
 * The lock on a project's database, or on a template, held while it is migrated or repaired, or while a move changes
 * its fence.
 */
import { type Session, sql } from '../pg/index.js';
import { ADVISORY_LOCKS } from './advisory-locks.js';

/** A holder that is idle for this long has stopped; ending its session lets others take over. */
const IDLE = '30s';

/** Takes the lock for the session. @returns false if it had to wait */
export async function takeRepairLock(session: Session): Promise<boolean> {
  for (const limit of ['idle_session_timeout', 'idle_in_transaction_session_timeout']) {
    await session.query(sql`SELECT set_config(${limit}, ${IDLE}, false)`);
  }
  const [taken] = await session.row(sql`SELECT pg_try_advisory_lock(${ADVISORY_LOCKS.repair})`);
  if (taken === 't') return true;
  await session.query(sql`SELECT pg_advisory_lock(${ADVISORY_LOCKS.repair})`);
  return false;
}
