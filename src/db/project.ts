/**
 * A project as the operations of one request see it: which one it is, and the two ways to its database, `read` and
 * `write`.
 */
import type { Schema } from '../contract/schema.js';
import type { Consistency } from '../contract/servers.js';
import { BEGIN, PostgresError, ROLLBACK, type Statement } from '../pg/index.js';
import type { PooledConnection } from '../tenancy/connections/project-connection-pool.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import type { DatabaseAccess, ConnectionUse, RequestedConnection } from './database-access.js';
import { type RequestTimer, type Deadline, queryTimeout } from './backend-request.js';
import { DryRun } from './dry-run.js';
import { claimKey, type IdempotencyKey, storeResponse } from './idempotency.js';
import { type ChunkKey, claimChunk, storeChunk } from './stream-keys.js';
import { positionOf, UNKNOWN_POSITION } from './position.js';
import type { Growth } from './quota.js';
import type { RequestTrace } from './trace.js';
import { type CommitPlan, commitError, runCommit, type WriteWork } from './transaction.js';
import { QueryRunner } from './query-runner.js';
import { WaitBudget } from './wait-budget.js';

/** Whose login a callback uses, and how long it may take. */
interface UseOptions extends Partial<Pick<Deadline, 'timeoutMs' | 'timeoutError'>> {
  /** Aborted when the client disconnects, or with the EngineError that ends its request. */
  readonly signal: AbortSignal;
  /** Default: `write`, the service's own work as the writer. */
  readonly connection?: RequestedConnection;
  /** Default: the trace of the request. */
  readonly trace?: RequestTrace | null | undefined;
}

export interface ReadOptions extends UseOptions {
  /** Begin a transaction, which is rolled back, and resets the session. Default: none; each round trip is by itself. */
  readonly preamble?: readonly Statement[];
}

/** `A`: the response that is stored under a key; never: the operation takes none. */
export interface WriteOptions<A> extends UseOptions {
  /** What it does to the size of the project. Default: `grows`, which needs room within the quota. */
  readonly growth?: Growth;
  /** Lets a repeat with the same Idempotency-Key get the response to the first request. */
  readonly underKey?: {
    /** null: the request has none. */
    readonly key: IdempotencyKey | null;
    /** The schema of the stored response. */
    readonly responseSchema: Schema<A>;
  };
  /** Begins the transaction. Default, and always with a key: BEGIN. */
  readonly begin?: Statement;
  /** Statements to run after that, in the same round trip. */
  readonly afterBegin?: readonly Statement[];
  /** A repeat cannot do it twice, even without a key: an unknown outcome may be retried. */
  readonly isIdempotent?: boolean;
  /** The end of the transaction resets the session in the same round trip. */
  readonly reset?: boolean;
}

/** How long a request may use Postgres, unless it says otherwise (contract C8.10). */
const TIMEOUT_MS = 30_000;

/** What a request's view of its project is made of. */
interface ProjectParts {
  readonly row: ProjectRow;
  readonly database: DatabaseAccess;
  /** Trace of the request; null: it is not traced. */
  readonly trace: RequestTrace | null;
  /**
   * The role as which the request does everything, one that the project has made; null: as the writer, or where it says
   * so, as the reader.
   */
  readonly role: string | null;
  /** The replica to read from, and the position that it must have reached; default: the server where the project lives. */
  readonly replica?: ConnectionUse['replica'];
  /** How long this request may still wait, in any queue. Default: as long as the setting says. */
  readonly waitBudget?: WaitBudget;
  /** The time in which a connection has worked for the request. */
  readonly spent?: { ms: number };
  /** Default: the request's changes are kept. */
  readonly dryRun?: DryRun | null;
}

export class Project {
  readonly row: ProjectRow;
  readonly role: string | null;
  readonly trace: RequestTrace | null;
  readonly waitBudget: WaitBudget;
  readonly dryRun: DryRun | null;
  readonly spent: { ms: number };
  private readonly database: DatabaseAccess;
  private readonly replica: ConnectionUse['replica'];

  constructor(private readonly parts: ProjectParts) {
    const { row, role, trace, database } = parts;
    this.row = row;
    this.role = role;
    this.trace = trace;
    this.database = database;
    this.waitBudget = parts.waitBudget ?? new WaitBudget(database.waitMs);
    this.replica = parts.replica ?? null;
    this.dryRun = parts.dryRun ?? null;
    this.spent = parts.spent ?? { ms: 0 };
  }

  /** The project for a request whose changes are rolled back at the end. */
  inDryRun(): Project {
    return this.with({ dryRun: new DryRun(this.schema) });
  }

  /** For the same request, as a role that the project has made; null: as its writer or reader. */
  asRole(role: string | null): Project {
    return this.with({ role });
  }

