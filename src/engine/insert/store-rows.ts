/** Stores encoded rows, and confirms that the table still has the columns that they were encoded for. */
import { COMMIT, PostgresError, type Result, SQLSTATE, type Statement, type Step } from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { errorCode } from '../../tenancy/engine-error.js';
import type { Table } from '../catalog/catalog.js';
import { resultsOrOutcomeUnknown } from '../write/commit.js';
import { NO_RECORDS_FAULT } from './record-error.js';

/** Why nothing was stored: Postgres refused the rows, or they were encoded for an earlier schema. */
export type NotStored = 'refused' | 'outdated';

/** The results of the statements, or why nothing was stored. */
export type Stored = readonly Result[] | NotStored;

/**
 * How the transaction that stores rows ends. `of itself`: it is one round trip, and ends with it; `by the caller`: its BEGIN
 * and COMMIT are the caller's; statements: it holds an Idempotency-Key, and they and COMMIT end it in the same round trip.
 */
export type Ending = 'of itself' | 'by the caller' | readonly Statement[];

/**
 * Stores rows and confirms the schema in one round trip. The check follows the COPY or INSERT, whose lock prevents
 * changes until the end of the transaction.
 * @param check fails if the table no longer has the columns that the rows were encoded for
 */
export async function storeAndCheck(lease: Lease, store: Step, check: Statement, end: Ending): Promise<Stored> {
  const { session } = lease;
  const hasKey = typeof end !== 'string';
  const steps = [store, check, ...(hasKey ? end : [])];
  const ran = await session.pipeline(hasKey ? [...steps, COMMIT] : steps, { prepared: true });
  try {
    if (end !== 'by the caller') return resultsOrOutcomeUnknown(session, ran, steps.length, hasKey);
    if (ran.error !== null) throw ran.error;
    return ran.results;
  } catch (error) {
    // The table may have gained a trigger since then, whose effects on the session are not rolled back.
    lease.resetAfterUse();
    if (!(error instanceof PostgresError) || session.closed) throw error;
    // The check fails with a division by zero. One in a constraint or trigger fails earlier or later.
    if (error.sqlstate === SQLSTATE.DIVISION_BY_ZERO && ran.results.length === 1) return 'outdated';
    if (!mayBeARecord(error)) throw error;
    // Class 42: the table or a column is gone, or code that checked a record failed, which Postgres then names.
    return error.sqlstate.startsWith('42') && error.fields.where === undefined ? 'outdated' : 'refused';
  }
}

/** Call this before rows are stored: the session is reset after use if that can run code of the project. */
export function resetIfCodeRuns(lease: Lease, table: Table, isUpsert: boolean): void {
  if (isUpsert ? table.updateRunsProjectCode : table.runsProjectCode) lease.resetAfterUse();
}

/** Whether the checked path may find a record at fault. */
export const mayBeARecord = (error: PostgresError): boolean =>
  MAY_BE_A_RECORD.has(error.sqlstate) || !NO_RECORDS_FAULT.has(errorCode(error));

/** Binary data for a type that the column no longer has; a deadlock that arises only because batches share a COPY. */
const MAY_BE_A_RECORD = new Set<string>([SQLSTATE.PROTOCOL_VIOLATION, SQLSTATE.DEADLOCK_DETECTED]);
