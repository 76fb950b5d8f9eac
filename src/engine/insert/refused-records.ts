/**
 * Finds the records of a batch that only Postgres refuses (constraints, triggers, values of types of its own): a rerun
 * of one record after the other, each under a savepoint, that is rolled back as a whole.
 */
import { EngineError, type EngineErrorOptions, type ErrorCode } from '../../contract/errors.js';
import {
  BEGIN,
  fixed,
  FOREIGN_KEY_VIOLATION,
  GENERATED_ALWAYS,
  ident,
  literal,
  PostgresError,
  ROLLBACK,
  type Session,
  sql,
  trusted,
  UNIQUE_VIOLATION,
} from '../../pg/index.js';
import { detailsOf, errorCode, toEngineError } from '../../tenancy/engine-error.js';
import type { Table } from '../catalog/catalog.js';
import { checkRecords, type Records, type Row } from '../../codec/index.js';
import { insertStatement } from './insert-statement.js';
import { ErrorCollector } from '../../contract/error-collector.js';
import { LIMITS } from '../../contract/limits.js';

/** Errors that the state of the server or the time causes, not a record. */
export const NO_RECORDS_FAULT: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'query_timeout',
  'table_busy',
  'overloaded',
  'database_unavailable',
  'internal',
]);

/**
 * @param error what Postgres said of the whole batch; its transaction has been rolled back
 * @returns the error to answer with, naming the records where they can be found
 */
export async function attributeRefusal(
  session: Session,
  batch: Records,
  table: Table,
  error: PostgresError,
): Promise<unknown> {
  const code = recordErrorCode(error);
  if (NO_RECORDS_FAULT.has(code)) return toEngineError(error);
  const refused = await rerun(session, batch, table);
  const [first] = refused;
  if (first === undefined) return new EngineError(code, error.message, whatPostgresSaid(error));
  const errors = new ErrorCollector();
  for (const place of refused) errors.add(recordErrorCode(place.error), () => placeOf(place));
  return errors.toError(whatPostgresSaid(first.error));
}

function placeOf({ record, column, error: { fields, message } }: RefusedRecord) {
  const { constraint } = fields;
  const about = column ?? constraint;
  return {
    record,
    ...(column === undefined ? {} : { column }),
    message: `Record ${record}${about === undefined ? '' : `, "${about}"`}: ${message}`,
  };
}

/** In a batch, an error of the SQL we made is an error of the value we put in, or of the project's own check. */
function recordErrorCode(error: PostgresError): ErrorCode {
  const code = errorCode(error);
  const { sqlstate } = error;
  if (code !== 'sql_error') return code;
  return sqlstate.startsWith('22') || sqlstate === GENERATED_ALWAYS ? 'invalid_value' : 'constraint_violation';
}

function whatPostgresSaid(error: PostgresError): EngineErrorOptions {
  const { hint } = error.fields;
  return { postgres: detailsOf(error), cause: error, ...(hint === undefined ? {} : { hint }) };
}

interface RefusedRecord {
  record: number;
  /** undefined: none is to blame, or nobody knows which. */
  column: string | undefined;
  error: PostgresError;
}

/** @returns the refused records in the order of the batch; none where something else got in the way */
async function rerun(session: Session, batch: Records, table: Table): Promise<RefusedRecord[]> {
  const rows = checkRecords(batch, table);
  let refused: RefusedRecord[] = [];
  try {
    await session.run([BEGIN]);
    refused = await insertOneByOne(session, rows, table, [...rows.keys()]);
    // A record may point at a later one of its batch: it has another try, last ones first, as long as that helps any.
    for (let helped = true; helped;) {
      const pointing = refused.filter(({ error }) => error.sqlstate === FOREIGN_KEY_VIOLATION);
      const others = refused.filter((record) => !pointing.includes(record));
      const left = await insertOneByOne(session, rows, table, pointing.map(({ record }) => record).reverse());
      helped = left.length < pointing.length;
      refused = [...others, ...left];
    }
  } catch (error) {
    if (!(error instanceof PostgresError) || session.closed) throw error;
    refused = [];
  }
  await session.run([ROLLBACK]);
  return refused.sort((a, b) => a.record - b.record);
}

/** @throws PostgresError where what stops it is no record's fault */
async function insertOneByOne(
  session: Session,
  rows: readonly Row[],
  table: Table,
  records: readonly number[],
): Promise<RefusedRecord[]> {
  const refused: RefusedRecord[] = [];
  for (const record of records) {
    try {
      await session.run([
        fixed('SAVEPOINT _cdp_record'),
        insertStatement(table, [rows[record] as Row], false),
        // A deferred constraint would speak only at the end, and then of no record.
        fixed('SET CONSTRAINTS ALL IMMEDIATE'),
        fixed('SET CONSTRAINTS ALL DEFERRED'),
        fixed('RELEASE SAVEPOINT _cdp_record'),
      ]);
    } catch (error) {
      if (!(error instanceof PostgresError) || session.closed) throw error;
      if (NO_RECORDS_FAULT.has(recordErrorCode(error))) throw error;
      await session.run([fixed('ROLLBACK TO SAVEPOINT _cdp_record')]);
      const isListed = refused.length < LIMITS.errorsListed;
      const faults = isListed ? await columnsAtFault(session, table, rows[record] as Row, error) : [];
      if (faults.length === 0) refused.push({ record, column: error.fields.column, error });
      else refused.push(...faults.map((fault) => ({ record, ...fault })));
    }
  }
  return refused;
}

type Fault = Pick<RefusedRecord, 'column' | 'error'>;

/** The columns that Postgres does not name: that of a unique index, and all whose types do not take their values. */
async function columnsAtFault(session: Session, table: Table, row: Row, error: PostgresError): Promise<Fault[]> {
  const { column, constraint } = error.fields;
  if (column !== undefined) return [];
  if (error.sqlstate === UNIQUE_VIOLATION && constraint !== undefined) {
    const names = await session.query(columnsOfIndex(table, constraint));
    const [only] = names;
    return only === undefined || names.length > 1 ? [] : [{ column: only[0] ?? undefined, error }];
  }
  if (!error.sqlstate.startsWith('22')) return [];
  const faults: Fault[] = [];
  for (const [i, { name, type, displayType }] of table.columns.entries()) {
    const cell = row[i];
    // Values of the six types were checked before.
    if (type !== null || cell == null) continue;
    const cast = sql`SELECT CAST(CAST(${cell} AS pg_catalog.text) AS ${trusted(displayType)})`;
    const { error: fault } = await session.pipeline([fixed('SAVEPOINT _cdp_value'), cast]);
    await session.run([fixed('ROLLBACK TO SAVEPOINT _cdp_value')]);
    if (!(fault instanceof PostgresError)) continue;
    if (NO_RECORDS_FAULT.has(recordErrorCode(fault))) throw fault;
    faults.push({ column: name, error: fault });
  }
  return faults;
}

const columnsOfIndex = ({ schema, name }: Table, index: string) =>
  sql`SELECT a.attname FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum <= i.indnkeyatts
    WHERE i.indrelid = ${literal(ident(schema, name).text)}::pg_catalog.regclass::pg_catalog.oid
      AND c.relname = ${index} AND i.indexprs IS NULL`;
