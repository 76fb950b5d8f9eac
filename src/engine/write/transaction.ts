/** Commits transactions; reports outcome_unknown if the connection is lost during the commit. */
import { EngineError } from '../../contract/errors.js';
import {
  COMMIT,
  CommitNotReplicated,
  ConnectionLost,
  isShutdown,
  type Outcome,
  type Result,
  type Session,
  type Statement,
} from '../../pg/index.js';
import type { DryRun } from '../database/dry-run.js';

/**
 * Runs the last statements of a transaction and its COMMIT in one round trip.
 * @param hasKey a repeat of the request cannot do the work twice, because it has an Idempotency-Key
 * @param dryRun if given, everything is rolled back instead
 * @throws PostgresError if Postgres refused; EngineError outcome_unknown if the connection was lost on the way, or the
 * commit was canceled while it waited for a synchronous standby
 */
export async function commit(
  session: Session,
  statements: readonly Statement[] = [],
  hasKey = false,
  dryRun: DryRun | null = null,
): Promise<Result[]> {
  if (dryRun !== null) return dryRun.end(session, statements);
  return resultsOf(session, await session.pipeline([...statements, COMMIT]), statements.length, hasKey);
}

/** {@link commit} with a reset of the session in the same round trip. */
export async function commitAndReset(
  session: Session,
  statements: readonly Statement[],
  hasKey: boolean,
  dryRun: DryRun | null = null,
): Promise<void> {
  if (dryRun !== null) {
    await dryRun.end(session, statements);
    return session.reset();
  }
  const outcome = await session.pipeline([...statements, COMMIT], { reset: true });
  resultsOf(session, outcome, statements.length, hasKey);
}

/**
 * The results of a pipeline that ended in a commit.
 * @param before the number of steps before the commit
 * @throws what {@link commit} throws
 */
export function resultsOf(session: Session, outcome: Outcome, before: number, hasKey: boolean): Result[] {
  const { results, error } = outcome;
  if (error === null) return results;
  // Postgres was ordered to end the connection, and reported that before the COMMIT.
  if (isShutdown(error) && results.length < before) throw error;
  if (isUnknown(session, error)) throw outcomeUnknown(error, hasKey);
  throw error;
}

/** Whether an error at the end of a transaction leaves its outcome unknown. */
export const isUnknown = (session: Session, error: unknown): boolean =>
  error instanceof CommitNotReplicated || error instanceof ConnectionLost || session.closed;

export function outcomeUnknown(cause: unknown, hasKey: boolean): EngineError {
  const advice = hasKey
    ? 'retry with the same Idempotency-Key, which settles it'
    : 'check what was stored before retrying; a request with an Idempotency-Key can be retried at once';
  const what =
    cause instanceof CommitNotReplicated ? cause.message : 'The connection to Postgres was lost during the commit';
  return new EngineError('outcome_unknown', `${what}: ${advice}`, {
    cause,
    ...(hasKey ? {} : { retryAfter: null }),
  });
}
