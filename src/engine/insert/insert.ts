/**
 * Batch insert (contract C8): 1 to 250 records in one transaction, all or none, once per
 * Idempotency-Key. Most batches take the fast path: the bytes of the request become rows of COPY. The fast path never
 * reports an error of a record: if the encoder does not understand a batch, or Postgres refuses it, the checked path
 * repeats it and reports the errors.
 */
import { checkRecords, type EncodedBatch, type RecordBatch } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { BatchResponse } from '../../contract/wire/batch.js';
import type { Project } from '../../db/project.js';
import { planCommit, type CommitPlan, type WriteEnd } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { type PostgresError, type Result, SQLSTATE } from '../../pg/index.js';
import { readTables, tableToWrite } from '../catalog/catalog.js';
import { lockToWrite } from '../catalog/find-table.js';
import { type BatchInsert, requireIds, rowsStored } from './insert-statement.js';
import { insertPartially } from './partial-insert.js';
import { attributeRefusal } from './refused-records.js';
import {
  type BatchRequest,
  type Inserted,
  insertResponse,
  type RecordsBody,
  rowsChanged,
  upsertResponse,
} from './batch.js';
import { type NotStored, resetIfCodeRuns, endByStoring, storingStatements, whyNotStored } from './store-rows.js';
import type { CachedTable, TableCache } from './table-cache.js';
import { fitsTable, unknownKeys } from './unknown-fields.js';
import { countStored, fastUpsert, type UpsertRule } from './upsert.js';

/** A table whose schema keeps changing goes to the checked path, which locks it first. */
const ATTEMPTS = 2;

export interface InsertRequest extends BatchRequest {
  readonly tableCache: TableCache;
  /** Return the ids as well. */
  readonly returnIds: boolean;
  /** Store the valid records, and quarantine the others. */
  readonly quarantine: boolean;
}

export type InsertOptions = Omit<InsertRequest, 'project' | 'tableName' | 'body'>;

/**
 * @throws EngineError any code that contract C8 names. Nothing was stored then, except that `outcome_unknown`
 * leaves it open.
 */
export async function insertRecords(
  project: Project,
  tableName: string,
  body: RecordsBody,
  options: InsertOptions,
): Promise<Inserted> {
  const request = { project, tableName, body, ...options };
  const { returnIds, key, quarantine } = options;
  // With a key, the check comes later: a repeat is answered even without room, since it stores nothing.
  if (key === null) await project.requireRoom('grows');

  // The fast path cannot return ids, and always commits.
  const isFast = !returnIds && project.dryRun === null;
  const inserted = isFast ? await insertFast(request) : null;
  if (inserted !== null) return inserted;
  return quarantine ? insertPartially(request) : insertChecked(request);
}

/** @returns null: nothing was stored; the checked path stores the batch, or reports what is wrong with it */
async function insertFast(request: InsertRequest): Promise<Inserted | null> {
  const { project, tableCache, throttle, body, upsert } = request;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const cached = await cachedTable(request);
    if (cached === null || !fitsTable(request.unknown, cached.table)) return null;
    const encoder = upsert === null ? cached.encoder : cached.upsertEncoder;
    const encoded = await throttle.run(project.id, () => (encoder === null ? null : body.encode(encoder)));
    if (encoded === null) return null;
    try {
      const outcome =
        upsert === null
          ? await storeByCopy(request, cached, encoded)
          : await storeByUpsert(request, cached, encoded, upsert);
      if (outcome === 'refused') return null;
      if (outcome !== 'outdated') return outcome;
    } finally {
      encoded.free();
    }
    tableCache.forget(project.cacheKey, cached);
  }
  return null;
}

