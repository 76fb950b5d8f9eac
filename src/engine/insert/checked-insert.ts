/**
 * The checked path of an insert: it locks the table, checks every cell against its column, and stores by INSERT. It
 * accepts any batch for any table, can return ids, and names every wrong record.
 */
import { checkRecords, readRecords, type Records } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { BatchResponse } from '../../contract/wire/batch.js';
import { PostgresError, type Result, ROLLBACK, SQLSTATE } from '../../pg/index.js';
import { lockToWrite } from '../catalog/find-table.js';
import { typedDeadline } from '../limits/deadline.js';
import { runWrite, type Write } from '../write/write.js';
import { type BatchInsert, requireIds } from './insert-statement.js';
import { insertResponse, type Inserted, type InsertRequest, rowsChanged, upsertResponse } from './insert-request.js';
import { attributeRefusal } from './refused-records.js';
import { countStored, rowsStored, storingStatements } from './upsert.js';
import { resetIfCodeRuns } from './store-rows.js';

/** @throws EngineError as `insertRecords` */
export async function insertChecked(request: InsertRequest): Promise<Inserted> {
  const batch = readRecords(request.body);
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
function insertBatch(request: InsertRequest, batch: Records, oneByOne: boolean): Promise<Inserted> {
  const { project, idempotency, signal } = request;
  const options = { deadline: typedDeadline(signal), repeat: { key: idempotency, responseSchema: BatchResponse } };
  return runWrite(project, options, (write) => checkAndStore(request, batch, write, oneByOne));
}

async function checkAndStore(
  request: InsertRequest,
  batch: Records,
  { lease, begin, commit }: Write,
  oneByOne: boolean,
): Promise<Inserted> {
  const { project, tableName, returnIds, upsert } = request;
  const { isOnCitus } = project;
  const { session } = lease;
  const table = await lockToWrite(session, begin, project.schema, tableName, batch.errors);
  project.shared.schemaCache.remember(project.cacheKey, table);
  resetIfCodeRuns(lease, table, upsert !== null);
  if (returnIds) requireIds(table);
  const insertsFor = await storingStatements(session, table, upsert, { returnIds, oneByOne, isOnCitus });
  const rows = checkRecords(batch, table);
  const inserts = insertsFor(rows);
  const statements = inserts.map(({ statement }) => statement);
  // A trigger or rule may skip records, so the number of stored rows is known only after the INSERTs.
  const isCounted = returnIds || upsert !== null || table.runsProjectCode;
  try {
    const inserted = isCounted
      ? countedResponse(request, inserts, await session.run(statements), rows.length)
      : insertResponse(rows.length);
    await commit(isCounted ? [] : statements, inserted.response, rowsChanged(inserted.response));
    return inserted;
  } catch (error) {
    if (!(error instanceof PostgresError) || session.closed) throw error;
    await session.run([ROLLBACK]);
    if (error.sqlstate === SQLSTATE.CARDINALITY_VIOLATION && upsert !== null && !oneByOne) throw error;
    throw await attributeRefusal({ session, table, rows, insertsFor }, error, upsert?.columns ?? null);
  }
}

/** The response from the results of the INSERTs. @throws EngineError as {@link idsInOrder} */
function countedResponse(
  { returnIds, upsert }: InsertRequest,
  inserts: readonly BatchInsert[],
  results: readonly Result[],
  records: number,
): Inserted {
  const ids = returnIds ? idsInOrder(inserts, results, records) : undefined;
  if (upsert === null) return insertResponse(rowsStored(results), ids);
  return upsertResponse(records, countStored(results), ids);
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
