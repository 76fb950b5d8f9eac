/**
 * Finds the records of a batch that only Postgres can refuse (constraints, triggers, types other than the six), by
 * storing parts of the batch, each under a savepoint.
 */
import type { Row } from '../../codec/index.js';
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError, type EngineErrorOptions } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import { BEGIN, fixed, PostgresError, type Result, ROLLBACK, type Session, SQLSTATE } from '../../pg/index.js';
import { detailsOf, toEngineError } from '../../tenancy/engine-error.js';
import type { Table } from '../catalog/catalog.js';
import type { BatchInsert } from './insert-statement.js';
import { columnsAtFault, type KnownConstraints } from './columns-at-fault.js';
import { NO_RECORDS_FAULT, recordPlace, recordErrorCode, type RefusedRecord } from './record-error.js';

/** The rows of a batch, and how to store them. */
interface RecordWrite {
  readonly session: Session;
  readonly table: Table;
  /** One for each record of the batch, checked against the table. */
  readonly rows: readonly Row[];
  /** Makes the statements that store these rows. */
  readonly insertsFor: (rows: readonly Row[]) => readonly BatchInsert[];
}

/**
 * @param upsertKey the key columns of an upsert, which keeps values of the row: Postgres's DETAIL may contain values
 * that the caller has not sent
 * @param error Postgres's error for the whole batch, whose transaction has been rolled back
 * @returns the error for the caller, naming the records if they can be found
 */
export async function attributeRefusal(
  write: RecordWrite,
  error: PostgresError,
  upsertKey: readonly string[] | null,
): Promise<unknown> {
  const code = recordErrorCode(error);
  if (NO_RECORDS_FAULT.has(code)) return toEngineError(error);
  const { table, rows } = write;
  const refused = await rerun(write);
  const [first] = refused;
  if (first === undefined) {
    return new EngineError(code, error.message, whatPostgresSaid(error, table, upsertKey !== null));
  }
  const errors = new ErrorCollector();
  for (const place of refused) {
    errors.add(recordErrorCode(place.error), () => ({
      ...recordPlace(place),
      ...earlierDuplicate(place, rows, table),
    }));
  }
  const hidesRow = upsertKey !== null && !showsOnlyGiven(first, rows, table, upsertKey);
  return errors.toError(whatPostgresSaid(first.error, table, hidesRow));
}

/** The hint that an earlier record of the batch has the same key, if the two have the same text. */
function earlierDuplicate(
  { record, error, ...place }: RefusedRecord,
  rows: readonly Row[],
  table: Table,
): { hint?: string } {
  const names = columnsOf(place);
  if (error.sqlstate !== SQLSTATE.UNIQUE_VIOLATION || names.length === 0) return {};
  const keyOf = (row: Row | undefined) => names.map((name) => row?.[indexOf(table, name)]);
  const key = keyOf(rows[record]);
  if (key.some((cell) => cell == null)) return {};
  const earlier = rows.findIndex((row) => keyOf(row).every((cell, i) => cell === key[i]));
  return earlier >= record
    ? {}
    : { hint: `Record ${earlier} has the same ${names.map((name) => quoted(name)).join(', ')}` };
}

const columnsOf = ({ column, columns }: Pick<RefusedRecord, 'column' | 'columns'>): readonly string[] =>
  columns ?? (column === undefined ? [] : [column]);

const indexOf = ({ columns }: Table, name: string): number => columns.findIndex((column) => column.name === name);

/** The detail of a unique violation is the new key of its index. Other indexes than the upsert's may be violated. */
function showsOnlyGiven(
  { record, error, ...place }: RefusedRecord,
  rows: readonly Row[],
  table: Table,
  upsertKey: readonly string[],
): boolean {
  const names = columnsOf(place);
  if (error.sqlstate !== SQLSTATE.UNIQUE_VIOLATION || table.updateRunsProjectCode || names.length === 0) return false;
  return names.every((name) => rows[record]?.[indexOf(table, name)] !== undefined && !upsertKey.includes(name));
}

function whatPostgresSaid(error: PostgresError, { name }: Table, hidesRow: boolean): EngineErrorOptions {
  const { hint } = error.fields;
  const { detail, ...others } = detailsOf(error);
  if (error.isOfWorker) others.table ??= name;
  const postgres = hidesRow || detail === undefined ? others : { ...others, detail };
  return { postgres, cause: error, ...(hint === undefined ? {} : { hint }) };
}

/** @returns the refused records in the order of the batch; none if something else failed */
async function rerun(write: RecordWrite): Promise<RefusedRecord[]> {
  const { session, rows } = write;
  let refused: RefusedRecord[] = [];
  try {
    await session.run([BEGIN]);
    const options = { maxExplained: LIMITS.errorsListed, inOrder: false };
    ({ refused } = await storeWhatFits(write, [...rows.keys()], options));
  } catch (error) {
    if (!(error instanceof PostgresError) || session.closed) throw error;
  }
  await session.run([ROLLBACK]);
  return refused;
}

interface StoreOptions {
  /** Maximum number of refused records whose columns at fault are looked up. */
  maxExplained: number;
  /** A record may update the row of an earlier one in its batch, so none is stored out of order. */
  inOrder: boolean;
}

/**
 * Stores the records that Postgres accepts, in the current transaction. A refused part is rolled back and stored
 * in halves, down to single records.
 * @returns the refused records in order, and the results of the statements that stored the others
 * @throws PostgresError if no record is at fault
 */
export async function storeWhatFits(
  { session, table, rows, insertsFor }: RecordWrite,
  records: readonly number[],
  { maxExplained, inOrder }: StoreOptions,
): Promise<{ refused: RefusedRecord[]; results: Result[] }> {
  const results: Result[] = [];
  const known: KnownConstraints = new Map();
  let explained = 0;
  const store = async (part: readonly number[]): Promise<RefusedRecord[]> => {
    if (part.length === 0) return [];
    const statements = insertsFor(part.map((record) => rows[record] as Row)).map(({ statement }) => statement);
    const outcome = await session.pipeline([
      fixed('SAVEPOINT _cdp_records'),
      ...statements,
      // A deferred constraint would fail only at the end, without naming a record.
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
    const isExplained = explained++ < maxExplained;
    const faults = isExplained ? await columnsAtFault(session, table, rows[record] as Row, error, known) : [];
    if (faults.length === 0) return [{ record, column: error.fields.column, error }];
    return faults.map((fault) => ({ record, ...fault }));
  };

  let refused = await store(records);
  // A record may refer to a later one in its batch. Such records are retried, last ones first, while at least one
  // succeeds.
  for (let helped = !inOrder; helped;) {
    const pointing = refused.filter(({ error }) => error.sqlstate === SQLSTATE.FOREIGN_KEY_VIOLATION);
    const others = refused.filter((record) => !pointing.includes(record));
    const left = await store(pointing.map(({ record }) => record).reverse());
    helped = left.length < pointing.length;
    refused = [...others, ...left];
  }
  return { refused: refused.sort((a, b) => a.record - b.record), results };
}
