/**
 * Batch insert (specification 4.4; contract section 6): 1 to 250 records in one transaction, all or none, once per
 * Idempotency-Key. Most batches take the fast path: the bytes of the request become rows of COPY. The fast path never
 * reports an error of a record: if the encoder does not understand a batch, or Postgres refuses it, the checked path
 * repeats it and reports the errors.
 */
import type { EncodedBatch } from '../../codec/index.js';
import { BatchAnswer } from '../../contract/wire/batch.js';
import { COMMIT, PostgresError, type Result, SQLSTATE, type Statement, type Step } from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { errorCode } from '../../tenancy/engine-error.js';
import { readTables, tableToWrite } from '../catalog/catalog.js';
import type { RequestTrace } from '../database/trace.js';
import { typedDeadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import { resultsOf } from '../write/transaction.js';
import { runWrite } from '../write/write.js';
import { insertChecked } from './checked-insert.js';
import type { CopyOutcome, QueuedBatch } from './copy-queue.js';
import { fastUpsert } from './fast-upsert.js';
import { insertAnswer, type Inserted, rowsChanged, upsertAnswer } from './insert-answer.js';
import type { InsertRequest } from './insert-request.js';
import { insertPartially } from './partial-insert.js';
import { NO_RECORDS_FAULT } from './record-error.js';
import type { CachedSchema } from './schema-cache.js';
import type { UpsertRule } from './upsert.js';

interface InsertOptions extends Omit<InsertRequest, 'project' | 'tableName' | 'body' | 'deadline'> {
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

/** A table whose schema keeps changing goes to the checked path, which locks it first. */
const ATTEMPTS = 2;

/**
 * @param body the decoded body: a JSON array of records
 * @throws EngineError any code in section 6 of the contract. Nothing was stored then, except that `outcome_unknown`
 * leaves it open.
 */
export async function insertRecords(
  project: Project,
  tableName: string,
  body: Buffer,
  options: InsertOptions,
): Promise<Inserted> {
  const { signal, ...others } = options;
  const request: InsertRequest = { project, tableName, body, deadline: typedDeadline(signal), ...others };
  const { returnIds, idempotency, quarantine } = request;
  // With a key, the check comes later: a repeat is answered even without room, since it stores nothing.
  if (idempotency === null) await project.requireRoom();

  // The fast path cannot return ids, and always commits.
  const isFast = !returnIds && project.rehearsal === null;
  const inserted = isFast ? await insertFast(request) : null;
  if (inserted !== null) return inserted;
  return quarantine ? insertPartially(request) : insertChecked(request);
}

/** @returns null: nothing was stored; the checked path stores the batch, or reports what is wrong with it */
async function insertFast(request: InsertRequest): Promise<Inserted | null> {
  const { project, body, upsert } = request;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const schema = await schemaOf(request);
    if (schema === null) return null;
    const encoder = upsert === null ? schema.encoder : schema.upsertEncoder;
    const rows = encoder?.encode(body) ?? null;
    if (rows === null) return null;
    try {
      const outcome =
        upsert === null ? await storeByCopy(request, schema, rows) : await storeByUpsert(request, schema, rows, upsert);
      if (outcome === 'refused') return null;
      if (outcome !== 'outdated') return outcome;
    } finally {
      rows.free();
    }
    project.schemaCache.forget(project.cacheKey, schema);
  }
  return null;
}

/** @returns null if there is no such table. The insert's transaction checks for later changes. */
async function schemaOf({ project, tableName, deadline }: InsertRequest): Promise<CachedSchema | null> {
  const cached = project.schemaCache.get(project.cacheKey, tableName);
  if (cached !== undefined) return cached;
  const look = tableToWrite(project.schema, tableName);
  const rows = await project.use('typed', deadline, ({ session }) => session.query(look), 'none');
  const [table] = readTables(project.schema, rows);
  return table === undefined ? null : project.schemaCache.remember(project.cacheKey, table);
}

/** Why the fast path stored nothing. */
type NotStored = Exclude<CopyOutcome, 'stored'>;

/**
 * Stores the batch in one COPY with waiting batches of other requests. A batch with a key goes alone, in the
 * transaction that holds the key.
 */
async function storeByCopy(
  { project, deadline, idempotency }: InsertRequest,
  schema: CachedSchema,
  rows: EncodedBatch,
): Promise<Inserted | NotStored> {
  const { waitBudget, trace } = project;
  const target = schema.targetOf(rows);
  const inserted = insertAnswer(rows.records);
  if (idempotency !== null) {
    const options = { deadline, idempotency, responseSchema: BatchAnswer, trace: trace?.copying([]) };
    return runWrite(project, options, async ({ lease, responseRow }) => {
      const end = [...responseRow(inserted.answer, rows.records), COMMIT];
      const { outcome } = await storeAndCheck(lease, schema, target.copy([rows]), end);
      return outcome === 'stored' ? inserted : outcome;
    });
  }
  const copy = async (batches: readonly QueuedBatch[], signal: AbortSignal): Promise<CopyOutcome> => {
    const step = target.copy(batches.map((batch) => batch.rows));
    const store = (lease: Lease) => storeAndCheck(lease, schema, step);
    const { outcome } = await project.use('typed', { ...deadline, signal }, store, 'writes', traceOf(batches));
    return outcome;
  };
  const outcome = await target.queue.store({ rows, signal: deadline.signal, waitBudget, trace }, copy);
  return outcome === 'stored' ? inserted : outcome;
}

/** The COPY belongs to the trace of the first traced request; the traces of the others link to it. */
function traceOf(batches: readonly QueuedBatch[]): RequestTrace | null {
  const [first, ...others] = batches.flatMap(({ trace }) => trace ?? []);
  return first === undefined ? null : first.copying(others);
}

/** Stores the batch by one INSERT … ON CONFLICT. Without a key, the statement is a transaction by itself. */
async function storeByUpsert(
  { project, deadline, idempotency }: InsertRequest,
  schema: CachedSchema,
  rows: EncodedBatch,
  upsert: UpsertRule,
): Promise<Inserted | NotStored> {
  const statement = fastUpsert(schema.table, rows, upsert);
  if (statement === null) return 'refused';
  const store = async (lease: Lease): Promise<Inserted | NotStored> => {
    if (schema.table.updateRunsProjectCode) lease.resetAfterUse();
    const { outcome, results } = await storeAndCheck(lease, schema, statement);
    if (outcome !== 'stored') return outcome;
    const [inserted = 0, stored = 0] = (results[0]?.rows[0] ?? []).map(Number);
    return upsertAnswer(rows.records, { inserted, updated: stored - inserted });
  };
  if (idempotency === null) return project.use('typed', deadline, store);
  return runWrite(project, { deadline, idempotency, responseSchema: BatchAnswer }, async ({ lease, commit }) => {
    const outcome = await store(lease);
    if (typeof outcome === 'string') return outcome;
    try {
      await commit([], outcome.answer, rowsChanged(outcome.answer));
    } catch (error) {
      // Deferred constraints are checked now.
      if (error instanceof PostgresError && !lease.session.closed && mayBeARecord(error)) return 'refused';
      throw error;
    }
    return outcome;
  });
}

interface Checked {
  readonly outcome: CopyOutcome;
  /** Results of the steps; empty unless everything was stored. */
  readonly results: readonly Result[];
}

/**
 * Stores rows and confirms the schema in one round trip. The check follows the COPY or INSERT, whose lock prevents
 * changes until the end of the transaction.
 * @param end the rest of the current transaction, with its COMMIT; without a transaction, COPY and check form one
 */
async function storeAndCheck(
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
    // The table may have gained a trigger since then, whose effects on the session are not rolled back.
    lease.resetAfterUse();
    if (!(error instanceof PostgresError) || session.closed) throw error;
    // The check fails with a division by zero. One in a constraint or trigger fails earlier or later.
    if (error.sqlstate === SQLSTATE.DIVISION_BY_ZERO && ran.results.length === 1) return OUTDATED;
    if (mayBeARecord(error)) return REFUSED;
    throw error;
  }
}

/** Whether the checked path may find a record at fault. */
const mayBeARecord = (error: PostgresError): boolean =>
  MAY_BE_A_RECORD.has(error.sqlstate) || !NO_RECORDS_FAULT.has(errorCode(error));

const stored = (results: readonly Result[]): Checked => ({ outcome: 'stored', results });
const OUTDATED: Checked = { outcome: 'outdated', results: [] };
const REFUSED: Checked = { outcome: 'refused', results: [] };

/** Binary data for a type that the column no longer has; a deadlock that arises only because batches share a COPY. */
const MAY_BE_A_RECORD = new Set<string>([SQLSTATE.PROTOCOL_VIOLATION, SQLSTATE.DEADLOCK_DETECTED]);