  /** For the next chunk of a stream, which may wait as long as a request of its own. */
  forNextChunk(): Project {
    return this.with({ waitBudget: new WaitBudget(this.database.waitMs) });
  }

  /** For the same request, and its time to wait. */
  private with(parts: Partial<ProjectParts>): Project {
    return new Project({ ...this.parts, waitBudget: this.waitBudget, spent: this.spent, ...parts });
  }

  get id(): string {
    return this.row.id;
  }

  get name(): string {
    return this.row.name;
  }

  /** Includes the place, since what is cached about tables holds only there, and the role, which shares no COPY. */
  get cacheKey(): string {
    const { id, placement } = this.row;
    return `${id} ${placement.server} ${placement.database} ${this.role ?? ''}`;
  }

  get schema(): string {
    return this.row.placement.schema;
  }

  /** Whether the rows of its tables may be distributed over several machines. */
  get distributesTables(): boolean {
    return this.database.servers.tenancyOf(this.row.placement).distributesTables;
  }

  /** Whether the server has streaming replicas. */
  get hasReplicas(): boolean {
    return this.row.replicas !== null;
  }

  /** The default for reads that do not specify one. */
  get consistency(): Consistency {
    return this.row.replicas?.consistency ?? 'strong';
  }

  /**
   * The project at a replica, for reads.
   * @param position that the replica must have reached, see `position.ts`
   * @returns null if no replica answers
   */
  atReplica(position: string | undefined): Project | null {
    const at = this.database.servers.replicas.next(this.row.replicas?.references ?? []);
    return at && this.with({ replica: { at, position }, dryRun: null });
  }

  /** The position of its server after everything committed so far. Never rejects: the write has already succeeded. */
  async position(): Promise<string> {
    try {
      return await positionOf(this.database.servers.serverOf(this.row.placement));
    } catch {
      // The server's URL has been replaced since the write began.
      return UNKNOWN_POSITION;
    }
  }

  /** Call this if SQL of the project may have changed the rights of its roles: its next connections check them. */
  recheckRights(): void {
    this.database.recheckRights(this.id);
  }

  /** @throws EngineError quota_exceeded, disk_full, database_unavailable */
  requireRoom(growth: Growth): Promise<void> | undefined {
    return this.database.quotas.requireRoom(this.row, growth);
  }

  /** Its disk quota in bytes; null: none. */
  get quota(): number | null {
    return this.database.quotas.quotaOf(this.row);
  }

  /** Whether it can only be read, because its disk is nearly full. */
  get isReadOnly(): boolean {
    return this.database.quotas.isDiskLow(this.row);
  }

  /** null without waiting if the project has no quota. @throws EngineError database_unavailable */
  overQuota(): ReturnType<DatabaseAccess['quotas']['overQuota']> {
    return this.database.quotas.overQuota(this.row);
  }

  /**
   * Runs a callback that changes nothing. It may run twice: a connection that had died while it was idle is replaced.
   * @throws EngineError overloaded, database_unavailable, the error of its time limit, and what the callback throws
   */
  read<T>(options: ReadOptions, work: (db: QueryRunner) => Promise<T>): Promise<T> {
    const { preamble = [] } = options;
    return this.use(options, 'none', async (connection, timer) => {
      const db = new QueryRunner(connection, timer, preamble);
      const value = await runAndClose(db, () => work(db));
      if (connection.session.inTransaction) await connection.session.run([ROLLBACK], { reset: true });
      return value;
    });
  }

  /**
   * Runs a write in one transaction, and ends it as the callback says: a commit stores the response under the request's
   * Idempotency-Key, if it has one; in a dry run it is rolled back. The callback may run twice, as in {@link read}.
   * @returns what the end answers, or the response to an earlier request with the key
   * @throws EngineError as {@link read}; quota_exceeded, disk_full if it grows, outcome_unknown; with a key also request_in_flight,
   * idempotency_key_reused, key_settled
   */
  async write<T>(options: WriteOptions<never>, work: WriteWork<unknown, T>): Promise<T>;
  async write<T, A>(options: WriteOptions<A>, work: WriteWork<A, T>): Promise<T | { response: A; replayed: true }>;
  async write<T, A>(options: WriteOptions<A>, work: WriteWork<A, T>): Promise<T | { response: A; replayed: true }> {
    const { key = null, responseSchema } = options.underKey ?? {};
    if (key === null || responseSchema === undefined) return this.writeWithoutKey(options, work);
    return this.writeUnderKey(options, key, responseSchema, work);
  }

  private async writeWithoutKey<T, A>(options: WriteOptions<A>, work: WriteWork<A, T>): Promise<T> {
    const { growth = 'grows', begin = BEGIN, afterBegin = [] } = options;
    await this.requireRoom(growth);
    return this.use(options, growth, async (connection, timer) => {
      const beginTransaction = async (): Promise<readonly Statement[]> => {
        await this.dryRun?.begin(connection.session);
        return [begin, ...afterBegin];
      };
      const db = new QueryRunner(connection, timer, await beginTransaction(), beginTransaction);
      return this.finishWrite(connection, timer, db, work, options);
    });
  }

