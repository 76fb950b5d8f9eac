/**
 * Free SQL (contract section 7): split the text, run its statements in order, commit. One request is one transaction on
 * a connection that logged in as the project's own role; its statements take effect together or not at all.
 */
import type { JsonNode, Numbers, RowMode } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { BEGIN, fixed, ROLLBACK, SQLSTATE, type Statement } from '../../pg/index.js';
import { moving } from '../../tenancy/fence.js';
import type { IdempotencyKey } from '../write/idempotency.js';
import { queryTimeout } from '../limits/deadline.js';
import type { Project } from '../project.js';
import type { Growth, OverQuota } from '../limits/quota.js';
import { commitError } from '../write/commit.js';
import { runWrite, type Write } from '../write/write.js';
import { QuotaGuard } from './quota-guard.js';
import { leadingKeyword, mainKeyword, mayChangeRights } from '../parser/keywords.js';
import type { SplitStatement } from '../parser/splitter.js';
import { restoreEncoding } from './client-encoding.js';
import { located } from './located-error.js';
import { StoredResults } from './stored-results.js';
import { type BoundStatement, describeStatement, type DescribedStatement } from './statement.js';

/** How statements of free SQL run. */
export interface SqlMode {
  /** Run as the reader, in a READ ONLY transaction. */
  readOnly: boolean;
  timeoutMs: number;
  /** Aborted when the client disconnects, or with the EngineError that ends the request. */
  signal: AbortSignal;
  /** Transaction modes as in BEGIN; if given, nothing runs outside the transaction. */
  modes?: readonly string[];
  /** Only for a request that is not read-only. */
  idempotency?: IdempotencyKey | null;
}

export interface SqlRequest extends SqlMode {
  sql: string;
  params: readonly JsonNode[];
}

export interface CollectRequest extends SqlRequest {
  maxRows: number;
  /** The most bytes of rows, over all statements. Default: the limit of a response. */
  maxBytes?: number;
  rowMode: RowMode;
  numbers?: Numbers | undefined;
}

/** Executes a statement and keeps its result. */
type TakeResult = (statement: DescribedStatement, isLast: boolean) => Promise<void>;

/**
 * @param take called for each statement, in order
 * @param toStore the results for a repeat with the same Idempotency-Key; required with a key
 * @returns the stored results of an earlier request with the key; null: the statements have run and are committed
 * @throws EngineError sql_error and other codes in the table of SQLSTATEs, statement_not_allowed, query_timeout,
 * overloaded, outcome_unknown, quota_exceeded; with a key also request_in_flight, idempotency_key_reused, key_settled
 */
export async function runSql(
  project: Project,
  request: SqlRequest,
  take: TakeResult,
  toStore?: () => StoredResults,
): Promise<StoredResults | null> {
  const { sql, params, signal } = request;
  const overQuota = await overQuotaFor(project, request);
  const split = await project.shared.splitter.split(sql, project.requester(signal), { tellsFreed: overQuota !== null });
  if (params.length > 0 && split.length > 1) {
    throw new EngineError('invalid_request', '"params" can be used only with a single statement');
  }
  const statements = split.map((statement) => ({ params, ...statement }));
  return runStatements(project, request, statements, overQuota, take, toStore);
}

/** Whether the project is over its disk quota, if the request could write. @throws EngineError database_unavailable */
export const overQuotaFor = (project: Project, { readOnly }: SqlMode): Promise<OverQuota | null> | null =>
  readOnly ? null : project.shared.quotas.overQuota(project.row);

/**
 * {@link runSql} for statements that have already been split.
 * @param overQuota null: the project is within its quota; otherwise `frees` of each statement must be known
 */
