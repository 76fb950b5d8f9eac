/**
 * Free SQL (contract section 7): split the text, run its statements in order, commit. One request is one transaction on
 * a connection that logged in as the project's own role; its statements take effect together or not at all.
 */
import { EngineError } from '../../contract/errors.js';
import { BEGIN, fixed, ROLLBACK, SQLSTATE, type Statement } from '../../pg/index.js';
import { moving } from '../../tenancy/fence.js';
import type { Replayable, IdempotencyKey } from '../write/idempotency.js';
import { queryTimeout } from '../limits/deadline.js';
import type { Project } from '../project.js';
import type { OverQuota, QuotaImpact } from '../limits/quota.js';
import { commitError } from '../write/transaction.js';
import { runWrite, type Write } from '../write/write.js';
import { QuotaGuard } from './quota-guard.js';
import { leadingKeyword, mainKeyword, mayChangeRights } from '../parser/keywords.js';
import type { SplitStatement } from '../parser/splitter.js';
import { restoreEncoding } from './client-encoding.js';
import { located } from './located-error.js';
import type { SqlMode, SqlRequest } from './sql-request.js';
import { StoredResults } from './stored-results.js';
import { type BoundStatement, describe, type DescribedStatement } from './statement.js';

/** Executes a statement and takes its result. */
type FetchResult<T> = (statement: DescribedStatement) => Promise<T>;

/** How results are kept under an Idempotency-Key. */
interface KeptUnderKey<T> {
  readonly key: IdempotencyKey;
  readonly store: (results: readonly T[]) => StoredResults;
  readonly restore: (stored: StoredResults) => T[];
}

/** Statements that have already been split, and what becomes of their results. */
interface StatementsToRun<T> {
  readonly mode: SqlMode;
  readonly statements: readonly BoundStatement[];
  /** null: the project is within its quota; otherwise `frees` of each statement must be known. */
  readonly overQuota: OverQuota | null;
  /** Called for each statement, in order. */
  readonly fetchResult: FetchResult<T>;
  /** null: the request has no key. */
  readonly kept: KeptUnderKey<T> | null;
}

/**
 * @param fetchResult called for each statement, in order
 * @param kept null: the request has no key
 * @returns the results of `fetchResult`; the transaction is committed by then
 * @throws EngineError sql_error and other codes in the table of SQLSTATEs, statement_not_allowed, query_timeout,
 * overloaded, outcome_unknown, quota_exceeded; with a key also request_in_flight, idempotency_key_reused, key_settled
 */
export async function runSql<T>(
  project: Project,
  request: SqlRequest,
  fetchResult: FetchResult<T>,
  kept: KeptUnderKey<T> | null = null,
): Promise<Replayable<T[]>> {
  const { sql, params, signal } = request;
  const overQuota = await overQuotaFor(project, request);
  const requester = { project: project.name, budget: project.waitBudget, signal };
  const split = await project.shared.splitter.split(sql, requester, { tellsFreed: overQuota !== null });
  if (params.length > 0 && split.length > 1) {
    throw new EngineError('invalid_request', '"params" can be used only with a single statement');
  }
  const statements = split.map((statement) => ({ params, ...statement }));
  return runStatements(project, { mode: request, statements, overQuota, fetchResult, kept });
}

/** Whether the project is over its disk quota, if the request could write. @throws EngineError database_unavailable */
export const overQuotaFor = (project: Project, { readOnly }: SqlMode): Promise<OverQuota | null> | null =>
  readOnly ? null : project.shared.quotas.overQuota(project.row);

/** {@link runSql} for statements that have already been split. */
export async function runStatements<T>(project: Project, given: StatementsToRun<T>): Promise<Replayable<T[]>> {
  const asReader = mayReadWhileMoving(project, given);
  const run = asReader ? { ...given, mode: { ...given.mode, readOnly: true, allRows: true } } : given;
  const { mode, statements, overQuota, kept } = run;
  const { readOnly, timeoutMs, signal } = mode;
  const guard = readOnly || overQuota === null ? null : new QuotaGuard(overQuota, statements);
  const options = {
    connection: readOnly ? 'sql-read' : 'sql-write',
    deadline: { timeoutMs, signal, expired: queryTimeout(timeoutMs) },
    idempotency: kept?.key ?? null,
    responseSchema: StoredResults,
    // The guard enforces the quota: statements that free space may run beyond it.
    grows: false,
    begin: beginOf(mode),
    resets: true,
    impact: guard?.impact ?? impactOf(statements),
  } as const;
  try {
    const outcome = await runWrite(project, options, async (write) => {
      const response = await runInTransaction(run, write, guard, project.dryRun !== null);
      if (!readOnly && statements.some(({ text }) => mayChangeRights(text)))
        project.shared.database.recheckRights(project.id);
      return { response, replayed: false } as const;
    });
    return outcome.replayed ? { response: kept?.restore(outcome.response) ?? [], replayed: true } : outcome;
  } catch (error) {
    throw asReader && error instanceof EngineError && error.code === 'permission_denied' ? moving() : error;
  }
}

