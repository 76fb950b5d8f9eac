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

interface CommitOptions {
  /** The request has an Idempotency-Key: a repeat cannot do the work twice. */
  readonly hasKey?: boolean;
  /** Resets the session in the same round trip. */
  readonly reset?: boolean;
}

/**
 * Runs the last statements of a transaction and its COMMIT in one round trip. Writes of requests call `Write.commit`.
 * @throws PostgresError if Postgres refused; EngineError outcome_unknown if the connection was lost on the way, or the
 * commit was canceled while it waited for a synchronous standby
 */
export async function commit(
  session: Session,
  statements: readonly Statement[],
  { hasKey = false, reset = false }: CommitOptions = {},
): Promise<void> {
  const outcome = await session.pipeline([...statements, COMMIT], { reset });
  resultsOrOutcomeUnknown(session, outcome, statements.length, hasKey);
}

/**
 * The results of a pipeline that ended in a commit.
 * @param stepsBeforeCommit their number
 * @throws what {@link commit} throws
 */
export function resultsOrOutcomeUnknown(
  session: Session,
  { results, error }: Outcome,
  stepsBeforeCommit: number,
  hasKey: boolean,
): Result[] {
  if (error === null) return results;
  // Postgres was ordered to end the connection, and reported that before the COMMIT.
  if (isShutdown(error) && results.length < stepsBeforeCommit) throw error;
  throw commitError(session, error, hasKey);
}

/** What to report of an error at the end of a transaction: outcome_unknown if the commit may have taken effect. */
export function commitError(session: Session, cause: unknown, hasKey: boolean): unknown {
  const isNotReplicated = cause instanceof CommitNotReplicated;
  if (!isNotReplicated && !(cause instanceof ConnectionLost) && !session.closed) return cause;
  const what = isNotReplicated ? cause.message : 'The connection to Postgres was lost during the commit';
  const advice = hasKey
    ? 'retry with the same Idempotency-Key, which settles it'
    : 'check what was stored before retrying; a request with an Idempotency-Key can be retried at once';
  return new EngineError('outcome_unknown', `${what}: ${advice}`, { cause, retryAfter: hasKey ? undefined : null });
}
