/** Ends of a transaction, and the truth about one whose end nobody saw. */
import { EngineError } from '../contract/errors.js';
import { ConnectionLost, isShutdown } from '../postgres/errors.js';
import { COMMIT, type Statement } from '../postgres/sql.js';
import type { Session } from '../postgres/wire/session.js';
import type { TextResult } from '../postgres/wire/text-results.js';

/**
 * Runs the last statements of a transaction and its COMMIT in one round trip.
 * @param repeatable a repeat of the request cannot do the work twice (it has an Idempotency-Key)
 * @throws PostgresError where Postgres refused; EngineError outcome_unknown where the connection was lost on the way
 */
export function commit(
  session: Session,
  statements: readonly Statement[] = [],
  repeatable = false,
): Promise<TextResult[]> {
  return outcomeOf(session, statements.length, repeatable, () => session.run([...statements, COMMIT]));
}

/** Runs COMMIT and a reset of the session in one round trip. @throws what {@link commit} throws */
export async function commitAndReset(session: Session): Promise<void> {
  await outcomeOf(session, 0, false, () => session.runAndReset([COMMIT]));
}

/** @param before how many statements stand before the COMMIT */
async function outcomeOf<T>(
  session: Session,
  before: number,
  repeatable: boolean,
  committing: () => Promise<T>,
): Promise<T> {
  const completedBefore = session.completed;
  try {
    return await committing();
  } catch (error) {
    // Postgres was told to end the connection, and said so before it had come to the COMMIT.
    if (isShutdown(error) && session.completed - completedBefore < before) throw error;
    if (error instanceof ConnectionLost || session.closed) throw outcomeUnknown(error, repeatable);
    throw error;
  }
}

export function outcomeUnknown(cause: unknown, repeatable: boolean): EngineError {
  const advice = repeatable
    ? 'repeat the request with the same Idempotency-Key, which settles it'
    : 'check what is there before you repeat the request; a batch with an Idempotency-Key can be repeated at once';
  return new EngineError('outcome_unknown', `The connection to Postgres was lost during the commit: ${advice}`, {
    cause,
    retryAfter: repeatable ? 1 : null,
  });
}

/** A statement was committed, but what came back cannot be passed on. */
export const notShown = (cause: unknown): EngineError =>
  new EngineError(
    'outcome_unknown',
    'The statement was carried out, but its rows cannot be shown. Check what is there before you repeat it',
    { cause, retryAfter: null },
  );
