/**
 * Free SQL (contract C13): split the text, run its statements in order, commit. One request is one transaction on
 * a connection that logged in as the project's own role; its statements take effect together or not at all.
 */
import type { JsonNode, RowMode, Numbers } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { BEGIN, fixed, SQLSTATE, type Statement } from '../../pg/index.js';
import { projectMovingError } from '../../tenancy/postgres-errors.js';
import { queryTimeout } from '../../db/backend-request.js';
import type { IdempotencyKey } from '../../db/idempotency.js';
import type { Project, ReadOptions } from '../../db/project.js';
import type { Growth, OverQuota } from '../../db/quota.js';
import type { WriteEnd } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import type { EventLoopThrottle } from '../limits/event-loop-throttle.js';
import { QuotaGuard } from './quota-guard.js';
import { leadingKeyword, mainKeyword, mayChangeRights } from '../parser/keywords.js';
import type { ParsingRequest } from '../parser/parser-pool.js';
import type { SplitStatement, Splitter } from '../parser/splitter.js';
import { restoreEncoding } from './client-encoding.js';
import { type BoundStatement, type DescribedStatement, describeStatement, locateError } from './statement.js';
import { StoredResults } from './sql-result.js';
import type { WarningCollector } from './warning-collector.js';

/** What free SQL of all projects shares. */
export interface SqlServices {
  readonly splitter: Splitter;
  readonly throttle: EventLoopThrottle;
}

/** How statements of free SQL run. */
export interface SqlOptions {
  /** Run as the reader, in a READ ONLY transaction. */
  readOnly: boolean;
  timeoutMs: number;
  /** Aborted when the client disconnects, or with the EngineError that ends the request. */
  signal: AbortSignal;
  /** Transaction modes as in BEGIN; if given, nothing runs outside the transaction. */
  transactionModes?: readonly string[];
  /** Takes Postgres's warnings. Default: they are ignored. */
  warnings?: WarningCollector;
  /** Only for a request that is not read-only. */
  key?: IdempotencyKey | null;
}

export interface SqlRequest extends SqlOptions {
  sql: string;
  params: readonly JsonNode[];
}

/** For results that are collected into one response. */
export interface CollectRequest extends SqlRequest {
  maxRows: number;
  /** The most bytes of rows, over all statements. Default: the limit of a response. */
  maxBytes?: number;
  rowMode: RowMode;
  numbers?: Numbers | undefined;
}

/** Executes a statement and keeps its result. */
type CollectResult = (statement: DescribedStatement, isLast: boolean) => Promise<void>;

/**
 * @param collect called for each statement, in order
 * @param resultsToStore the results for a repeat with the same Idempotency-Key; required with a key
 * @returns the stored results of an earlier request with the key; null: the statements have run and are committed
 * @throws EngineError sql_error and other codes in the table of SQLSTATEs, statement_not_allowed, query_timeout,
 * overloaded, outcome_unknown, quota_exceeded; with a key also request_in_flight, idempotency_key_reused, key_settled
 */
export async function runSql(
  { splitter }: SqlServices,
  project: Project,
  request: SqlRequest,
  collect: CollectResult,
  resultsToStore?: () => StoredResults,
): Promise<StoredResults | null> {
  const { sql, params, signal } = request;
  const overQuota = await overQuotaFor(project, request);
  const split = await splitter.split(sql, parsingRequestOf(project, signal), { tellsFreed: overQuota !== null });
  if (params.length > 0 && split.length > 1) {
    throw new EngineError('invalid_request', '"params" can be used only with a single statement');
  }
  const statements = split.map((statement) => ({ params, ...statement }));
  return runStatements(project, request, statements, overQuota, collect, resultsToStore);
}

/** Who waits for the parser. */
export const parsingRequestOf = ({ id, waitBudget }: Project, signal: AbortSignal): ParsingRequest => ({
  projectId: id,
  waitBudget,
  signal,
});

