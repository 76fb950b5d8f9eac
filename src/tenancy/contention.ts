/**
 * Retries statements of the service that fail because of another session: with a deadlock, or because the other has
 * changed or inserted the same row of the catalog. They have had no effect, and can be run again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { PostgresError, SQLSTATE } from '../pg/index.js';

function isContention(error: unknown): boolean {
  if (!(error instanceof PostgresError)) return false;
  switch (error.sqlstate) {
    case SQLSTATE.DEADLOCK_DETECTED:
      return true;
    case SQLSTATE.UNIQUE_VIOLATION:
      return error.fields.schema === 'pg_catalog';
    case SQLSTATE.INTERNAL_ERROR:
      // "tuple concurrently updated" or "deleted": it has no SQLSTATE, and the message may be in any language.
      return error.fields.source === 'heapam.c';
    default:
      return false;
  }
}

const ATTEMPTS = 6;
const PAUSE_MS = 50;

/**
 * Runs `work` until no other session conflicts with it, at most six times.
 * @param work can be repeated after it was partly done, and leaves no transaction open
 * @throws what `work` throws
 */
export async function retryOnContention<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isContention(error) || attempt === ATTEMPTS) throw error;
      // A random pause, so that two sessions do not collide again.
      await sleep(PAUSE_MS * attempt * (1 + Math.random()));
    }
  }
}
