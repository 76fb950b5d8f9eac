/**
 * A transaction of a request in its project's database, and how it ends. `Project.read` and `Project.write` begin one; the
 * work returns its end, so that none can be forgotten.
 */
import { EngineError } from '../contract/errors.js';
import {
  BEGIN,
  COMMIT,
  CommitNotReplicated,
  ConnectionLost,
  isShutdown,
  type Outcome,
  type PostgresError,
  type Result,
  type Session,
  type Statement,
  type Step,
} from '../pg/index.js';
import type { Replayable } from './idempotency.js';
import type { QueryRunner } from './query-runner.js';

/** `A`: the response that is stored under the Idempotency-Key; `T`: what the caller gets. */
export type WriteEnd<A, T> =
  CommitPlan<A, T> | { readonly rollback: T } | { readonly afterRollback: (db: QueryRunner) => Promise<T> };

/** A write: how it ends. */
export type WriteWork<A, T> = (db: QueryRunner) => WriteEnd<A, T> | Promise<WriteEnd<A, T>>;

export interface CommitPlan<A, T> {
  /** Stored under the key, if the request has one. */
  readonly response: A;
  /** The number of rows that a batch has stored or deleted. */
  readonly rows?: number;
  /** Statements for the round trip of the COMMIT. If they are all there is, they are one implicit transaction. */
  readonly beforeCommit?: readonly Step[];
  /** Whether `beforeCommit` stay prepared in the session. */
  readonly prepared?: boolean;
  /** @param results of `beforeCommit` */
  readonly resultOf: (results: readonly Result[]) => T;
  /**
   * Called if Postgres refuses one of `beforeCommit`, or the commit.
   * @param done results of the statements before the refused one
   * @param db after the rollback, without a transaction
   * @throws the error for the caller
   */
  readonly onRefused?: (error: PostgresError, done: readonly Result[], db: QueryRunner) => T | Promise<T>;
}

/**
 * The end of most writes: commits, and answers with the response that is stored under the key.
 * @param onRefused see {@link CommitPlan.onRefused}
 */
export const planCommit = <A>(
  response: A,
  beforeCommit: readonly Step[] = [],
  more: { readonly rows?: number; readonly onRefused?: (error: PostgresError, db: QueryRunner) => Promise<never> } = {},
): CommitPlan<A, Replayable<A>> => {
  const { rows, onRefused } = more;
  const resultOf = () => ({ response, replayed: false });
  return {
    response,
    beforeCommit,
    resultOf,
    ...(rows !== undefined && { rows }),
    ...(onRefused !== undefined && { onRefused: (error, _, db) => onRefused(error, db) }),
  };
};

interface CommitOptions {
  /** Its response is stored under an Idempotency-Key. */
  readonly hasKey?: boolean;
  /** A repeat cannot do the work twice, even without a key. */
  readonly isIdempotent?: boolean;
  readonly prepared?: boolean;
  /** Resets the session in the same round trip. */
  readonly reset?: boolean;
}

/**
 * Runs the last statements of a transaction with its COMMIT in one round trip.
 * @param preamble statements that begin it; none: it has begun
 * @param beforeCommit those of the caller; `stored` follow them
 * @returns results of `beforeCommit`, and the error, if there is one: PostgresError if Postgres refused; EngineError
 * outcome_unknown if the connection was lost on the way, or the commit was canceled while it waited for a synchronous
 * standby
 */
export async function runCommit(
  session: Session,
  preamble: readonly Statement[],
  beforeCommit: readonly Step[],
  stored: readonly Statement[],
  { hasKey = false, isIdempotent = false, ...options }: CommitOptions = {},
): Promise<{ results: readonly Result[]; error: Error | null }> {
  const steps = [...beforeCommit, ...stored];
  // Without BEGIN, the statements of a round trip are one transaction (Postgres manual, Pipelining).
  const isImplicit = steps.length > 0 && preamble.length === 1 && preamble[0] === BEGIN;
  const begin = isImplicit ? [] : preamble;
  const outcome = await session.pipeline([...begin, ...steps, ...(isImplicit ? [] : [COMMIT])], options);
  const results = outcome.results.slice(begin.length, begin.length + beforeCommit.length);
  return { results, error: errorOfCommit(session, outcome, begin.length + steps.length, { hasKey, isIdempotent }) };
}

function errorOfCommit(session: Session, { results, error }: Outcome, stepsBeforeCommit: number, repeats: Repeats) {
  if (error === null) return null;
  // Postgres was ordered to end the connection, and reported that before the COMMIT.
  if (isShutdown(error) && results.length < stepsBeforeCommit) return error;
  return commitError(session, error, repeats);
}

type Repeats = Pick<CommitOptions, 'hasKey' | 'isIdempotent'>;

/** What to report of an error at the end of a transaction: outcome_unknown if the commit may have taken effect. */
export function commitError<E>(
  session: Session,
  cause: E,
  { hasKey = false, isIdempotent = false }: Repeats = {},
): E | EngineError {
  const isNotReplicated = cause instanceof CommitNotReplicated;
  if (!isNotReplicated && !(cause instanceof ConnectionLost) && !session.closed) return cause;
  const what = isNotReplicated ? cause.message : 'The connection to Postgres was lost during the commit';
  const advice = hasKey
    ? 'retry with the same Idempotency-Key, which settles it'
    : isIdempotent
      ? 'retry, which does nothing twice'
      : 'check what was stored before retrying; a request with an Idempotency-Key can be retried at once';
  return new EngineError('outcome_unknown', `${what}: ${advice}`, {
    cause,
    retryAfter: hasKey || isIdempotent ? undefined : null,
  });
}
