/**
 * Finds the records of a batch that only Postgres can refuse (constraints, triggers, types other than the six), by
 * storing parts of the batch, each under a savepoint.
 */
import type { RecordCells } from '../../codec/index.js';
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError, type EngineErrorOptions, type ErrorCode, type ErrorDetail } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { BEGIN, fixed, ident, literal, PostgresError, type Result, sql, SQLSTATE, trusted } from '../../pg/index.js';
import { detailsOf, codeOf, fromPostgres, withoutValues } from '../../tenancy/postgres-errors.js';
import type { Table } from '../catalog/catalog.js';
import type { BatchInsert } from './insert-statement.js';

/** The rows of a batch, and how to store them. */
interface RecordWrite {
  readonly db: QueryRunner;
  readonly table: Table;
  /** One for each record of the batch, checked against the table. */
  readonly rows: readonly RecordCells[];
  /** Makes the statements that store these rows. */
  readonly insertsFor: (rows: readonly RecordCells[]) => readonly BatchInsert[];
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
  if (NO_RECORDS_FAULT.has(code)) return fromPostgres(error);
  const { table, rows } = write;
  const refused = await rerun(write);
  const [first] = refused;
  if (first === undefined) {
    const message = whatPostgresSaid(error, table, upsertKey === null ? 'row' : null);
    return new EngineError(code, error.message, { ...message, redacted: withoutValues(error) });
  }
  const errors = new ErrorCollector();
  for (const refusal of refused) {
    errors.add(recordErrorCode(refusal.error), () => ({
      ...recordDetail(refusal),
      ...earlierDuplicate(refusal, rows, table),
    }));
  }
  const isGiven = showsOnlyGiven(first, rows, table, upsertKey);
  return errors.toError(whatPostgresSaid(first.error, table, isGiven ? 'given' : upsertKey === null ? 'row' : null));
}

/** The hint that an earlier record of the batch has the same key, if the two have the same text. */
function earlierDuplicate(
  { record, error, ...fault }: Refusal,
  rows: readonly RecordCells[],
  table: Table,
): { hint?: string } {
  const names = columnsOf(fault);
  if (error.sqlstate !== SQLSTATE.UNIQUE_VIOLATION || names.length === 0) return {};
  const keyOf = (row: RecordCells | undefined) => names.map((name) => row?.[indexOf(table, name)]);
  const key = keyOf(rows[record]);
  if (key.some((cell) => cell == null)) return {};
  const earlier = rows.findIndex((row) => keyOf(row).every((cell, i) => cell === key[i]));
  return earlier >= record
    ? {}
    : { hint: `Record ${earlier} has the same ${names.map((name) => quoted(name)).join(', ')}` };
}

const columnsOf = ({ column, columns }: Pick<Refusal, 'column' | 'columns'>): readonly string[] =>
  columns ?? (column === undefined ? [] : [column]);

const indexOf = ({ columns }: Table, name: string): number => columns.findIndex((column) => column.name === name);

/** The detail of a unique violation is the new key of its index. Other indexes than the upsert's may be violated. */
function showsOnlyGiven(
  { record, error, ...fault }: Refusal,
  rows: readonly RecordCells[],
  table: Table,
  upsertKey: readonly string[] | null,
): boolean {
  const names = columnsOf(fault);
  const runsCode = upsertKey === null ? table.runsProjectCode : table.updateRunsProjectCode;
  if (error.sqlstate !== SQLSTATE.UNIQUE_VIOLATION || runsCode || names.length === 0) return false;
  return names.every((name) => rows[record]?.[indexOf(table, name)] !== undefined && !upsertKey?.includes(name));
}

/** @param rowText what its detail quotes: only what the caller has given, or the whole row; null: it is left out */
function whatPostgresSaid(error: PostgresError, { name }: Table, rowText: 'given' | 'row' | null): EngineErrorOptions {
  const hint = recordHint(error);
  const { detail, ...others } = detailsOf(error);
  if (error.comesFromWorker) others.table ??= name;
  const postgres = rowText === null || detail === undefined ? others : { ...others, detail };
  return { postgres, isDetailGiven: rowText === 'given', cause: error, ...(hint === undefined ? {} : { hint }) };
}

