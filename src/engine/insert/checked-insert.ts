/**
 * The checked way of an insert: it locks the table, checks every cell against the columns, and stores by INSERT. It takes any
 * batch into any table, returns ids, and names every wrong record.
 */
import { checkRecords, readRecords, type Records } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { BatchAnswer } from '../../contract/wire/batch.js';
import {
  BEGIN,
  ident,
  PostgresError,
  readCommandTag,
  type Result,
  ROLLBACK,
  type Session,
  sql,
  type Statement,
  UNDEFINED_TABLE,
  WRONG_OBJECT_TYPE,
} from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import type { Deadline } from '../limits/deadline.js';
import { readTables, tableToWrite, type Table } from '../catalog/catalog.js';
import type { Project } from '../project.js';
import { tableNotFound } from '../schema/find-table.js';
import { commit } from '../transaction.js';
import { type IdempotencyKey, rememberAnswer, underKey } from '../idempotency.js';
import { type BatchInsert, insertStatements, requireIds } from './insert-statement.js';
import { inserted, type Inserted } from './inserted.js';
import { attributeRefusal } from './refused-records.js';

interface CheckedOptions {
  returnIds: boolean;
  idempotency: IdempotencyKey | null;
}

/** @throws EngineError as `insertRecords` */
export async function insertChecked(
  project: Project,
  tableName: string,
  body: Buffer,
  deadline: Deadline,
  { returnIds, idempotency }: CheckedOptions,
): Promise<Inserted> {
  const batch = readRecords(body);
  return project.use('typed', deadline, (lease) => {
    const insert = (begin: readonly Statement[]) =>
      insertBatch(project, lease, tableName, batch, { returnIds, idempotency, begin });
    if (idempotency === null) return insert([BEGIN]);
    return underKey(lease.session, idempotency, BatchAnswer, async () => {
      await project.requireRoom();
      return insert([]);
    });
  });
}

interface BatchOptions extends CheckedOptions {
  /** What begins the transaction, unless one is under way. */
  begin: readonly Statement[];
}

async function insertBatch(
  project: Project,
  lease: Lease,
  tableName: string,
  batch: Records,
  { returnIds, idempotency, begin }: BatchOptions,
): Promise<Inserted> {
  const { session } = lease;
  const table = await lockTable(session, begin, project.schema, tableName).catch((error: unknown) => {
    // What is wrong whatever the table is comes before the table.
    batch.errors.throwIfAny();
    throw error;
  });
  project.schemas.remember(project.id, table);
  if (table.runsProjectCode) lease.resetAfterUse();
  if (returnIds) requireIds(table);
  const inserts = insertStatements(table, checkRecords(batch, table), returnIds);
  const statements = inserts.map((insert) => insert.statement);
  try {
    // A trigger or rule may leave records out: how many were stored shows only after the INSERTs.
    if (returnIds || table.runsProjectCode) {
      const results = await session.run(statements);
      const ids = returnIds ? idsInOrder(inserts, results) : undefined;
      return await finish(session, [], inserted(rowsStored(results), ids), idempotency);
    }
    return await finish(session, statements, inserted(batch.records.length), idempotency);
  } catch (error) {
    if (!(error instanceof PostgresError) || session.closed) throw error;
    await session.run([ROLLBACK]);
    throw await attributeRefusal(session, batch, table, error);
  }
}

/**
 * Takes the lock that an INSERT takes, then reads the table's shape: it cannot change any more until the end of the
 * transaction, so the values are checked against the very columns they are stored in.
 */
async function lockTable(session: Session, begin: readonly Statement[], schema: string, table: string): Promise<Table> {
  const lock = sql`LOCK TABLE ${ident(schema, table)} IN ROW EXCLUSIVE MODE`;
  try {
    const results = await session.run([...begin, lock, tableToWrite(schema, table)]);
    const [shape] = readTables(schema, results.at(-1)?.rows ?? []);
    return shape ?? (await tableNotFound(session, schema, table));
  } catch (error) {
    if (!(error instanceof PostgresError)) throw error;
    if (error.sqlstate === UNDEFINED_TABLE) return tableNotFound(session, schema, table);
    if (error.sqlstate === WRONG_OBJECT_TYPE) throw new EngineError('table_not_found', `"${table}" is not a table`);
    throw error;
  }
}

/** Sends what is left of the transaction and its COMMIT, with the answer under the key if there is one. */
async function finish(
  session: Session,
  statements: readonly Statement[],
  result: Inserted,
  idempotency: IdempotencyKey | null,
): Promise<Inserted> {
  const remember = idempotency === null ? [] : rememberAnswer(idempotency, result.answer);
  await commit(session, [...statements, ...remember], idempotency !== null);
  return result;
}

/**
 * The ids that the INSERTs returned, by the position of their record in the request.
 * @throws EngineError constraint_violation where rows are missing: nobody can tell whose ids are there
 */
function idsInOrder(inserts: readonly BatchInsert[], results: readonly Result[]): string[] {
  const ids: string[] = [];
  inserts.forEach(({ records }, i) => {
    const rows = results[i]?.rows ?? [];
    if (rows.length !== records.length) {
      throw new EngineError(
        'constraint_violation',
        'A trigger or rule of the table skipped records, so their ids cannot be determined. Nothing was stored',
        { hint: 'Send the batch without return=ids.' },
      );
    }
    records.forEach((record, row) => (ids[record] = rows[row]?.[0] ?? ''));
  });
  return ids;
}

/** By the command tags, such as `INSERT 0 250`. */
const rowsStored = (results: readonly Result[]): number =>
  results.reduce((sum, { tag }) => sum + (readCommandTag(tag).count ?? 0), 0);
