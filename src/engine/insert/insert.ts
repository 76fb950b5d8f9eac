/**
 * Batch insert (specification 4.4; contract section 6): 1 to 250 records in one transaction, all or none, once per
 * Idempotency-Key. Most batches take the fast path: the bytes of the request become rows of COPY. The fast path never
 * reports an error of a record: if the encoder does not understand a batch, or Postgres refuses it, the checked path
 * repeats it and reports the errors.
 */
import type { EncodedBatch } from '../../codec/index.js';
import { BatchResponse } from '../../contract/wire/batch.js';
import { PostgresError } from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { readTables, tableToWrite } from '../catalog/catalog.js';
import { typedDeadline } from '../limits/deadline.js';
import { runWrite } from '../write/write.js';
import { insertChecked } from './checked-insert.js';
import { fastUpsert } from './fast-upsert.js';
import { insertResponse, type Inserted, type InsertRequest, rowsChanged, upsertResponse } from './insert-request.js';
import { insertPartially } from './partial-insert.js';
import type { CachedSchema } from './schema-cache.js';
import { type Ending, mayBeARecord, type NotStored, resetIfCodeRuns, storeAndCheck } from './store-rows.js';
import type { UpsertRule } from './upsert.js';

/** A table whose schema keeps changing goes to the checked path, which locks it first. */
const ATTEMPTS = 2;

/**
 * @throws EngineError any code in section 6 of the contract. Nothing was stored then, except that `outcome_unknown`
 * leaves it open.
 */
export async function insertRecords(request: InsertRequest): Promise<Inserted> {
  const { project, returnIds, idempotency, quarantine } = request;
  // With a key, the check comes later: a repeat is answered even without room, since it stores nothing.
  if (idempotency === null) await project.shared.quotas.requireRoom(project.row);

  // The fast path cannot return ids, and always commits.
  const isFast = !returnIds && project.dryRun === null;
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
    project.shared.schemaCache.forget(project.cacheKey, schema);
  }
  return null;
}

/** @returns null if there is no such table. The insert's transaction checks for later changes. */
async function schemaOf({ project, tableName, signal }: InsertRequest): Promise<CachedSchema | null> {
  const cached = project.shared.schemaCache.get(project.cacheKey, tableName);
  if (cached !== undefined) return cached;
  const query = tableToWrite(project.schema, tableName);
  const use = { connection: 'typed', deadline: typedDeadline(signal), growth: 'none' } as const;
  const rows = await project.use(use, ({ session }) => session.query(query));
  const [table] = readTables(project.schema, rows);
  return table === undefined ? null : project.shared.schemaCache.remember(project.cacheKey, table);
}

/**
 * Stores the batch in one COPY with waiting batches of other requests. A batch with a key goes alone, in the
 * transaction that holds the key.
 */
async function storeByCopy(
  { project, idempotency, signal }: InsertRequest,
  schema: CachedSchema,
  rows: EncodedBatch,
): Promise<Inserted | NotStored> {
  const queue = schema.queueFor(rows);
  const inserted = insertResponse(rows.recordCount);
  if (idempotency !== null) {
    const repeat = { key: idempotency, responseSchema: BatchResponse };
    const options = { deadline: typedDeadline(signal), repeat, trace: project.trace?.forCopy([]) };
    return runWrite(project, options, async ({ lease, statementsOfResponse }) => {
      resetIfCodeRuns(lease, schema.table, false);
      const end = statementsOfResponse(inserted.response, rows.recordCount);
      const stored = await storeAndCheck(lease, queue.copyOf([rows]), schema.check, end);
      return typeof stored === 'string' ? stored : inserted;
    });
  }
  const stored = await queue.store({ rows, project, signal });
  return typeof stored === 'string' ? stored : inserted;
}

/** Stores the batch by one INSERT … ON CONFLICT. Without a key, the statement is a transaction by itself. */
async function storeByUpsert(
  { project, idempotency, signal }: InsertRequest,
  schema: CachedSchema,
  rows: EncodedBatch,
  upsert: UpsertRule,
): Promise<Inserted | NotStored> {
  const statement = fastUpsert(schema.table, rows, upsert);
  if (statement === null) return 'refused';
  const store = async (lease: Lease, end: Ending): Promise<Inserted | NotStored> => {
    resetIfCodeRuns(lease, schema.table, true);
    const results = await storeAndCheck(lease, statement, schema.check, end);
    if (typeof results === 'string') return results;
    const [inserted = 0, stored = 0] = (results[0]?.rows[0] ?? []).map(Number);
    return upsertResponse(rows.recordCount, { inserted, updated: stored - inserted });
  };
  const deadline = typedDeadline(signal);
  if (idempotency === null) return project.use({ connection: 'typed', deadline }, (lease) => store(lease, 'of itself'));
  const repeat = { key: idempotency, responseSchema: BatchResponse };
  return runWrite(project, { deadline, repeat }, async ({ lease, commit }) => {
    const inserted = await store(lease, 'by the caller');
    if (typeof inserted === 'string') return inserted;
    try {
      await commit([], inserted.response, rowsChanged(inserted.response));
    } catch (error) {
      // Deferred constraints are checked now.
      if (error instanceof PostgresError && !lease.session.closed && mayBeARecord(error)) return 'refused';
      throw error;
    }
    return inserted;
  });
}