/** Whether the project is over its disk quota, if the request could write. @throws EngineError database_unavailable */
export const overQuotaFor = (project: Project, { readOnly }: SqlOptions): Promise<OverQuota | null> | null =>
  readOnly ? null : project.overQuota();

/**
 * {@link runSql} for statements that have already been split.
 * @param overQuota null: the project is within its quota; otherwise `frees` of each statement must be known
 */
export async function runStatements(
  project: Project,
  requested: SqlOptions,
  statements: readonly BoundStatement[],
  overQuota: OverQuota | null,
  collect: CollectResult,
  resultsToStore?: () => StoredResults,
): Promise<StoredResults | null> {
  const asReader = mayReadWhileMoving(project, requested, statements);
  const options = asReader ? { ...requested, readOnly: true } : requested;
  const { readOnly, transactionModes = readOnly ? ['READ ONLY'] : [], key = null } = options;
  const begin = transactionModes.length === 0 ? BEGIN : fixed(`BEGIN ${transactionModes.join(' ')}`);
  if (readOnly) {
    const preamble = [begin, ...(asReader ? [ROW_SECURITY_OFF] : []), FIRST_QUERY];
    const readOptions: ReadOptions = { ...timesOf(options), connection: 'sql-read', preamble };
    await project
      .read(readOptions, async (db) => void (await runInTransaction(project, options, statements, db, null, collect)))
      .catch((error: unknown) => {
        throw asReader && error instanceof EngineError && error.code === 'permission_denied'
          ? projectMovingError()
          : error;
      });
    return null;
  }
  const guard = overQuota === null ? null : new QuotaGuard(overQuota, statements);
  const writeOptions = {
    ...timesOf(options),
    connection: 'sql-write',
    underKey: { key, responseSchema: StoredResults },
    begin,
    reset: true,
    growth: guard?.growth ?? growthOf(statements),
  } as const;
  try {
    const earlier = await project.write(writeOptions, async (db): Promise<WriteEnd<StoredResults, null>> => {
      const refusedStatement = await runInTransaction(project, options, statements, db, guard, collect);
      const finish = () => {
        if (statements.some(({ text }) => mayChangeRights(text))) project.recheckRights();
        return null;
      };
      if (refusedStatement !== null)
        return { afterRollback: (db) => runOutside(refusedStatement, db, guard, collect).then(finish) };
      if (guard?.freesNothing) {
        await guard.checkNothingWritten(db, key !== null);
        return { rollback: null };
      }
      return { response: key === null ? [] : (resultsToStore?.() ?? []), resultOf: finish };
    });
    return earlier?.response ?? null;
  } catch (error) {
    throw guard === null ? error : guard.asRefusal(error);
  }
}

const timesOf = ({ timeoutMs, signal }: SqlOptions) => ({
  timeoutMs,
  signal,
  timeoutError: queryTimeout(timeoutMs, timeoutMs < LIMITS.timeoutMsMax ? `${MORE_TIME} ${LONGER}` : LONGER),
});

const MORE_TIME = `Allow it more time with timeout_ms, at most ${LIMITS.timeoutMsMax}.`;
const LONGER = 'Longer statements run at the Postgres port (docs/postgres.md).';

/**
 * Runs the statements in order.
 * @returns null; or the only statement, if it has done nothing because Postgres runs it only outside a transaction
 */
async function runInTransaction(
  project: Project,
  options: SqlOptions,
  statements: readonly BoundStatement[],
  db: QueryRunner,
  guard: QuotaGuard | null,
  collect: CollectResult,
): Promise<BoundStatement | null> {
  if (options.warnings !== undefined) db.listenToWarnings(options.warnings.take);
  try {
    for (const [i, statement] of statements.entries()) {
      const { before, after } = guard?.around(statement) ?? UNGUARDED;
      await execute(statement, db, before, collect, i === statements.length - 1);
      if (after.length > 0) await db.run(after);
    }
    return null;
  } catch (error) {
    const refusedStatement = refusedInTransaction(options, statements, error);
    if (refusedStatement === null) throw error;
    if (options.key) throw noPlaceForKey(error);
    if (project.dryRun !== null) throw noDryRun(error);
    return refusedStatement;
  }
}

