/** Stores the rows of a batch: the statements, the end of the write, and why nothing was stored. */
import type { RecordCells } from '../../codec/index.js';
import type { CommitPlan } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { type PostgresError, type Result, SQLSTATE, type Statement, type Step } from '../../pg/index.js';
import { codeOf } from '../../tenancy/postgres-errors.js';
import type { Table } from '../catalog/catalog.js';
import { findKey, requireOrder } from '../catalog/unique-key.js';
import { type BatchInsert, insertStatements } from './insert-statement.js';
import { NO_RECORDS_FAULT } from './refused-records.js';
import { type UpsertRule, upsertStatements, type StatementOptions } from './upsert.js';

/**
 * Returns a function that makes the statements that store rows: INSERTs, or upserts by the key of the rule.
 * @throws EngineError unknown_column, invalid_request
 */
export async function storingStatements(
  db: QueryRunner,
  table: Table,
  upsert: UpsertRule | null,
  { returnIds, oneByOne, distributesTables }: StatementOptions,
): Promise<(rows: readonly RecordCells[]) => BatchInsert[]> {
  if (upsert === null) return (rows) => insertStatements(table, rows, { returnIds, distributesTables });
  const key = await findKey(db, table, 'on_conflict', upsert.columns);
  if (upsert.version !== undefined) await requireOrder(db, table, 'version', upsert.version);
  const options = { returnIds, oneByOne: oneByOne || (returnIds && distributesTables), distributesTables };
  return (rows) => upsertStatements(table, rows, key, upsert, options);
}

/** Why nothing was stored: Postgres refused the rows, or they were encoded for an earlier schema. */
export type NotStored = 'refused' | 'outdated';

/** The results of the statements, or why nothing was stored. */
export type StoreOutcome = readonly Result[] | NotStored;

/**
 * The end of a write that stores rows and confirms the schema in one round trip. The check follows the COPY or INSERT,
 * whose lock prevents changes until the end of the transaction.
 * @param check fails if the table no longer has the columns that the rows were encoded for
 */
export const endByStoring = <A, T>(
  store: Step,
  check: Statement,
  end: Pick<CommitPlan<A, T>, 'response' | 'rows' | 'resultOf'>,
): CommitPlan<A, T | NotStored> => ({ ...end, beforeCommit: [store, check], prepared: true, onRefused: whyNotStored });

/**
 * Why Postgres refused to store rows.
 * @param done results of the statements before the refused one
 * @throws the error if no record can be at fault
 */
export function whyNotStored(error: PostgresError, done: readonly Result[], db: QueryRunner): NotStored {
  // The table may have gained a trigger since then, whose effects on the session are not rolled back.
  db.resetAfterUse();
  // A check follows each statement, and fails with a division by zero. One in a constraint or trigger fails earlier or later.
  if (error.sqlstate === SQLSTATE.DIVISION_BY_ZERO && done.length % 2 === 1) return 'outdated';
  if (!mayBeFaultOfRecord(error)) throw error;
  // Class 42: the table or a column is gone, or code that checked a record failed, which Postgres then names.
  return error.sqlstate.startsWith('42') && error.fields.where === undefined ? 'outdated' : 'refused';
}

/** Call this before rows are stored: the session is reset after use if that can run code of the project. */
export function resetIfCodeRuns(db: QueryRunner, table: Table, isUpsert: boolean): void {
  if (isUpsert ? table.updateRunsProjectCode : table.runsProjectCode) db.resetAfterUse();
}

/** Whether the checked path may find a record at fault. */
const mayBeFaultOfRecord = (error: PostgresError): boolean =>
  MAY_BE_FAULT_OF_RECORD.has(error.sqlstate) || !NO_RECORDS_FAULT.has(codeOf(error));

/** Binary data for a type that the column no longer has; a deadlock that arises only because batches share a COPY. */
const MAY_BE_FAULT_OF_RECORD = new Set<string>([SQLSTATE.PROTOCOL_VIOLATION, SQLSTATE.DEADLOCK_DETECTED]);