/** @returns the refused records in the order of the batch; none if something else failed */
async function rerun(write: RecordWrite): Promise<Refusal[]> {
  const { db, rows } = write;
  let refused: Refusal[] = [];
  try {
    await db.run([BEGIN]);
    const options = { maxExplained: LIMITS.errorsListed, inOrder: false };
    ({ refused } = await storeWhatFits(write, [...rows.keys()], options));
  } catch (error) {
    db.refusal(error);
  }
  await db.rollback();
  return refused;
}

interface StoreOptions {
  /** Maximum number of refused records whose columns at fault are looked up, while cells may still be tried. */
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
  { db, table, rows, insertsFor }: RecordWrite,
  records: readonly number[],
  { maxExplained, inOrder }: StoreOptions,
): Promise<{ refused: Refusal[]; results: Result[] }> {
  const results: Result[] = [];
  const known: Known = { constraints: new Map(), cellsLeft: MAX_CELLS_TRIED };
  let explained = 0;
  const store = async (part: readonly number[]): Promise<Refusal[]> => {
    if (part.length === 0) return [];
    const statements = insertsFor(part.map((record) => rows[record] as RecordCells)).map(({ statement }) => statement);
    const outcome = await db.pipeline([
      fixed('SAVEPOINT _cdp_records'),
      ...statements,
      // A deferred constraint would fail only at the end, without naming a record.
      fixed('SET CONSTRAINTS ALL IMMEDIATE'),
      fixed('SET CONSTRAINTS ALL DEFERRED'),
      fixed('RELEASE SAVEPOINT _cdp_records'),
    ]);
    if (outcome.error === null) {
      results.push(...outcome.results.slice(1, 1 + statements.length));
      return [];
    }
    const error = db.refusal(outcome.error);
    if (NO_RECORDS_FAULT.has(recordErrorCode(error))) throw error;
    await db.run([fixed('ROLLBACK TO SAVEPOINT _cdp_records')]);
    const [record] = part;
    if (part.length > 1 || record === undefined) {
      const middle = Math.ceil(part.length / 2);
      return [...(await store(part.slice(0, middle))), ...(await store(part.slice(middle)))];
    }
    const isExplained = explained++ < maxExplained;
    const faults = isExplained ? await columnsAtFault(db, table, rows[record] as RecordCells, error, known) : [];
    if (faults.length === 0) return [{ record, column: error.fields.column, error }];
    return faults.map((fault) => ({ record, ...fault }));
  };

  let refused = await store(records);
  // A record may refer to a later one in its batch. Such records are retried, last ones first, while at least one
  // succeeds.
  for (let helped = !inOrder; helped;) {
    const pointing = refused.filter(({ error }) => error.sqlstate === SQLSTATE.FOREIGN_KEY_VIOLATION);
    const others = refused.filter((record) => !pointing.includes(record));
    const remaining = await store(pointing.map(({ record }) => record).reverse());
    helped = remaining.length < pointing.length;
    refused = [...others, ...remaining];
  }
  return { refused: refused.sort((a, b) => a.record - b.record), results };
}

// Finds the columns at fault in a refused record: in the catalog, or by trying its values one by one.

type Fault = Omit<Refusal, 'record'>;

/**
 * Values of a batch that are tried one by one, each in a round trip of its own. A batch may hold 125,000, which would take
 * longer than an insert may run; records beyond this are named without their columns.
 */
const MAX_CELLS_TRIED = 5_000;

/** What the search has found out for all records of a batch. */
interface Known {
  /** Columns of constraints and unique indexes, by their names. */
  readonly constraints: Map<string, string[]>;
  cellsLeft: number;
}

/**
 * The columns at fault that Postgres does not name: those of a constraint or unique index, and those whose types do
 * not accept their values.
 */
