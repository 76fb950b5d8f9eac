/**
 * Statements of the service's own that Postgres ended because another session was in the way: a deadlock, or a row of
 * its catalog that somebody else changed or made at the same moment. Nothing of them was done, and they can be run
 * again.
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
      // "tuple concurrently updated" or "deleted": there is no state for it, and the message may be in any language.
      return error.fields.source === 'heapam.c';
    default:
      return false;
  }
}

const ATTEMPTS = 6;
const PAUSE_MS = 50;

/**
 * Runs `work` until nobody is in its way, six times at most.
 * @param work may have been done in part before, and leaves no transaction open
 * @throws what `work` throws
 */
export async function retryOnContention<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isContention(error) || attempt === ATTEMPTS) throw error;
      // Two that met once do not meet again in step.
      await sleep(PAUSE_MS * attempt * (1 + Math.random()));
    }
  }
}
