/**
 * The insert with on_error=quarantine: it stores the valid records, and quarantines the others with their errors, in
 * one transaction.
 */
import { checkRecords, type RecordBatch } from '../../codec/index.js';
import type { ErrorDetail } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { BatchResponse } from '../../contract/wire/batch.js';
import { planCommit } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import type { Table } from '../catalog/catalog.js';
import { lockToWrite } from '../catalog/find-table.js';
import type { Project } from '../../db/project.js';
import { rowsStored } from './insert-statement.js';
import { quarantineRecords } from './quarantine.js';
import { quarantinedDetail, recordErrorCode, storeWhatFits } from './refused-records.js';
import { type BatchRequest, type Inserted, insertResponse, rowsChanged, upsertResponse } from './batch.js';
import { unknownKeys } from './unknown-fields.js';
import { resetIfCodeRuns, storingStatements } from './store-rows.js';
import { countStored, type StoredCounts, type UpsertRule } from './upsert.js';

/** @throws EngineError if the batch cannot be read, or the cause is the table or the server */
export async function insertPartially(request: BatchRequest): Promise<Inserted> {
  const { project, throttle, tableName, key, quarantineDays, upsert, signal } = request;
  const batch = await throttle.runSteps(project.id, request.body.read({ apart: true }));
  const underKey = { key, responseSchema: BatchResponse };
  return project.write({ signal, underKey }, async (db) => {
    const table = await lockToWrite(db, project.schema, tableName);
    resetIfCodeRuns(db, table, upsert !== null);
    const outcome = await storePartially(db, project, table, batch, request);
    const response = partialResponse(batch.records.length, outcome, upsert);
    const steps = quarantineRecords(
      project,
      tableName,
      outcome.refused,
      batch.textOf,
      key?.text ?? null,
      quarantineDays,
    );
    const quarantine = await throttle.runSteps(project.id, steps);
    return planCommit(response, quarantine, { rows: rowsChanged(response) });
  });
}

interface PartiallyStored {
  readonly stored: StoredCounts;
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
  db: QueryRunner,
  { id, role, distributesTables, dryRun, schema }: Project,
  table: Table,
  batch: RecordBatch,
  { upsert, unknown, throttle }: Pick<BatchRequest, 'upsert' | 'unknown' | 'throttle'>,
): Promise<PartiallyStored> {
  const keys = unknownKeys(unknown, table);
  const options = { returnIds: false, oneByOne: false, distributesTables };
  const insertsFor = await storingStatements(db, table, upsert, options);
  const rows = await throttle.runSteps(id, checkRecords(batch, table, { throws: false, unknown: keys }));
  const errors = new Map<number, readonly ErrorDetail[]>();
  let errorCount = 0;
  for (const record of rows.keys()) {
    const { details, total } = batch.errorsOf(record);
    if (total > 0) errors.set(record, details);
    errorCount += total;
  }
  const good = [...rows.keys()].filter((record) => !errors.has(record));
  const store = (records: readonly number[]) =>
    storeWhatFits({ db, table, rows, insertsFor }, records, { maxExplained: Infinity, inOrder: upsert !== null });
  let outcome = await store(good);
  // About who sends it, not about the record: a replay would store it with the rights of the writer.
  const denied = outcome.refused.find(({ error }) => recordErrorCode(error) === 'permission_denied');
  if (role !== null && denied !== undefined) throw denied.error;
  errorCount += outcome.refused.length;
  for (const one of outcome.refused) {
    errors.set(one.record, [...(errors.get(one.record) ?? []), quarantinedDetail(one)]);
  }
  if (dryRun !== null && outcome.refused.length > 0) {
    // Postgres has counted the rows of attempts that were rolled back, too.
    await db.restart();
    await lockToWrite(db, schema, table.name);
    outcome = await store(good.filter((record) => !errors.has(record)));
  }
  const { results } = outcome;
  const stored = upsert === null ? { inserted: rowsStored(results), updated: 0 } : countStored(results);
  return { stored, refused: new Map([...errors].sort(([a], [b]) => a - b)), errorCount };
}

function partialResponse(
  records: number,
  { stored, refused, errorCount }: PartiallyStored,
  upsert: UpsertRule | null,
): BatchResponse {
  const response =
    upsert === null ? insertResponse(stored.inserted) : upsertResponse(upsert, records - refused.size, stored);
  if (refused.size === 0) return { ...response, quarantined_rows: 0 };
  const errors = [...refused.values()].flat().slice(0, LIMITS.errorsListed);
  const message = `${response.message}, ${refused.size} quarantined`;
  return { ...response, quarantined_rows: refused.size, errors, error_count: errorCount, message };
}
