/**
 * The insert with on_error=quarantine: it stores the valid records, and quarantines the others with their errors, in
 * one transaction.
 */
import { checkRecords, readRecords, type Records } from '../../codec/index.js';
import type { ErrorDetail } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { BatchResponse } from '../../contract/wire/batch.js';
import { BEGIN, ROLLBACK, type Session } from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';
import { lockToWrite } from '../catalog/find-table.js';
import { typedDeadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import { quarantineRecords } from './quarantine.js';
import { runWrite } from '../write/write.js';
import { insertResponse, type Inserted, type InsertRequest, rowsChanged, upsertResponse } from './insert-request.js';
import { recordPlace, recordErrorCode } from './record-error.js';
import { storeWhatFits } from './refused-records.js';
import { countStored, rowsStored, type StoredRows, storingStatements, type UpsertRule } from './upsert.js';
import { resetIfCodeRuns } from './store-rows.js';

/** @throws EngineError if the batch cannot be read, or the cause is the table or the server */
export async function insertPartially(request: InsertRequest): Promise<Inserted> {
  const { project, tableName, idempotency, upsert, signal } = request;
  const batch = readRecords(request.body, true);
  const options = { deadline: typedDeadline(signal), repeat: { key: idempotency, responseSchema: BatchResponse } };
  return runWrite(project, options, async ({ lease, begin, commit }): Promise<Inserted> => {
    const table = await lockToWrite(lease.session, begin, project.schema, tableName);
    resetIfCodeRuns(lease, table, upsert !== null);
    const outcome = await storePartially(lease.session, project, table, batch, upsert);
    const kept = [...outcome.refused].map(([record, errors]) => ({ text: batch.textOf(record), errors }));
    const response = partialResponse(batch.records.length, outcome, upsert !== null);
    const quarantine = quarantineRecords(tableName, kept, idempotency?.key ?? null, project.shared.quarantineDays);
    return { response: await commit(quarantine, response, rowsChanged(response)), replayed: false };
  });
}

interface PartiallyStored {
  readonly stored: StoredRows;
  /** The first errors of each refused record, by its number in the batch. */
  readonly refused: ReadonlyMap<number, readonly ErrorDetail[]>;
  /** The number of all errors. */
  readonly errorCount: number;
}

/**
 * Stores the records that can be stored, in the current transaction.
 * @param batch collects errors by record
 */
export async function storePartially(
  session: Session,
  { isOnCitus, dryRun, schema }: Project,
  table: Table,
  batch: Records,
  upsert: UpsertRule | null,
): Promise<PartiallyStored> {
  const options = { returnIds: false, oneByOne: false, isOnCitus };
  const insertsFor = await storingStatements(session, table, upsert, options);
  const rows = checkRecords(batch, table, false);
  const errors = new Map<number, readonly ErrorDetail[]>();
  let errorCount = 0;
  for (const record of rows.keys()) {
    const { places, total } = batch.errorsOf(record);
    if (total > 0) errors.set(record, places);
    errorCount += total;
  }
  const good = [...rows.keys()].filter((record) => !errors.has(record));
  const store = (records: readonly number[]) =>
    storeWhatFits({ session, table, rows, insertsFor }, records, { maxExplained: Infinity, inOrder: upsert !== null });
  let outcome = await store(good);
  errorCount += outcome.refused.length;
  for (const one of outcome.refused) {
    const place = { ...recordPlace(one), error: recordErrorCode(one.error) };
    errors.set(one.record, [...(errors.get(one.record) ?? []), place]);
  }
  if (dryRun !== null && outcome.refused.length > 0) {
    // Postgres has counted the rows of attempts that were rolled back, too.
    await session.run([ROLLBACK]);
    await dryRun.begin(session);
    await lockToWrite(session, [BEGIN], schema, table.name);
    outcome = await store(good.filter((record) => !errors.has(record)));
  }
  const { results } = outcome;
  const stored = upsert === null ? { inserted: rowsStored(results), updated: 0 } : countStored(results);
  return { stored, refused: new Map([...errors].sort(([a], [b]) => a - b)), errorCount };
}

function partialResponse(
  records: number,
  { stored, refused, errorCount }: PartiallyStored,
  isUpsert: boolean,
): BatchResponse {
  const { response } = isUpsert ? upsertResponse(records - refused.size, stored) : insertResponse(stored.inserted);
  if (refused.size === 0) return { ...response, quarantined_rows: 0 };
  const errors = [...refused.values()].flat().slice(0, LIMITS.errorsListed);
  const message = `${response.message}, ${refused.size} quarantined`;
  return { ...response, quarantined_rows: refused.size, errors, error_count: errorCount, message };
}
