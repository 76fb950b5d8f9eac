/**
 * Batch insert (specification 4.4; contract section 6): 1 to 250 records in one transaction, all or none, once per
 * Idempotency-Key. Most batches take the fast path: the bytes of the request become rows of COPY. The fast path never
 * reports an error of a record: if the encoder does not understand a batch, or Postgres refuses it, the checked path
 * repeats it and reports the errors.
 */
import type { EncodedBatch } from '../../codec/index.js';
import { BatchAnswer } from '../../contract/wire/batch.js';
import { COMMIT } from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { readTables, tableToWrite } from '../catalog/catalog.js';
import type { RequestTrace } from '../database/trace.js';
import { type Deadline, typedDeadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import type { IdempotencyKey } from '../write/idempotency.js';
import { writeOnce } from '../write/write.js';
import { insertChecked } from './checked-insert.js';
import type { CopyOutcome, QueuedBatch } from './copy-queue.js';
import { insertAnswer, type Inserted } from './insert-answer.js';
import { insertPartially } from './partial-insert.js';
import { type CachedSchema, storeAndCheck } from './schema-cache.js';
import { storeByUpsert } from './store-by-upsert.js';
import type { UpsertRule } from './upsert.js';

interface InsertOptions {
  /** Return the ids as well. */
  returnIds: boolean;
  idempotency: IdempotencyKey | null;
  /** What to do with a row that has the key of a record; null: refuse the record. */
  upsert: UpsertRule | null;
  /** Store the valid records, and quarantine the others. */
  quarantine: boolean;
  /** Aborted when the client disconnects. */
  signal: AbortSignal;
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
  const { returnIds, idempotency, upsert, quarantine, signal } = options;
  const deadline = typedDeadline(signal);

  // With a key, the check comes later: a repeat is answered even without room, since it stores nothing.
  if (idempotency === null) await project.requireRoom();

  // The fast paths cannot return ids, and always commit.
  const isFast = !returnIds && project.rehearsal === null;
  for (let attempt = 1; attempt <= ATTEMPTS && isFast; attempt++) {
    const schema = await schemaOf(project, tableName, deadline);
    const encoder = upsert === null ? schema?.encoder : schema?.upsertEncoder;
    const rows = encoder?.encode(body);
    if (schema === null || rows == null) break;
    try {
      const outcome =
        upsert === null
          ? await storeByCopy(project, schema, rows, deadline, idempotency)
          : await storeByUpsert(project, schema, rows, upsert, deadline, idempotency);
      if (outcome === 'refused') break;
      if (outcome !== 'outdated') return outcome;
    } finally {
      rows.free();
    }
    project.schemaCache.forget(project.cacheKey, schema);
  }
  if (quarantine) return insertPartially(project, tableName, body, deadline, options);
  return insertChecked(project, tableName, body, deadline, options);
}

/** @returns null if there is no such table. The insert's transaction checks for later changes. */
async function schemaOf(project: Project, tableName: string, deadline: Deadline): Promise<CachedSchema | null> {
  const cached = project.schemaCache.get(project.cacheKey, tableName);
  if (cached !== undefined) return cached;
  const look = tableToWrite(project.schema, tableName);
  const rows = await project.use('typed', deadline, ({ session }) => session.query(look), 'none');
  const [table] = readTables(project.schema, rows);
  return table === undefined ? null : project.schemaCache.remember(project.cacheKey, table);
}

/**
 * Stores the batch in one COPY with waiting batches of other requests. A batch with a key goes alone, in the
 * transaction that holds the key.
 * @returns the answer if the batch was stored; if nothing was stored, 'refused' or 'outdated'
 */
async function storeByCopy(
  project: Project,
  schema: CachedSchema,
  rows: EncodedBatch,
  deadline: Deadline,
  idempotency: IdempotencyKey | null,
): Promise<Inserted | Exclude<CopyOutcome, 'stored'>> {
  const { waitBudget, trace } = project;
  const target = schema.targetOf(rows);
  const result = insertAnswer(rows.records);
  if (idempotency !== null) {
    const options = { deadline, idempotency, stored: BatchAnswer, trace: trace?.copying([]) };
    return writeOnce(project, options, async ({ lease, storing }) => {
      const end = [...storing(result.answer, rows.records), COMMIT];
      const { outcome } = await storeAndCheck(lease, schema, target.copy([rows]), end);
      return outcome === 'stored' ? result : outcome;
    });
  }
  const copy = async (batches: readonly QueuedBatch[], signal: AbortSignal): Promise<CopyOutcome> => {
    const step = target.copy(batches.map((batch) => batch.rows));
    const store = (lease: Lease) => storeAndCheck(lease, schema, step);
    const { outcome } = await project.use('typed', { ...deadline, signal }, store, 'writes', traceOf(batches));
    return outcome;
  };
  const outcome = await target.queue.store({ rows, signal: deadline.signal, waitBudget, trace }, copy);
  return outcome === 'stored' ? result : outcome;
}

/** The COPY belongs to the trace of the first traced request; the traces of the others link to it. */
function traceOf(batches: readonly QueuedBatch[]): RequestTrace | null {
  const [first, ...others] = batches.flatMap(({ trace }) => trace ?? []);
  return first === undefined ? null : first.copying(others);
}
