/**
 * Free SQL (contract section 7): split the text, run its statements in order, commit. One request is one transaction on
 * a connection that logged in as the project's own role; its statements take effect together or not at all.
 */
import { EngineError } from '../../contract/errors.js';
import type { Schema } from '../../contract/schema.js';
import type { JsonNode } from '../../codec/index.js';
import { BEGIN, fixed, ROLLBACK, type Statement } from '../../pg/index.js';
import { moving } from '../../tenancy/fence.js';
import type { Answered, IdempotencyKey } from '../write/idempotency.js';
import { queryTimeout } from '../limits/deadline.js';
import type { Project } from '../project.js';
import type { OverQuota } from '../limits/quota.js';
import type { Rehearsal } from '../database/rehearsal.js';
import { commitAndReset, isUnknown, outcomeUnknown } from '../write/transaction.js';
import { runWrite, type Write } from '../write/write.js';
import { QuotaGuard } from './quota-guard.js';
import { mainKeyword, mayChangeRights } from '../parser/keywords.js';
import { cannotRehearse, impactOf, located, needsNoTransaction, noPlaceForKey, restoreEncoding } from './sql-rules.js';
import { type BoundStatement, describe, type DescribedStatement } from './statement.js';

/** How statements of free SQL run. */
export interface SqlWork {
  /** Run as the reader, in a READ ONLY transaction. */
  readOnly: boolean;
  timeoutMs: number;
  /** Aborted when the client disconnects. */
  signal: AbortSignal;
  /** Transaction modes as in BEGIN; if given, nothing runs outside the transaction. */
  modes?: readonly string[];
  /** Refuse a query from which row security would hide rows. */
  allRows?: boolean;
}

export interface SqlRequest extends SqlWork {
  sql: string;
  params: readonly JsonNode[];
}

/** Executes a statement and takes its result. */
type FetchResult<T> = (statement: DescribedStatement) => Promise<T>;

/** For a request without a key. */
const NO_RESPONSE: Schema<never> = { not: {} };

/** How results are kept under an Idempotency-Key. */
interface KeptUnderKey<T, Stored> {
  readonly key: IdempotencyKey;
  readonly schema: Schema<Stored>;
  readonly store: (results: readonly T[]) => Stored;
  readonly restore: (stored: Stored) => T[];
}

/**
 * @param fetchResult called for each statement, in order
 * @param kept null: the request has no key
 * @returns the results of `fetchResult`; the transaction is committed by then
 * @throws EngineError sql_error and other codes in the table of SQLSTATEs, statement_not_allowed, query_timeout,
 * overloaded, outcome_unknown, quota_exceeded; with a key also request_in_flight, idempotency_key_reused, key_settled
 */
export async function runSql<T, Stored = never>(
  project: Project,
  request: SqlRequest,
  fetchResult: FetchResult<T>,
  kept: KeptUnderKey<T, Stored> | null = null,
): Promise<Answered<T[]>> {
  const { sql, params, signal } = request;
  const overQuota = await overQuotaFor(project, request);
  const requester = { project: project.name, budget: project.waitBudget, signal };
  const statements = await project.splitter.split(sql, requester, overQuota !== null);
  if (params.length > 0 && statements.length > 1) {
    throw new EngineError('invalid_request', '"params" can be used only with a single statement');
  }
  const bound = statements.map((statement) => ({ params, ...statement }));
  return runStatements(project, request, bound, overQuota, fetchResult, kept);
}

/** Whether the project is over its disk quota, if the request could write. @throws EngineError database_unavailable */
export const overQuotaFor = (project: Project, { readOnly }: SqlWork): Promise<OverQuota | null> | null =>
  readOnly ? null : project.overQuota();

/**
 * {@link runSql} for statements that have already been split.
 * @param overQuota null: the project is within its quota; otherwise `frees` of each statement must be known
 */
export async function runStatements<T, Stored = never>(
  project: Project,
  request: SqlWork,
  statements: readonly BoundStatement[],
  overQuota: OverQuota | null,
  fetchResult: FetchResult<T>,
  kept: KeptUnderKey<T, Stored> | null = null,
): Promise<Answered<T[]>> {
  if (kept === null && mayReadWhileMoving(project, request, statements)) {
    const asReader = { ...request, readOnly: true, allRows: true };
    return runStatements(project, asReader, statements, null, fetchResult).catch((error: unknown) => {
      throw error instanceof EngineError && error.code === 'permission_denied' ? moving() : error;
    });
  }
  const { readOnly, timeoutMs, signal } = request;
  const guard = overQuota === null ? null : new QuotaGuard(overQuota, statements);
  const options = {
    pool: readOnly ? 'sql-read' : 'sql-write',
    deadline: { timeoutMs, signal, expired: queryTimeout(timeoutMs) },
    idempotency: kept?.key ?? null,
    responseSchema: kept?.schema ?? NO_RESPONSE,
    // The guard enforces the quota: statements that free space may run beyond it.
    grows: false,
    begin: beginOf(request),
    impact: guard?.impact ?? impactOf(statements),
  } as const;
  const outcome = await runWrite(project, options, async (write) => {
    const { rehearsal } = project;
    const store = (results: readonly T[]) => (kept === null ? [] : write.responseRow(kept.store(results)));
    const answer = await new Transaction({ request, rehearsal, statements, guard, write, fetchResult, store }).run();
    if (!readOnly && statements.some(({ text }) => mayChangeRights(text))) project.recheckRights(write.lease);
    return { answer, replayed: false } as const;
  });
  return outcome.replayed ? { answer: kept?.restore(outcome.answer) ?? [], replayed: true } : outcome;
}