export async function runStatements(
  project: Project,
  given: SqlMode,
  statements: readonly BoundStatement[],
  overQuota: OverQuota | null,
  take: TakeResult,
  toStore?: () => StoredResults,
): Promise<StoredResults | null> {
  const asReader = mayReadWhileMoving(project, given, statements);
  const mode = asReader ? { ...given, readOnly: true } : given;
  const { readOnly, timeoutMs, signal, modes = readOnly ? ['READ ONLY'] : [], idempotency = null } = mode;
  const guard = readOnly || overQuota === null ? null : new QuotaGuard(overQuota, statements);
  const options = {
    connection: readOnly ? 'sql-read' : 'sql-write',
    deadline: { timeoutMs, signal, expired: queryTimeout(timeoutMs) },
    repeat: { key: idempotency, responseSchema: StoredResults },
    begin: [
      modes.length === 0 ? BEGIN : fixed(`BEGIN ${modes.join(' ')}`),
      ...(asReader ? [ROW_SECURITY_OFF] : []),
      ...(readOnly ? [FIRST_QUERY] : []),
    ],
    reset: true,
    growth: guard?.growth ?? growthOf(statements),
  } as const;
  try {
    const earlier = await runWrite(project, options, async (write) => {
      const { session } = write.lease;
      const outside = await runInTransaction(project, mode, statements, write, guard, take);
      if (outside !== null) await runOutside(outside, write, guard, take);
      else if (guard?.readsOnly) await guard.endReads(session, write.hasKey);
      else if (readOnly) await session.run([ROLLBACK], { reset: true });
      else await write.commit([], write.hasKey ? toStore?.() : null);
      if (!readOnly && statements.some(({ text }) => mayChangeRights(text)))
        project.shared.database.recheckRights(project.id);
      return null;
    });
    return earlier?.response ?? null;
  } catch (error) {
    if (asReader && error instanceof EngineError && error.code === 'permission_denied') throw moving();
    throw guard === null ? error : guard.asQuotaExceeded(error);
  }
}

/**
 * Runs the statements in order.
 * @returns null; or the only statement, if it has done nothing because Postgres runs it only outside a transaction
 */
async function runInTransaction(
  project: Project,
  mode: SqlMode,
  statements: readonly BoundStatement[],
  write: Write,
  guard: QuotaGuard | null,
  take: TakeResult,
): Promise<BoundStatement | null> {
  try {
    for (const [i, statement] of statements.entries()) {
      const begin = i === 0 ? write.begin : [];
      const { before, after } = guard?.around(statement) ?? UNGUARDED;
      await execute(statement, write, [...begin, ...before], take, i === statements.length - 1);
      if (after.length > 0) await write.lease.session.run(after);
    }
    return null;
  } catch (error) {
    const outside = refusedInTransaction(mode, statements, error);
    if (outside === null) throw error;
    if (write.hasKey) throw noPlaceForKey(error);
    if (project.dryRun !== null) throw noDryRun(error);
    return outside;
  }
}

async function runOutside(
  statement: BoundStatement,
  write: Write,
  guard: QuotaGuard | null,
  take: TakeResult,
): Promise<void> {
  const { session } = write.lease;
  await session.run([ROLLBACK, ...(guard?.outside(statement) ?? [])]);
  try {
    await execute(statement, write, [], take, true);
  } catch (cause) {
    throw commitError(session, cause, false);
  }
}

/** @param before statements to run first, in the same round trip */
async function execute(
  statement: BoundStatement,
  { lease: { session }, clock }: Write,
  before: readonly Statement[],
  take: TakeResult,
  isLast: boolean,
): Promise<void> {
  try {
    const described = await describeStatement(session, clock, statement, before);
    await take(described, isLast);
    await restoreEncoding(session, described);
  } catch (error) {
    throw located(error, statement);
  }
}

const UNGUARDED = { before: [], after: [] };

/**
 * The writer may not log in during a move. Queries are tried as the reader: Postgres refuses those that turn out to
 * write.
 */
const mayReadWhileMoving = (
  { row: { isFenced }, dryRun }: Project,
  { readOnly, modes, idempotency = null }: SqlMode,
  statements: readonly BoundStatement[],
): boolean =>
  isFenced &&
  !readOnly &&
  modes === undefined &&
  dryRun === null &&
  idempotency === null &&
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
  { readOnly, modes }: SqlMode,
  statements: readonly BoundStatement[],
  error: unknown,
): BoundStatement | null {
  const [only, ...others] = statements;
  if (only === undefined || others.length > 0 || readOnly || modes !== undefined) return null;
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