/** @returns null if there is no such table. The insert's transaction checks for later changes. */
export async function cachedTable({
  project,
  tableCache,
  tableName,
  signal,
}: Pick<InsertRequest, 'project' | 'tableCache' | 'tableName' | 'signal'>): Promise<CachedTable | null> {
  const cached = tableCache.get(project.cacheKey, tableName);
  if (cached !== undefined) return cached;
  const query = tableToWrite(project.schema, tableName);
  const rows = await project.read({ signal }, (db) => db.query(query));
  const [table] = readTables(project.schema, rows);
  return table === undefined ? null : tableCache.remember(project.cacheKey, table);
}

/**
 * Stores the batch in one COPY with waiting batches of other requests. A batch with a key goes alone, in the
 * transaction that holds the key.
 */
async function storeByCopy(
  { project, key, signal }: InsertRequest,
  cached: CachedTable,
  encoded: EncodedBatch,
): Promise<Inserted | NotStored> {
  const queue = cached.queueFor(encoded);
  const { recordCount } = encoded;
  const inserted = { response: insertResponse(recordCount), replayed: false };
  if (key === null) {
    const stored = await queue.store({ encoded, project, signal });
    return typeof stored === 'string' ? stored : inserted;
  }
  const underKey = { key, responseSchema: BatchResponse };
  return project.write({ signal, underKey, trace: project.trace?.forCopy([]) }, (db) => {
    resetIfCodeRuns(db, cached.table, false);
    const end = { response: inserted.response, rows: recordCount, resultOf: () => inserted };
    return endByStoring(queue.copyOf([encoded]), cached.check, end);
  });
}

/** Stores the batch by one INSERT … ON CONFLICT. Without a key, the statement is a transaction by itself. */
async function storeByUpsert(
  { project, throttle, key, signal }: InsertRequest,
  cached: CachedTable,
  encoded: EncodedBatch,
  upsert: UpsertRule,
): Promise<Inserted | NotStored> {
  const { table, check } = cached;
  const statement = throttle.charge(project.id, () => fastUpsert(table, encoded, upsert));
  if (statement === null) return 'refused';
  const resultOf = ([result]: readonly Result[]): Inserted => {
    const [inserted = 0, stored = 0] = (result?.rows[0] ?? []).map(Number);
    const response = upsertResponse(upsert, encoded.recordCount, { inserted, updated: stored - inserted });
    return { response, replayed: false };
  };
  if (key === null) {
    return project.write<Inserted | NotStored>({ signal }, (db) => {
      resetIfCodeRuns(db, table, true);
      return endByStoring(statement, check, { response: null, resultOf });
    });
  }
  const underKey = { key, responseSchema: BatchResponse };
  return project.write({ signal, underKey }, async (db): Promise<WriteEnd<BatchResponse, Inserted | NotStored>> => {
    resetIfCodeRuns(db, table, true);
    // The counts must be known before the response is stored.
    const { results, error } = await db.pipeline([statement, check], { prepared: true });
    if (error !== null) return { rollback: whyNotStored(db.refusal(error), results, db) };
    const inserted = resultOf(results);
    return {
      response: inserted.response,
      rows: rowsChanged(inserted.response),
      resultOf: () => inserted,
      // Deferred constraints are checked now.
      onRefused: whyNotStored,
    };
  });
}

// The checked path of an insert: it locks the table, checks every cell against its column, and stores by INSERT. It
// accepts any batch for any table, can return ids, and names every wrong record.

/** @throws EngineError as `insertRecords` */
async function insertChecked(request: InsertRequest): Promise<Inserted> {
  const batch = await request.throttle.runSteps(request.project.id, request.body.read());
  try {
    return await insertBatch(request, batch, false);
  } catch (error) {
    if (request.upsert === null || !mayPassOneByOne(error)) throw error;
    return insertBatch(request, batch, true);
  }
}

/**
 * True if the records of an upsert might succeed one by one: two have keys that only the column's type considers
 * equal, such as "A" and "a" of citext; or a record frees a value of another unique index that a later record takes.
 * In the second case `attributeRefusal` has stored the records in parts and found none at fault. `errorCount` is also 0
 * if that attempt failed for another reason.
 */
