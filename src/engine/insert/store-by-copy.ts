/**
 * Stores encoded rows by COPY, in one transaction with a check that the table still has the schema they were encoded for.
 * It stores all of them or nothing.
 */
import type { EncodedBatch } from '../../codec/index.js';
import { BatchAnswer } from '../../contract/wire/batch.js';
import { COMMIT, PostgresError, type Result, SQLSTATE, type Statement, type Step } from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { errorCode } from '../../tenancy/engine-error.js';
import type { Deadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import type { RequestTrace } from '../database/trace.js';
import { resultsOf } from '../write/transaction.js';
import { writeOnce } from '../write/write.js';
import type { CopyOutcome, QueuedBatch } from './copy-queue.js';
import type { IdempotencyKey } from '../write/idempotency.js';
import { insertAnswer, type Inserted } from './insert-answer.js';
import { NO_RECORDS_FAULT } from './refused-records.js';
import type { CachedSchema } from './schema-cache.js';

/** What became of a batch; unless it was stored, nothing was. */
type Stored = Inserted | Exclude<CopyOutcome, 'stored'>;

/**
 * @throws EngineError outcome_unknown, table_busy, query_timeout, overloaded, database_unavailable; with a key also
 * request_in_flight, idempotency_key_reused, key_settled, quota_exceeded
 */
export async function storeByCopy(
  project: Project,
  schema: CachedSchema,
  rows: EncodedBatch,
  deadline: Deadline,
  idempotency: IdempotencyKey | null,
): Promise<Stored> {
  try {
    if (idempotency !== null) return await storeUnderKey(project, schema, rows, deadline, idempotency);
    const outcome = await storeShared(project, schema, rows, deadline);
    return outcome === 'stored' ? insertAnswer(rows.records) : outcome;
  } finally {
    rows.free();
  }
}

/** In one COPY with batches of other requests, if there are any. */
function storeShared(
  project: Project,
  schema: CachedSchema,
  rows: EncodedBatch,
  deadline: Deadline,
): Promise<CopyOutcome> {
  const { waitBudget, trace } = project;
  const target = schema.targetOf(rows);
  const copy = async (batches: readonly QueuedBatch[], signal: AbortSignal): Promise<CopyOutcome> => {
    const step = target.copy(batches.map((batch) => batch.rows));
    const work = (lease: Lease) => storeAndCheck(lease, schema, step);
    const { outcome } = await project.use('typed', { ...deadline, signal }, work, 'writes', traceOf(batches));
    return outcome;
  };
  return target.queue.store({ rows, signal: deadline.signal, waitBudget, trace }, copy);
}

function storeUnderKey(
  project: Project,
  schema: CachedSchema,
  rows: EncodedBatch,
  deadline: Deadline,
  idempotency: IdempotencyKey,
): Promise<Stored> {
  const result = insertAnswer(rows.records);
  const copy = schema.targetOf(rows).copy([rows]);
  const options = { deadline, idempotency, stored: BatchAnswer, trace: project.trace?.copying([]) };
  return writeOnce(project, options, async ({ lease, storing }) => {
    const end = [...storing(result.answer, rows.records), COMMIT];
    const { outcome } = await storeAndCheck(lease, schema, copy, end);
    return outcome === 'stored' ? result : outcome;
  });
}

interface Checked {
  readonly outcome: CopyOutcome;
  /** Of the steps; empty unless all was stored. */
  readonly results: readonly Result[];
}

/**
 * One round trip. The lock of the COPY, or INSERT, keeps the schema as it is until the end of the transaction, so the check comes after it.
 * @param end the rest of the transaction that is under way, with its COMMIT; if none is under way, COPY and check are one by
 * themselves
 */
export async function storeAndCheck(
  lease: Lease,
  { table, check }: CachedSchema,
  store: Step,
  end: readonly Statement[] = [],
): Promise<Checked> {
  const { session } = lease;
  if (table.runsProjectCode) lease.resetAfterUse();
  const steps = [store, check, ...end];
  const beforeCommit = end.length === 0 ? steps.length : steps.length - 1;
  const commits = end.length > 0 || !session.inTransaction;
  const ran = await session.pipeline(steps, { prepared: true });
  try {
    if (commits) return stored(resultsOf(session, ran, beforeCommit, end.length > 0));
    if (ran.error !== null) throw ran.error;
    return stored(ran.results);
  } catch (error) {
    // The table may have got a trigger since it was looked at, and what that did to the session is not rolled back.
    lease.resetAfterUse();
    if (!(error instanceof PostgresError) || session.closed) throw error;
    // The check fails by a division; one in a constraint or a trigger fails before it or after it.
    if (error.sqlstate === SQLSTATE.DIVISION_BY_ZERO && ran.results.length === 1) return OUTDATED;
    if (MAY_BE_A_RECORD.has(error.sqlstate) || !NO_RECORDS_FAULT.has(errorCode(error))) return REFUSED;
    throw error;
  }
}

const stored = (results: readonly Result[]): Checked => ({ outcome: 'stored', results });
const OUTDATED: Checked = { outcome: 'outdated', results: [] };
const REFUSED: Checked = { outcome: 'refused', results: [] };

/**
 * Binary data for a type that the column does not have any more; batches that wait for one other each, which only in a
 * shared COPY have more than one to wait for.
 */
const MAY_BE_A_RECORD = new Set<string>([SQLSTATE.PROTOCOL_VIOLATION, SQLSTATE.DEADLOCK_DETECTED]);

/** The first request that is traced has the COPY in its trace, and those of the others are linked to it. */
function traceOf(batches: readonly QueuedBatch[]): RequestTrace | null {
  const [first, ...others] = batches.flatMap(({ trace }) => trace ?? []);
  return first === undefined ? null : first.copying(others);
}