/**
 * The writer may not log in during a move. Queries are tried as the reader: Postgres refuses those that turn out to
 * write.
 */
const mayReadWhileMoving = (
  { isFenced, rehearsal }: Project,
  { readOnly, modes }: SqlWork,
  statements: readonly BoundStatement[],
): boolean =>
  isFenced &&
  !readOnly &&
  modes === undefined &&
  rehearsal === null &&
  statements.every(({ text }) => mainKeyword(text) === 'SELECT');

/**
 * The first query of a READ ONLY transaction is ours: after it, Postgres rejects SET TRANSACTION READ WRITE (Postgres
 * manual, SET TRANSACTION), so the caller cannot end the read-only mode.
 */
const FIRST_QUERY = fixed('SELECT 1');

/** Policies hide no rows from the writer, which owns the tables. */
const ROW_SECURITY_OFF = fixed('SET LOCAL row_security = off');

function beginOf({ readOnly, modes = readOnly ? ['READ ONLY'] : [], allRows }: SqlWork): readonly Statement[] {
  const begin = modes.length === 0 ? BEGIN : fixed(`BEGIN ${modes.join(' ')}`);
  return [begin, ...(allRows ? [ROW_SECURITY_OFF] : []), ...(readOnly ? [FIRST_QUERY] : [])];
}

interface TransactionParts<T> {
  readonly request: SqlWork;
  /** null: the request's changes are kept. */
  readonly rehearsal: Rehearsal | null;
  readonly statements: readonly BoundStatement[];
  /** null: the project is within its quota. */
  readonly guard: QuotaGuard | null;
  readonly write: Write;
  readonly fetchResult: FetchResult<T>;
  /** Store the results under the key, if there is one. */
  readonly store: (results: readonly T[]) => readonly Statement[];
}

/** The statements of one request, on one connection. */
class Transaction<T> {
  constructor(private readonly parts: TransactionParts<T>) {}

  /** @throws EngineError as {@link runSql} */
  async run(): Promise<T[]> {
    const { statements, guard, write, request, rehearsal } = this.parts;
    const results: T[] = [];
    try {
      for (const [i, statement] of statements.entries()) {
        const begin = i > 0 ? [] : write.begin;
        const guarded = guard?.around(statement);
        const before = [...begin, ...(guarded?.before ?? [])];
        results.push(await this.execute(statement, before, i === statements.length - 1));
        if (guarded !== undefined && guarded.after.length > 0) await write.lease.session.run(guarded.after);
      }
    } catch (error) {
      const [only] = statements;
      const { readOnly, modes } = request;
      const isAlone = statements.length === 1 && modes === undefined && !readOnly;
      if (!isAlone || only === undefined || !needsNoTransaction(error, only)) throw error;
      if (write.hasKey) throw noPlaceForKey(error);
      if (rehearsal !== null) throw cannotRehearse(error);
      return this.outsideTransaction(only);
    }
    await this.end(results);
    return results;
  }

  private async execute(
    statement: BoundStatement,
    before: readonly Statement[],
    isLast: boolean,
    inTransaction = true,
  ): Promise<T> {
    const { guard, fetchResult, write } = this.parts;
    const { clock, lease } = write;
    const { session } = lease;
    try {
      const described = await describe(session, statement, before, { clock, isLast, inTransaction });
      const result = await fetchResult(described);
      await restoreEncoding(session, described);
      return result;
    } catch (error) {
      const translated = located(error, statement);
      throw guard === null ? translated : guard.explained(translated);
    }
  }

  /** For a statement that Postgres has rejected inside a transaction. */
  private async outsideTransaction(only: BoundStatement): Promise<T[]> {
    const { guard, write } = this.parts;
    const { session } = write.lease;
    await session.run([ROLLBACK, ...(guard?.outside(only) ?? [])]);
    try {
      return [await this.execute(only, [], true, false)];
    } catch (error) {
      throw isUnknown(session, error) ? outcomeUnknown(error, false) : error;
    }
  }

  private end(results: readonly T[]): Promise<unknown> {
    const { request, rehearsal, guard, write, store } = this.parts;
    const { session } = write.lease;
    if (guard?.readsOnly) return guard.endReads(session);
    if (request.readOnly) return session.run([ROLLBACK], { reset: true });
    return commitAndReset(session, store(results), write.hasKey, rehearsal);
  }
}