function mayPassOneByOne(error: unknown): boolean {
  if (!(error instanceof EngineError)) return false;
  const sqlstate = error.postgres?.sqlstate;
  return (
    sqlstate === SQLSTATE.CARDINALITY_VIOLATION || (sqlstate === SQLSTATE.UNIQUE_VIOLATION && error.errorCount === 0)
  );
}

/** @param oneByOne an upsert runs a statement for each record */
function insertBatch(request: InsertRequest, batch: RecordBatch, oneByOne: boolean): Promise<Inserted> {
  const { project, key, signal } = request;
  const underKey = { key, responseSchema: BatchResponse };
  return project.write({ signal, underKey }, (db) => checkAndStore(request, batch, db, oneByOne));
}

async function checkAndStore(
  request: InsertRequest,
  batch: RecordBatch,
  db: QueryRunner,
  oneByOne: boolean,
): Promise<CommitPlan<BatchResponse, Inserted>> {
  const { project, tableCache, throttle, tableName, returnIds, upsert } = request;
  const distributesTables = project.distributesTables;
  const table = await lockToWrite(db, project.schema, tableName, batch.errors);
  tableCache.remember(project.cacheKey, table);
  resetIfCodeRuns(db, table, upsert !== null);
  if (returnIds) requireIds(table);
  const unknown = unknownKeys(request.unknown, table);
  const insertsFor = await storingStatements(db, table, upsert, { returnIds, oneByOne, distributesTables });
  const rows = await throttle.runSteps(project.id, checkRecords(batch, table, { unknown }));
  const inserts = throttle.charge(project.id, () => insertsFor(rows));
  const statements = inserts.map(({ statement }) => statement);
  // A trigger or rule may skip records, so the number of stored rows is known only after the INSERTs.
  const isCounted = returnIds || upsert !== null || table.runsProjectCode;
  const explainRefusal = async (error: PostgresError, db: QueryRunner): Promise<never> => {
    if (error.sqlstate === SQLSTATE.CARDINALITY_VIOLATION && upsert !== null && !oneByOne) throw error;
    throw await attributeRefusal({ db, table, rows, insertsFor }, error, upsert?.columns ?? null);
  };
  if (!isCounted)
    return planCommit(insertResponse(rows.length), statements, { rows: rows.length, onRefused: explainRefusal });
  const { results, error } = await db.pipeline(statements);
  if (error !== null) {
    const refusal = db.refusal(error);
    await db.rollback();
    return explainRefusal(refusal, db);
  }
  const response = countedResponse(request, inserts, results, rows.length);
  return planCommit(response, [], { rows: rowsChanged(response), onRefused: explainRefusal });
}

/** The response from the results of the INSERTs. @throws EngineError as {@link idsInOrder} */
function countedResponse(
  { returnIds, upsert }: InsertRequest,
  inserts: readonly BatchInsert[],
  results: readonly Result[],
  records: number,
): BatchResponse {
  const ids = returnIds ? idsInOrder(inserts, results, records) : undefined;
  if (upsert === null) return insertResponse(rowsStored(results), ids);
  return upsertResponse(upsert, records, countStored(results), ids);
}

/**
 * The ids that the INSERTs returned, by the position of their record in the request.
 * @throws EngineError constraint_violation if rows are missing: then no id can be matched to a record
 */
function idsInOrder(inserts: readonly BatchInsert[], results: readonly Result[], count: number): string[] {
  const ids = new Array<string | undefined>(count);
  inserts.forEach(({ records }, i) => {
    for (const [row, values] of (results[i]?.rows ?? []).entries()) ids[records[row] ?? count] ??= values.at(-1) ?? '';
  });
  if (Array.from(ids).every((id) => id !== undefined)) return ids as string[];
  throw new EngineError(
    'constraint_violation',
    'Nothing was stored: a trigger, a rule or a key that is a default skipped records, so their ids are unknown',
    { hint: 'Send the batch without return=ids.' },
  );
}
