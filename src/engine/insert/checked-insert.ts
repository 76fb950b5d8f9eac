/**
 * The checked path of an insert: it locks the table, checks every cell against its column, and stores by INSERT. It
 * accepts any batch for any table, can return ids, and names every wrong record.
 */
import { checkRecords, readRecords, type Records, type Row } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { BatchAnswer } from '../../contract/wire/batch.js';
import {
  ident,
  PostgresError,
  readCommandTag,
  type Result,
  ROLLBACK,
  type Session,
  sql,
  SQLSTATE,
  type Statement,
} from '../../pg/index.js';
import type { Deadline } from '../limits/deadline.js';
import { readTables, tableToWrite, type Table } from '../catalog/catalog.js';
import type { Project } from '../project.js';
import { tableNotFound } from '../catalog/find-table.js';
import type { IdempotencyKey } from '../write/idempotency.js';
import { type Write, writeOnce } from '../write/write.js';
import { type BatchInsert, insertStatements, requireIds } from './insert-statement.js';
import { insertAnswer, type Inserted, rowsChanged, upsertAnswer } from './insert-answer.js';
import { attributeRefusal } from './refused-records.js';
import { countStored, findKey, type UpsertRule, upsertStatements } from './upsert.js';

interface CheckedOptions {
  returnIds: boolean;
  idempotency: IdempotencyKey | null;
  upsert: UpsertRule | null;
}

/** @throws EngineError as `insertRecords` */
export async function insertChecked(
  project: Project,
  tableName: string,
  body: Buffer,
  deadline: Deadline,
  options: CheckedOptions,
): Promise<Inserted> {
  const batch = readRecords(body);
  const insert = (oneByOne: boolean) => store(project, tableName, batch, deadline, { ...options, oneByOne });
  try {
    return await insert(false);
  } catch (error) {
    if (options.upsert === null || !mayPassOneByOne(error)) throw error;
    return insert(true);
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

function store(
  project: Project,
  tableName: string,
  batch: Records,
  deadline: Deadline,
  options: BatchOptions,
): Promise<Inserted> {
  const { idempotency } = options;
  return writeOnce(project, { deadline, idempotency, stored: BatchAnswer }, (write) =>
    insertBatch(project, tableName, batch, write, options),
  );
}

interface BatchOptions extends CheckedOptions {
  /** The upsert runs a statement for each record. */
  oneByOne: boolean;
}

async function insertBatch(
  project: Project,
  tableName: string,
  batch: Records,
  write: Write,
  { returnIds, upsert, oneByOne }: BatchOptions,
): Promise<Inserted> {
  const { lease } = write;
  const { session } = lease;
  const table = await lockTable(session, write.begin, project.schema, tableName).catch((error: unknown) => {
    // Errors that do not depend on the table come first.
    batch.errors.throwIfAny();
    throw error;
  });
  project.schemaCache.remember(project.cacheKey, table);
  if (upsert === null ? table.runsProjectCode : table.updateRunsProjectCode) lease.resetAfterUse();
  if (returnIds) requireIds(table);
  const key = upsert === null ? null : await findKey(session, table, 'on_conflict', upsert.columns);
  const { isOnCitus } = project;
  const single = oneByOne || (returnIds && isOnCitus);
  const insertsOf = (rows: readonly Row[]) =>
    upsert === null || key === null
      ? insertStatements(table, rows, { returnIds, isOnCitus })
      : upsertStatements(table, rows, key, upsert.resolution, { returnIds, oneByOne: single });
  const inserts = insertsOf(checkRecords(batch, table));
  const statements = inserts.map((insert) => insert.statement);
  const { length } = batch.records;
  const finish = async (last: readonly Statement[], result: Inserted): Promise<Inserted> => {
    await write.commit(last, result.answer, rowsChanged(result.answer));
    return result;
  };
  try {
    // A trigger or rule may skip records, so the number of stored rows is known only after the INSERTs.
    if (returnIds || table.runsProjectCode || upsert !== null) {
      const results = await session.run(statements);
      const ids = returnIds ? idsInOrder(inserts, results, length) : undefined;
      const result =
        upsert === null ? insertAnswer(rowsStored(results), ids) : upsertAnswer(length, countStored(results), ids);
      return await finish([], result);
    }
    return await finish(statements, insertAnswer(length));
  } catch (error) {
    if (!(error instanceof PostgresError) || session.closed) throw error;
    await session.run([ROLLBACK]);
    if (error.sqlstate === SQLSTATE.CARDINALITY_VIOLATION && upsert !== null && !oneByOne) throw error;
    throw await attributeRefusal(
      session,
      batch,
      table,
      (rows) => insertsOf(rows).map(({ statement }) => statement),
      error,
      upsert?.columns ?? null,
    );
  }
}

/**
 * Takes the lock of an INSERT, then reads the table's shape. The shape cannot change until the transaction ends, so
 * the values are checked against the columns that will store them.
 */
export async function lockTable(
  session: Session,
  begin: readonly Statement[],
  schema: string,
  table: string,
): Promise<Table> {
  const lock = sql`LOCK TABLE ${ident(schema, table)} IN ROW EXCLUSIVE MODE`;
  try {
    const results = await session.run([...begin, lock, tableToWrite(schema, table)]);
    const [shape] = readTables(schema, results.at(-1)?.rows ?? []);
    return shape ?? (await tableNotFound(session, schema, table));
  } catch (error) {
    if (!(error instanceof PostgresError)) throw error;
    if (error.sqlstate === SQLSTATE.UNDEFINED_TABLE) return tableNotFound(session, schema, table);
    if (error.sqlstate === SQLSTATE.WRONG_OBJECT_TYPE)
      throw new EngineError('table_not_found', `"${table}" is not a table`);
    throw error;
  }
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

/** The sum of the counts in the command tags, such as `INSERT 0 250`. */
export const rowsStored = (results: readonly Result[]): number =>
  results.reduce((sum, { tag }) => sum + (readCommandTag(tag).count ?? 0), 0);