async function runOutside(
  statement: BoundStatement,
  db: QueryRunner,
  guard: QuotaGuard | null,
  collect: CollectResult,
): Promise<void> {
  const before = guard?.outside(statement) ?? [];
  if (before.length > 0) await db.run(before);
  await execute(statement, db, [], collect, true);
}

/** @param before statements to run first, in the same round trip */
async function execute(
  statement: BoundStatement,
  db: QueryRunner,
  before: readonly Statement[],
  collect: CollectResult,
  isLast: boolean,
): Promise<void> {
  try {
    const described = await describeStatement(db, statement, before);
    await collect(described, isLast);
    await restoreEncoding(db, described);
  } catch (error) {
    throw locateError(error, statement);
  }
}

const UNGUARDED = { before: [], after: [] };

/**
 * The writer may not log in during a move. Queries are tried as the reader: Postgres refuses those that turn out to
 * write.
 */
const mayReadWhileMoving = (
  { row: { isFenced }, role, dryRun }: Project,
  { readOnly, transactionModes, key = null }: SqlOptions,
  statements: readonly BoundStatement[],
): boolean =>
  isFenced &&
  role === null &&
  !readOnly &&
  transactionModes === undefined &&
  dryRun === null &&
  key === null &&
  statements.every(({ text }) => mainKeyword(text) === 'SELECT');

/** Statements that write new files for tables or indexes before removing the old ones. */
const REWRITING = new Set(['CLUSTER', 'REINDEX', 'VACUUM']);

/** Not `grows`: over the quota, {@link QuotaGuard} decides what may run. */
const growthOf = (statements: readonly SplitStatement[]): Growth =>
  statements.every(({ text }) => REWRITING.has(leadingKeyword(text) ?? '')) ? 'rewrites' : 'may grow';

/**
 * The first query of a READ ONLY transaction is ours: after it, Postgres rejects SET TRANSACTION READ WRITE (Postgres
 * manual, SET TRANSACTION), so the caller cannot end the read-only mode.
 */
const FIRST_QUERY = fixed('SELECT 1');

/** Policies hide no rows from the writer, which owns the tables. */
const ROW_SECURITY_OFF = fixed('SET LOCAL row_security = off');

/**
 * First words of the statements that Postgres runs only outside a transaction. The project's code may raise the same
 * SQLSTATE, but not from one of these.
 */
const OUTSIDE_A_TRANSACTION = new Set(['ALTER', 'CLUSTER', 'CREATE', 'DISCARD', 'DROP', 'REINDEX', 'VACUUM']);

/** The only statement, if the error says that Postgres runs it only outside a transaction, and the request allows that. */
function refusedInTransaction(
  { readOnly, transactionModes }: SqlOptions,
  statements: readonly BoundStatement[],
  error: unknown,
): BoundStatement | null {
  const [only, ...others] = statements;
  if (only === undefined || others.length > 0 || readOnly || transactionModes !== undefined) return null;
  const isRefused = error instanceof EngineError && error.postgres?.sqlstate === SQLSTATE.ACTIVE_SQL_TRANSACTION;
  return isRefused && OUTSIDE_A_TRANSACTION.has(leadingKeyword(only.text) ?? '') ? only : null;
}

const noPlaceForKey = (cause: unknown) =>
  new EngineError(
    'statement_not_allowed',
    'Postgres runs this statement only outside a transaction, so an Idempotency-Key cannot be stored with it',
    { cause, hint: 'Send it without an Idempotency-Key.' },
  );

const noDryRun = (cause: unknown) =>
  new EngineError(
    'statement_not_allowed',
    'Postgres runs this statement only outside a transaction, so `dry_run` could not undo it',
    { cause },
  );
