/**
 * The records of a batch that only Postgres refuses (constraints, triggers, values of types of its own): found by storing
 * parts of the batch, each under a savepoint.
 */
import { EngineError, type EngineErrorOptions, type ErrorCode } from '../../contract/errors.js';
import {
  BEGIN,
  fixed,
  ident,
  literal,
  PostgresError,
  type Result,
  ROLLBACK,
  type Session,
  sql,
  SQLSTATE,
  type Statement,
  trusted,
} from '../../pg/index.js';
import { detailsOf, errorCode, toEngineError } from '../../tenancy/engine-error.js';
import type { Table } from '../catalog/catalog.js';
import { checkRecords, type Records, type Row } from '../../codec/index.js';
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

/** What stores records. */
export type BuildStatements = (rows: readonly Row[]) => readonly Statement[];

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

export function placeOf({ record, column, columns, error: { sqlstate, fields, message } }: RefusedRecord) {
  const { constraint } = fields;
  const about = sqlstate === SQLSTATE.UNIQUE_VIOLATION ? (column ?? constraint) : (constraint ?? column);
  return {
    record,
    ...(column === undefined ? {} : { column }),
    ...(columns === undefined ? {} : { columns }),
    message: `Record ${record}${about === undefined ? '' : `, "${about}"`}: ${message}`,
  };
}

/** In a batch, an error of the SQL we made is an error of the value we put in, or of the project's own check. */
export function recordErrorCode(error: PostgresError): ErrorCode {
  const code = errorCode(error);
  const { sqlstate } = error;
  if (code !== 'sql_error') return code;
  return sqlstate.startsWith('22') || sqlstate === SQLSTATE.GENERATED_ALWAYS ? 'invalid_value' : 'constraint_violation';
}

function whatPostgresSaid(error: PostgresError, { name }: Table, hidesRow: boolean): EngineErrorOptions {
  const { hint } = error.fields;
  const { detail, ...others } = detailsOf(error);
  if (error.isOfWorker) others.table ??= name;
  const postgres = hidesRow || detail === undefined ? others : { ...others, detail };
  return { postgres, cause: error, ...(hint === undefined ? {} : { hint }) };
}

export interface RefusedRecord {
  record: number;
  /** undefined: none is to blame, or several, or nobody knows which. */
  column?: string | undefined;
  /** Several, of one constraint. */
  columns?: string[];
  error: PostgresError;
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
 * Stores the records that Postgres takes, in the transaction that is under way. A part that it refuses is undone and stored in
 * halves, down to single records.
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

type Fault = Omit<RefusedRecord, 'record'>;

/** Columns of constraints and unique indexes, by their names. */
type KnownConstraints = Map<string, string[]>;

/** The columns that Postgres does not name: those of a constraint or unique index, and all whose types do not take their values. */
async function columnsAtFault(
  session: Session,
  table: Table,
  row: Row,
  error: PostgresError,
  known: KnownConstraints,
): Promise<Fault[]> {
  const { column, constraint, schema, table: relation } = error.fields;
  if (column !== undefined) return [];
  // A trigger may have written to another table. A table on workers has none, and their errors do not name it.
  const isOfTable = error.isOfWorker || (schema === table.schema && relation === table.name);
  if (constraint !== undefined && isOfTable) {
    const find = error.sqlstate === SQLSTATE.UNIQUE_VIOLATION ? columnsOfIndex : columnsOfConstraint;
    const columns = known.get(constraint) ?? (await session.query(find(table, constraint))).map(([name]) => name ?? '');
    known.set(constraint, columns);
    if (columns.length < 2) return columns.map((only) => ({ column: only, error }));
    return [{ columns, error }];
  }
  // Of a type, or of a domain's constraint, which is of no table.
  if (!/^2[23]/.test(error.sqlstate) || relation !== undefined) return [];
  const faults: Fault[] = [];
  for (const [i, { name, type, displayType, isJson }] of table.columns.entries()) {
    const cell = row[i];
    // Values of the six types were checked before.
    if (type !== null || cell == null) continue;
    const read = isJson ? castTo(displayType, cell) : readAs(displayType, cell);
    const { error: fault } = await session.pipeline([fixed('SAVEPOINT _cdp_value'), read]);
    await session.run([fixed('ROLLBACK TO SAVEPOINT _cdp_value')]);
    if (!(fault instanceof PostgresError)) continue;
    if (NO_RECORDS_FAULT.has(recordErrorCode(fault))) throw fault;
    faults.push({ column: name, error: fault });
  }
  return faults;
}

const castTo = (type: string, cell: string) => sql`SELECT CAST(CAST(${cell} AS pg_catalog.text) AS ${trusted(type)})`;

/** As an assignment reads it: a cast would cut the text for a varchar(3). */
const readAs = (type: string, cell: string) =>
  sql`SELECT cell FROM pg_catalog.json_to_record(pg_catalog.json_build_object('cell', CAST(${cell} AS pg_catalog.text)))
    AS record (cell ${trusted(type)})`;

const regclass = ({ schema, name }: Table) =>
  sql`${literal(ident(schema, name).text)}::pg_catalog.regclass::pg_catalog.oid`;

/** None of an index over expressions. */
const columnsOfIndex = (table: Table, index: string) =>
  sql`SELECT a.attname FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    CROSS JOIN LATERAL pg_catalog.generate_series(0, i.indnkeyatts - 1) AS place
    JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[place]
    WHERE i.indrelid = ${regclass(table)} AND c.relname = ${index} AND i.indexprs IS NULL ORDER BY place`;

const columnsOfConstraint = (table: Table, constraint: string) =>
  sql`SELECT a.attname FROM pg_catalog.pg_constraint k
    JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)
    WHERE k.conrelid = ${regclass(table)} AND k.conname = ${constraint}
    ORDER BY pg_catalog.array_position(k.conkey, a.attnum)`;
