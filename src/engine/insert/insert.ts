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
import type { Project } from '../project.js';
import { runWrite } from '../write/write.js';
import { insertChecked } from './checked-insert.js';
import { fastUpsert } from './fast-upsert.js';
import { insertResponse, type Inserted, rowsChanged, upsertResponse } from './insert-response.js';
import type { InsertRequest } from './insert-request.js';
import { insertPartially } from './partial-insert.js';
import type { CachedSchema } from './schema-cache.js';
import { type Commit, mayBeARecord, type NotStored, resetIfCodeRuns, storeAndCheck } from './store-rows.js';
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
async function schemaOf({ project, tableName, deadline }: InsertRequest): Promise<CachedSchema | null> {
  const cached = project.shared.schemaCache.get(project.cacheKey, tableName);
  if (cached !== undefined) return cached;
  const query = tableToWrite(project.schema, tableName);
  const rows = await project.use({ connection: 'typed', deadline, growth: 'none' }, ({ session }) =>
    session.query(query),
  );
  const [table] = readTables(project.schema, rows);
  return table === undefined ? null : project.shared.schemaCache.remember(project.cacheKey, table);
}

/**
 * Stores the batch in one COPY with waiting batches of other requests. A batch with a key goes alone, in the
 * transaction that holds the key.
 */
async function storeByCopy(
  { project, deadline, idempotency }: InsertRequest,
  schema: CachedSchema,
  rows: EncodedBatch,
): Promise<Inserted | NotStored> {
  const target = schema.targetOf(rows);
  const inserted = insertResponse(rows.records);
  if (idempotency !== null) {
    const options = { deadline, idempotency, responseSchema: BatchResponse, trace: project.trace?.forCopy([]) };
    return runWrite(project, options, async ({ lease, responseRow }) => {
      const row = responseRow(inserted.response, rows.records);
      const stored = await storeAndCheck(lease, schema, target.stepOf([rows]), 'now', row);
      return typeof stored === 'string' ? stored : inserted;
    });
  }
  const stored = await target.queue.store({ rows, project, signal: deadline.signal });
  return typeof stored === 'string' ? stored : inserted;
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
  const store = async (lease: Lease, commit: Commit): Promise<Inserted | NotStored> => {
    resetIfCodeRuns(lease, schema.table, true);
    const results = await storeAndCheck(lease, schema, statement, commit);
    if (typeof results === 'string') return results;
    const [inserted = 0, stored = 0] = (results[0]?.rows[0] ?? []).map(Number);
    return upsertResponse(rows.records, { inserted, updated: stored - inserted });
  };
  if (idempotency === null) return project.use({ connection: 'typed', deadline }, (lease) => store(lease, 'alone'));
  return runWrite(project, { deadline, idempotency, responseSchema: BatchResponse }, async ({ lease, commit }) => {
    const inserted = await store(lease, 'later');
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