async function columnsAtFault(
  db: QueryRunner,
  table: Table,
  row: RecordCells,
  error: PostgresError,
  known: Known,
): Promise<Fault[]> {
  const { column, constraint, schema, table: relation } = error.fields;
  if (column !== undefined) return [];
  // A trigger may have written to another table. Distributed tables have no triggers, and errors of workers do not name
  // the table.
  const concernsTable = error.comesFromWorker || (schema === table.schema && relation === table.name);
  if (constraint !== undefined && concernsTable) {
    const find = error.sqlstate === SQLSTATE.UNIQUE_VIOLATION ? columnsOfIndex : columnsOfConstraint;
    const columns =
      known.constraints.get(constraint) ?? (await db.query(find(table, constraint))).map(([name]) => name ?? '');
    known.constraints.set(constraint, columns);
    if (columns.length < 2) return columns.map((only) => ({ column: only, error }));
    return [{ columns, error }];
  }
  // Otherwise only an error of a type, or of a domain's constraint, which belongs to no table, is about a value.
  if (!/^2[23]/.test(error.sqlstate) || relation !== undefined || known.cellsLeft <= 0) return [];
  const faults: Fault[] = [];
  for (const [i, { name, type, displayType, isJson }] of table.columns.entries()) {
    const cell = row[i];
    // Values of the six types have already been checked.
    if (type !== null || cell == null) continue;
    known.cellsLeft--;
    const read = isJson ? castTo(displayType, cell) : readAs(displayType, cell);
    const { error: fault } = await db.pipeline([fixed('SAVEPOINT _cdp_value'), read]);
    await db.run([fixed('ROLLBACK TO SAVEPOINT _cdp_value')]);
    if (!(fault instanceof PostgresError)) continue;
    if (NO_RECORDS_FAULT.has(recordErrorCode(fault))) throw fault;
    faults.push({ column: name, error: fault, isValueError: true });
  }
  return faults;
}

const castTo = (type: string, cell: string) => sql`SELECT CAST(CAST(${cell} AS pg_catalog.text) AS ${trusted(type)})`;

/** Reads the text as an assignment does: a cast would truncate it for varchar(3). */
const readAs = (type: string, cell: string) =>
  sql`SELECT cell FROM pg_catalog.json_to_record(pg_catalog.json_build_object('cell', CAST(${cell} AS pg_catalog.text)))
    AS record (cell ${trusted(type)})`;

const regclass = ({ schema, name }: Table) =>
  sql`${literal(ident(schema, name).text)}::pg_catalog.regclass::pg_catalog.oid`;

/** No columns for an index on expressions. */
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

// Turns an error of Postgres into the error of a record: its code, and the place in the batch.

/** Errors caused by the state of the server or by time, not by a record. */
export const NO_RECORDS_FAULT: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'query_timeout',
  'table_busy',
  'overloaded',
  'database_unavailable',
  'disk_full',
  'data_corrupted',
]);

/** Codes of free SQL. In a batch, they come from the project's own code: a check, a trigger, a function in a default. */
const OF_SQL: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'sql_error',
  'statement_not_allowed',
  'table_exists',
  'column_exists',
  'dependent_objects',
]);

/** In a batch, an error in the generated SQL comes from a value, or from the project's own check. */
export function recordErrorCode(error: PostgresError): ErrorCode {
  const code = codeOf(error);
  const { sqlstate } = error;
  if (!OF_SQL.has(code)) return code;
  return sqlstate.startsWith('22') || sqlstate === SQLSTATE.GENERATED_ALWAYS ? 'invalid_value' : 'constraint_violation';
}

/** Postgres's hint, or that of a trigger; ours where records cannot do what it says. */
const recordHint = ({ sqlstate, fields }: PostgresError): string | undefined =>
  sqlstate === SQLSTATE.GENERATED_ALWAYS ? GENERATED : fields.hint;

const GENERATED =
  'Leave the column out of the records: Postgres makes its values. Only SQL can give others to an identity column: INSERT … OVERRIDING SYSTEM VALUE.';

export interface Refusal {
  record: number;
  /** undefined: no column is at fault, or several are, or it is unknown. */
  column?: string | undefined;
  /** Several columns of one constraint. */
  columns?: string[];
  error: PostgresError;
  /** The record's own value caused it, alone. */
  isValueError?: true;
}

/** All that the quarantine keeps of a refusal. */
export function quarantinedDetail(refusal: Refusal): ErrorDetail {
  const hint = recordHint(refusal.error);
  return { ...recordDetail(refusal), ...(hint !== undefined && { hint }), error: recordErrorCode(refusal.error) };
}

function recordDetail({ record, column, columns, error, isValueError }: Refusal) {
  const { sqlstate, fields, message } = error;
  const { constraint } = fields;
  const about = sqlstate === SQLSTATE.UNIQUE_VIOLATION ? (column ?? constraint) : (constraint ?? column);
  const prefix = `Record ${record}${about === undefined ? '' : `, "${about}"`}: `;
  const redacted = isValueError ? undefined : withoutValues(error);
  return {
    record,
    ...(column === undefined ? {} : { column }),
    ...(columns === undefined ? {} : { columns }),
    message: prefix + message,
    ...(redacted === undefined ? {} : { redacted: { ...redacted, message: prefix + redacted.message } }),
  };
}