/**
 * Runs the statements in order, then commits and resets the session.
 * @param guard null: the project is within its quota
 * @throws EngineError as {@link runSql}
 */
async function runInTransaction<T>(
  run: StatementsToRun<T>,
  write: Write,
  guard: QuotaGuard | null,
  isDryRun: boolean,
): Promise<T[]> {
  const { mode, statements, fetchResult, kept } = run;
  const { clock, lease } = write;
  const { session } = lease;
  const execute = async (statement: BoundStatement, before: readonly Statement[], isLast: boolean): Promise<T> => {
    try {
      const described = await describe(session, statement, before, { clock, isLast });
      const result = await fetchResult(described);
      await restoreEncoding(session, described);
      return result;
    } catch (error) {
      const translated = located(error, statement);
      throw guard === null ? translated : guard.explained(translated);
    }
  };
  const results: T[] = [];
  try {
    for (const [i, statement] of statements.entries()) {
      const begin = i === 0 ? write.begin : [];
      const { before, after } = guard?.around(statement) ?? UNGUARDED;
      results.push(await execute(statement, [...begin, ...before], i === statements.length - 1));
      if (after.length > 0) await session.run(after);
    }
  } catch (error) {
    const outside = refusedInTransaction(run, error);
    if (outside === null) throw error;
    if (write.hasKey) throw noPlaceForKey(error);
    if (isDryRun) throw noDryRun(error);
    await session.run([ROLLBACK, ...(guard?.outside(outside) ?? [])]);
    try {
      return [await execute(outside, [], true)];
    } catch (cause) {
      throw commitError(session, cause, false);
    }
  }
  if (guard?.readsOnly) await guard.endReads(session, write.hasKey);
  else if (mode.readOnly) await session.run([ROLLBACK], { reset: true });
  else await write.commit([], kept?.store(results));
  return results;
}

const UNGUARDED = { before: [], after: [] };

/**
 * The writer may not log in during a move. Queries are tried as the reader: Postgres refuses those that turn out to
 * write.
 */
const mayReadWhileMoving = <T>(
  { row: { isFenced }, dryRun }: Project,
  { mode, statements, kept }: StatementsToRun<T>,
): boolean =>
  isFenced &&
  !mode.readOnly &&
  mode.modes === undefined &&
  dryRun === null &&
  kept === null &&
  statements.every(({ text }) => mainKeyword(text) === 'SELECT');

/** Statements that write new files for tables or indexes before removing the old ones. */
const REWRITING = new Set(['CLUSTER', 'REINDEX', 'VACUUM']);

const impactOf = (statements: readonly SplitStatement[]): QuotaImpact =>
  statements.every(({ text }) => REWRITING.has(leadingKeyword(text) ?? '')) ? 'rewrites' : 'writes';

/**
 * The first query of a READ ONLY transaction is ours: after it, Postgres rejects SET TRANSACTION READ WRITE (Postgres
 * manual, SET TRANSACTION), so the caller cannot end the read-only mode.
 */
const FIRST_QUERY = fixed('SELECT 1');

/** Policies hide no rows from the writer, which owns the tables. */
const ROW_SECURITY_OFF = fixed('SET LOCAL row_security = off');

function beginOf({ readOnly, modes = readOnly ? ['READ ONLY'] : [], allRows }: SqlMode): readonly Statement[] {
  const begin = modes.length === 0 ? BEGIN : fixed(`BEGIN ${modes.join(' ')}`);
  return [begin, ...(allRows ? [ROW_SECURITY_OFF] : []), ...(readOnly ? [FIRST_QUERY] : [])];
}

/**
 * First words of the statements that Postgres runs only outside a transaction. The project's code may raise the same
 * SQLSTATE, but not from one of these.
 */
const OUTSIDE_A_TRANSACTION = new Set(['ALTER', 'CLUSTER', 'CREATE', 'DISCARD', 'DROP', 'REINDEX', 'VACUUM']);

/** The only statement, if the error says that Postgres runs it only outside a transaction, and the request allows that. */
function refusedInTransaction<T>({ mode, statements }: StatementsToRun<T>, error: unknown): BoundStatement | null {
  const [only, ...others] = statements;
  if (only === undefined || others.length > 0 || mode.readOnly || mode.modes !== undefined) return null;
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
