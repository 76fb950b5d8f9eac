/**
 * The records of a batch that only Postgres refuses (constraints, triggers, values of types of its own): found by
 * storing parts of the batch, each under a savepoint.
 */
import { checkRecords, type Records, type Row } from '../../codec/index.js';
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError, type EngineErrorOptions } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import {
  BEGIN,
  fixed,
  PostgresError,
  type Result,
  ROLLBACK,
  type Session,
  SQLSTATE,
  type Statement,
} from '../../pg/index.js';
import { detailsOf, toEngineError } from '../../tenancy/engine-error.js';
import type { Table } from '../catalog/catalog.js';
import { columnsAtFault, type KnownConstraints } from './columns-at-fault.js';
import { NO_RECORDS_FAULT, placeOf, recordErrorCode, type RefusedRecord } from './record-error.js';

/** What stores records. */
type BuildStatements = (rows: readonly Row[]) => readonly Statement[];

/**
 * @param hidesRow the row that Postgres shows in its detail may hold values that the caller has not sent
 * @param error what Postgres said of the whole batch; its transaction has been rolled back
 * @returns the error to answer with, naming the records where they can be found
 */
export async function attributeRefusal(
  session: Session,
  batch: Records,
  table: Table,
  write: BuildStatements,
  error: PostgresError,
  hidesRow: boolean,
): Promise<unknown> {
  const code = recordErrorCode(error);
  if (NO_RECORDS_FAULT.has(code)) return toEngineError(error);
  const refused = await rerun(session, batch, table, write);
  const [first] = refused;
  if (first === undefined) return new EngineError(code, error.message, whatPostgresSaid(error, table, hidesRow));
  const errors = new ErrorCollector();
  for (const place of refused) errors.add(recordErrorCode(place.error), () => placeOf(place));
  return errors.toError(whatPostgresSaid(first.error, table, hidesRow));
}

function whatPostgresSaid(error: PostgresError, { name }: Table, hidesRow: boolean): EngineErrorOptions {
  const { hint } = error.fields;
  const { detail, ...others } = detailsOf(error);
  if (error.isOfWorker) others.table ??= name;
  const postgres = hidesRow || detail === undefined ? others : { ...others, detail };
  return { postgres, cause: error, ...(hint === undefined ? {} : { hint }) };
}

/** @returns the refused records in the order of the batch; none where something else got in the way */
async function rerun(session: Session, batch: Records, table: Table, write: BuildStatements): Promise<RefusedRecord[]> {
  const rows = checkRecords(batch, table);
  let refused: RefusedRecord[] = [];
  try {
    await session.run([BEGIN]);
    const options = { explained: LIMITS.errorsListed, inOrder: false };
    ({ refused } = await storeWhatFits(session, table, rows, [...rows.keys()], write, options));
  } catch (error) {
    if (!(error instanceof PostgresError) || session.closed) throw error;
  }
  await session.run([ROLLBACK]);
  return refused;
}

interface WhatFits {
  /** Refused records whose columns at fault are looked for. */
  explained: number;
  /** A record may meet the row of an earlier one of its batch, so none is stored out of turn. */
  inOrder: boolean;
}

/**
 * Stores the records that Postgres takes, in the transaction that is under way. A part that it refuses is undone and
 * stored in halves, down to single records.
 * @returns the refused records in their order, and the results of the statements that stored the others
 * @throws PostgresError where what stops it is no record's fault
 */
export async function storeWhatFits(
  session: Session,
  table: Table,
  rows: readonly Row[],
  records: readonly number[],
  write: BuildStatements,
  { explained, inOrder }: WhatFits,
): Promise<{ refused: RefusedRecord[]; results: Result[] }> {
  const results: Result[] = [];
  const known: KnownConstraints = new Map();
  const store = async (part: readonly number[]): Promise<RefusedRecord[]> => {
    if (part.length === 0) return [];
    const statements = write(part.map((record) => rows[record] as Row));
    const outcome = await session.pipeline([
      fixed('SAVEPOINT _cdp_records'),
      ...statements,
      // A deferred constraint would speak only at the end, and then of no record.
      fixed('SET CONSTRAINTS ALL IMMEDIATE'),
      fixed('SET CONSTRAINTS ALL DEFERRED'),
      fixed('RELEASE SAVEPOINT _cdp_records'),
    ]);
    const { error } = outcome;
    if (error === null) {
      results.push(...outcome.results.slice(1, 1 + statements.length));
      return [];
    }
    if (!(error instanceof PostgresError) || session.closed) throw error;
    if (NO_RECORDS_FAULT.has(recordErrorCode(error))) throw error;
    await session.run([fixed('ROLLBACK TO SAVEPOINT _cdp_records')]);
    const [record] = part;
    if (part.length > 1 || record === undefined) {
      const middle = Math.ceil(part.length / 2);
      return [...(await store(part.slice(0, middle))), ...(await store(part.slice(middle)))];
    }
    const isExplained = count++ < explained;
    const faults = isExplained ? await columnsAtFault(session, table, rows[record] as Row, error, known) : [];
    if (faults.length === 0) return [{ record, column: error.fields.column, error }];
    return faults.map((fault) => ({ record, ...fault }));
  };

  let count = 0;
  let refused = await store(records);
  // A record may point at a later one of its batch: it has another try, last ones first, as long as that helps any.
  for (let helped = !inOrder; helped;) {
    const pointing = refused.filter(({ error }) => error.sqlstate === SQLSTATE.FOREIGN_KEY_VIOLATION);
    const others = refused.filter((record) => !pointing.includes(record));
    const left = await store(pointing.map(({ record }) => record).reverse());
    helped = left.length < pointing.length;
    refused = [...others, ...left];
  }
  return { refused: refused.sort((a, b) => a.record - b.record), results };
}
