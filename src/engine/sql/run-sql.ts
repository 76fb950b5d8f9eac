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
import type { DryRun } from '../database/dry-run.js';
import { commitAndReset, isUnknown, outcomeUnknown } from '../write/transaction.js';
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

/** Statements that have already been split, and what becomes of their results. */
interface StatementsToRun<T> {
  readonly mode: SqlMode;
  readonly statements: readonly BoundStatement[];
  /** null: the project is within its quota; otherwise `frees` of each statement must be known. */
  readonly overQuota: OverQuota | null;
  readonly fetchResult: FetchResult<T>;
  /** null: the request has no key. */
  readonly kept: KeptUnderKey<T> | null;
}

/** {@link runSql} for statements that have already been split. */
export const runStatements = <T>(project: Project, run: StatementsToRun<T>): Promise<Replayable<T[]>> =>
  mayReadWhileMoving(project, run) ? readWhileMoving(project, run) : runOnce(project, run);

async function runOnce<T>(project: Project, run: StatementsToRun<T>): Promise<Replayable<T[]>> {
  const { mode, statements, overQuota, kept } = run;
  const { readOnly, timeoutMs, signal } = mode;
  const guard = overQuota === null ? null : new QuotaGuard(overQuota, statements);
  const options = {
    connection: readOnly ? 'sql-read' : 'sql-write',
    deadline: { timeoutMs, signal, expired: queryTimeout(timeoutMs) },
    idempotency: kept?.key ?? null,
    responseSchema: StoredResults,
    // The guard enforces the quota: statements that free space may run beyond it.
    grows: false,
    begin: beginOf(mode),
    impact: guard?.impact ?? impactOf(statements),
  } as const;
  const outcome = await runWrite(project, options, async (write) => {
    const response = await new Transaction(run, project.dryRun, guard, write).run();
    if (!readOnly && statements.some(({ text }) => mayChangeRights(text)))
      project.shared.database.recheckRights(write.lease);
    return { response, replayed: false } as const;
  });
  return outcome.replayed ? { response: kept?.restore(outcome.response) ?? [], replayed: true } : outcome;
}

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

async function readWhileMoving<T>(
  project: Project,
  { mode: { timeoutMs, signal }, statements, fetchResult }: StatementsToRun<T>,
): Promise<Replayable<T[]>> {
  const mode = { readOnly: true, allRows: true, timeoutMs, signal };
  try {
    return await runOnce(project, { mode, statements, overQuota: null, fetchResult, kept: null });
  } catch (error) {
    throw error instanceof EngineError && error.code === 'permission_denied' ? moving() : error;
  }
}

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

/** The statements of one request, on one connection. */
class Transaction<T> {
  /**
   * @param dryRun null: the request's changes are kept
   * @param guard null: the project is within its quota
   */
  constructor(
    private readonly parts: StatementsToRun<T>,
    private readonly dryRun: DryRun | null,
    private readonly guard: QuotaGuard | null,
    private readonly write: Write,
  ) {}

  /** @throws EngineError as {@link runSql} */
  async run(): Promise<T[]> {
    const { statements, mode } = this.parts;
    const { guard, write } = this;
    const results: T[] = [];
    try {
      for (const [i, statement] of statements.entries()) {
        const begin = i > 0 ? [] : write.begin;
        const guarded = guard?.around(statement);
        const before = [...begin, ...(guarded?.before ?? [])];
        const isLast = i === statements.length - 1;
        results.push(await this.execute(statement, before, { isLast, inTransaction: true }));
        if (guarded !== undefined && guarded.after.length > 0) await write.lease.session.run(guarded.after);
      }
    } catch (error) {
      const [only] = statements;
      const { readOnly, modes } = mode;
      const isAlone = statements.length === 1 && modes === undefined && !readOnly;
      if (!isAlone || only === undefined || !needsNoTransaction(error, only)) throw error;
      if (write.hasKey) throw noPlaceForKey(error);
      if (this.dryRun !== null) throw noDryRun(error);
      return this.outsideTransaction(only);
    }
    await this.end(results);
    return results;
  }

  private async execute(
    statement: BoundStatement,
    before: readonly Statement[],
    place: { readonly isLast: boolean; readonly inTransaction: boolean },
  ): Promise<T> {
    const { guard } = this;
    const { clock, lease } = this.write;
    const { session } = lease;
    try {
      const described = await describe(session, statement, before, { clock, ...place });
      const result = await this.parts.fetchResult(described);
      await restoreEncoding(session, described);
      return result;
    } catch (error) {
      const translated = located(error, statement);
      throw guard === null ? translated : guard.explained(translated);
    }
  }

  /** For a statement that Postgres has rejected inside a transaction. */
  private async outsideTransaction(only: BoundStatement): Promise<T[]> {
    const { session } = this.write.lease;
    await session.run([ROLLBACK, ...(this.guard?.outside(only) ?? [])]);
    try {
      return [await this.execute(only, [], { isLast: true, inTransaction: false })];
    } catch (error) {
      throw isUnknown(session, error) ? outcomeUnknown(error, false) : error;
    }
  }

  private end(results: readonly T[]): Promise<unknown> {
    const { mode, kept } = this.parts;
    const { guard, dryRun, write } = this;
    const { session } = write.lease;
    if (guard?.readsOnly) return guard.endReads(session);
    if (mode.readOnly) return session.run([ROLLBACK], { reset: true });
    const row = kept === null ? [] : write.responseRow(kept.store(results));
    return commitAndReset(session, row, write.hasKey, dryRun);
  }
}

/**
 * First words of the statements that Postgres runs only outside a transaction. The project's code may raise the same
 * SQLSTATE, but not from one of these.
 */
const OUTSIDE_A_TRANSACTION = new Set(['ALTER', 'CLUSTER', 'CREATE', 'DISCARD', 'DROP', 'REINDEX', 'VACUUM']);

const needsNoTransaction = (error: unknown, { text }: SplitStatement): boolean =>
  error instanceof EngineError &&
  error.postgres?.sqlstate === SQLSTATE.ACTIVE_SQL_TRANSACTION &&
  OUTSIDE_A_TRANSACTION.has(leadingKeyword(text) ?? '');

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
