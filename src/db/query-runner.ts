/** What the work on a project's database can do: run statements, describe, fetch, pause. */
import {
  PostgresError,
  type RowHandler,
  readCommandTag,
  type FieldDescription,
  type Step,
  type Result,
  type PipelineOptions,
  type Outcome,
  type Row,
  type StatementDescription,
  type Session,
  type Statement,
  ROLLBACK,
} from '../pg/index.js';
import type { PooledConnection } from '../tenancy/connections/project-connection-pool.js';
import { isReader } from '../tenancy/connections/session-settings.js';
import type { RequestTimer } from './backend-request.js';

/** What a read of the schema shows: everything, or only what the role of the session may use. */
export type Shown = 'all' | 'usable';

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
    const preamble = this.takePreamble();
    const { results, error } = await this.session.pipeline([...preamble, ...steps], options);
    return { results: results.slice(preamble.length), error };
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
    const preamble = this.takePreamble();
    return this.session.describe(text, [...preamble, ...before]);
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

  /** For work in parts, each of which may take as long as a request: the time limit begins anew. */
  restartClock(): void {
    this.timer.restart();
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

  /** A role that the project has made sees only those tables and columns that it may use. */
  get shown(): Shown {
    return this.connection.owner.role === null ? 'all' : 'usable';
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