  /** Runs a write while it holds the key. */
  private writeUnderKey<T, A>(
    options: WriteOptions<A>,
    key: IdempotencyKey,
    responseSchema: Schema<A>,
    work: WriteWork<A, T>,
  ): Promise<T | { response: A; replayed: true }> {
    const { growth = 'grows', afterBegin = [] } = options;
    return this.use(options, growth, async (connection, timer) => {
      const { session } = connection;
      try {
        const earlier = isOfChunk(key)
          ? await claimChunk(session, this.role, key)
          : await claimKey(session, this.role, key, responseSchema);
        if (earlier === null) {
          // Checked only now: a repeat gets its response even without room.
          await this.requireRoom(growth);
          return await this.finishWrite(
            connection,
            timer,
            new QueryRunner(connection, timer, afterBegin),
            work,
            options,
            key,
          );
        }
        const { error } = await runCommit(session, [], [], [], { hasKey: true });
        if (error !== null) throw error;
        return { response: earlier.response, replayed: true };
      } finally {
        // A repeat may arrive as soon as the response is sent: by then the key must be free.
        if (!session.closed && session.inTransaction) await session.run([ROLLBACK]);
      }
    });
  }

  /** Runs the callback, and ends its transaction. */
  private async finishWrite<T, A>(
    connection: PooledConnection,
    timer: RequestTimer,
    db: QueryRunner,
    work: WriteWork<A, T>,
    options: WriteOptions<A>,
    key: IdempotencyKey | null = null,
  ): Promise<T> {
    const { session } = connection;
    const end = await runAndClose(db, () => work(db));
    const after = new QueryRunner(connection, timer, []);
    if ('rollback' in end) {
      if (session.inTransaction) await session.run([ROLLBACK], { reset: options.reset ?? false });
      return end.rollback;
    }
    if (!('afterRollback' in end)) return this.commit(connection, db.unsentPreamble, after, end, options, key);
    if (session.inTransaction) await after.rollback();
    return runAndClose(after, () => end.afterRollback(after)).catch((cause: unknown) => {
      throw commitError(session, cause);
    });
  }

  /**
   * Commits; a dry run is rolled back.
   * @param preamble statements that begin the transaction; none: it has begun
   * @param after for what the callback does if Postgres refuses
   */
  private async commit<T, A>(
    { session }: PooledConnection,
    preamble: readonly Statement[],
    after: QueryRunner,
    { response, rows, beforeCommit = [], prepared = false, resultOf, onRefused }: CommitPlan<A, T>,
    { reset = false, isIdempotent = false }: WriteOptions<A>,
    key: IdempotencyKey | null,
  ): Promise<T> {
    const { dryRun } = this;
    const stored = key === null ? [] : this.storedUnder(key, response, rows);
    const options = { hasKey: key !== null, isIdempotent, prepared, reset };
    const { results, error } =
      dryRun === null
        ? await runCommit(session, preamble, beforeCommit, stored, options)
        : await dryRun.end(session, preamble, beforeCommit);
    if (error === null) {
      if (dryRun !== null && reset) await session.reset();
      return resultOf(results);
    }
    if (!(error instanceof PostgresError) || session.closed || onRefused === undefined) throw error;
    if (session.inTransaction) await after.rollback();
    return runAndClose(after, () => onRefused(error, results, after));
  }

  private storedUnder(key: IdempotencyKey, response: unknown, rows: number | undefined): Statement[] {
    return isOfChunk(key) ? storeChunk(this.role, key, response) : storeResponse(this.role, key, response, rows);
  }

  private use<T>(
    options: UseOptions,
    growth: Growth,
    work: (connection: PooledConnection, timer: RequestTimer) => Promise<T>,
  ): Promise<T> {
    const { row, role, waitBudget, replica } = this;
    const { connection = 'write', signal, timeoutMs = TIMEOUT_MS, trace = this.trace } = options;
    const { timeoutError = queryTimeout(timeoutMs) } = options;
    const deadline = { timeoutMs, signal, timeoutError };
    const timed = async (lent: PooledConnection, timer: RequestTimer): Promise<T> => {
      const began = performance.now();
      try {
        return await work(lent, timer);
      } finally {
        this.spent.ms += performance.now() - began;
      }
    };
    return this.database.run({ row, role, waitBudget, replica, connection, deadline, growth, trace }, timed);
  }
}

const isOfChunk = (key: IdempotencyKey): key is ChunkKey => key.chunk !== undefined;

/** Runs a callback and ends its transaction, also if it throws: nothing that it has left running may use the connection. */
async function runAndClose<T>(db: QueryRunner, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } finally {
    db.close();
  }
}
