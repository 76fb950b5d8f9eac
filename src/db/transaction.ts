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
  type StatementDescription,
  type FieldDescription,
  isShutdown,
  type Outcome,
  type PipelineOptions,
  PostgresError,
  readCommandTag,
  type Result,
  ROLLBACK,
  type Row,
  type RowHandler,
  type Session,
  type Statement,
  type Step,
} from '../pg/index.js';
import type { PooledConnection } from '../tenancy/connections/project-connection-pool.js';
import { isReader } from '../tenancy/connections/session-settings.js';
import type { RequestTimer } from './backend-request.js';
import type { Replayable } from './idempotency.js';

/**
 * What a callback of `Project.read` or `Project.write` can do, not necessarily in a transaction. If there is one, the
 * statements that begin it go out with the first others.
 * @throws Error if it is used after the callback has returned
 */
export class QueryRunner {
  private hasEnded = false;

  /**
   * @param preamble statements that begin the transaction; none: it has begun, or there is none
   * @param newPreamble called for another transaction. @returns statements that begin it
   */
  constructor(
    private readonly connection: PooledConnection,
    private readonly timer: RequestTimer,
    private preamble: readonly Statement[],
    private readonly newPreamble: () => Promise<readonly Statement[]> = () => Promise.resolve([]),
  ) {}

  /**
   * Runs statements in one round trip.
   * @returns their results, in order
   * @throws PostgresError of the failed statement, ConnectionLost
   */
  async run(steps: readonly Step[]): Promise<readonly Result[]> {
    const { results, error } = await this.pipeline(steps);
    if (error !== null) throw error;
    return results;
  }

  /** As {@link run}, but returns an error with the results of the statements before it. Never rejects. */
  async pipeline(steps: readonly Step[], options?: PipelineOptions): Promise<Outcome> {
    const opening = this.takePreamble();
    const { results, error } = await this.session.pipeline([...opening, ...steps], options);
    return { results: results.slice(opening.length), error };
  }

  /** The rows of a statement, in text format. @throws as {@link run} */
  async query(statement: Statement): Promise<Row[]> {
    const [result] = await this.run([statement]);
    return result?.rows ?? [];
  }

  /** The number of rows in the command tag of a statement; 0 if it has none. @throws as {@link run} */
  async rowCount(statement: Statement): Promise<number> {
    const [result] = await this.run([statement]);
    return readCommandTag(result?.tag ?? '').count ?? 0;
  }

  /**
   * Rolls back, and goes on outside a transaction.
   * @param steps to run in the same round trip
   * @returns their results
   */
  async rollback(steps: readonly Step[] = []): Promise<readonly Result[]> {
    const results = await this.run([ROLLBACK, ...steps]);
    return results.slice(1);
  }

  /** Rolls back and begins anew; a dry run counts from here on. */
  async restart(): Promise<void> {
    await this.rollback();
    this.preamble = await this.newPreamble();
  }

  /** See {@link Session.describe}. */
  describe(text: string, before: readonly Statement[] = []): Promise<StatementDescription> {
    const opening = this.takePreamble();
    return this.session.describe(text, [...opening, ...before]);
  }

  /** See {@link Session.fetch}. */
  fetch(
    params: readonly (string | null)[],
    formats: readonly number[],
    maxRows: number,
    takeRows: RowHandler,
  ): Promise<string | null> {
    return this.session.fetch(params, formats, maxRows, takeRows);
  }

  /** See {@link Session.fetchMore}. */
  fetchMore(maxRows: number, takeRows: RowHandler): Promise<string | null> {
    return this.session.fetchMore(maxRows, takeRows);
  }

  /** See {@link Session.fetchAtOnce}. */
  fetchAtOnce(text: string, describe: (columns: FieldDescription[]) => void, takeRows: RowHandler): Promise<string> {
    return this.session.fetchAtOnce(text, describe, takeRows);
  }

  /** From now on, also when it commits, warnings of Postgres go to the listener. See {@link Session.onWarning}. */
  listenToWarnings(listener: Session['onWarning']): void {
    this.session.onWarning = listener;
  }

  /** Stops reading from Postgres, and the time limit, until {@link resume}. */
  pause(): void {
    this.session.pause();
    this.timer.pause();
  }

  resume(): void {
    this.timer.resume();
    this.session.unpause();
  }

  /** Waits without counting the time. */
  async pausedFor(wait: Promise<void>): Promise<void> {
    this.timer.pause();
    await wait;
    this.timer.resume();
  }

  /** Call this before the project's code may run: the session is reset before another request uses it. */
  resetAfterUse(): void {
    this.connection.resetAfterUse();
  }

  /** @returns the error, if Postgres refused a statement and the session goes on @throws the error, if not */
  refusal(error: unknown): PostgresError {
    if (!(error instanceof PostgresError) || this.hasLostConnection) throw error;
    return error;
  }

  /** Whether the connection is lost or closed. */
  get hasLostConnection(): boolean {
    return this.connection.session.closed;
  }

  get inTransaction(): boolean {
    return this.session.inTransaction;
  }

  get clientEncoding(): string {
    return this.session.clientEncoding;
  }

  /** Whether it is the reader's session. A project that is being moved has no other. */
  get isReader(): boolean {
    return isReader(this.connection.kind);
  }

  /** Only for `Project`: the callback has returned or thrown. */
  close(): void {
    this.hasEnded = true;
  }

  /** The statements that begin the transaction; none if it has run any. */
  get unsentPreamble(): readonly Statement[] {
    return this.preamble;
  }

  private takePreamble(): readonly Statement[] {
    const { preamble } = this;
    this.preamble = [];
    return preamble;
  }

  private get session(): Session {
    if (this.hasEnded) throw new Error('The transaction has ended');
    return this.connection.session;
  }
}

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
  /** Whether `last` stay prepared in the session. */
  readonly prepared?: boolean;
  /** @param results of `last` */
  readonly resultOf: (results: readonly Result[]) => T;
  /**
   * Called if Postgres refuses one of `last`, or the commit.
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
 * @returns results of `last`, and the error, if there is one: PostgresError if Postgres refused; EngineError
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
