/**
 * Batch insert (specification 4.4; contract section 6): 1 to 250 records in one transaction, all or none, once per
 * Idempotency-Key.
 */
import { EngineError } from '../../contract/errors.js';
import type { BatchAnswer } from '../../contract/wire/batch.js';
import { readTables, tableToWrite, type TableDescription } from '../../postgres/catalog/catalog.js';
import { readCommandTag } from '../../postgres/command-tag.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { PostgresError } from '../../postgres/errors.js';
import { BEGIN, ident, ROLLBACK, sql, type Statement, statement } from '../../postgres/sql.js';
import { UNDEFINED_TABLE, WRONG_OBJECT_TYPE } from '../../postgres/sqlstate.js';
import type { Session } from '../../postgres/wire/session.js';
import type { TextResult } from '../../postgres/wire/text-results.js';
import { inserted } from './batch-answer.js';
import { type BatchInsert, encodeBatch } from '../batch/encode.js';
import { type ParsedBatch, parseBatch } from '../batch/parse.js';
import { type Deadline, queryTimeout } from '../admission/deadline.js';
import type { Departure } from '../admission/departure.js';
import { claimKey, type IdempotencyKey, rememberAnswer } from './idempotency.js';
import { insertFast } from './insert-fast.js';
import type { Project } from '../project.js';
import { attributeRefusal } from './refused-record.js';
import { tableNotFound } from '../schema/tables.js';
import { commit } from '../transaction.js';

export interface InsertOptions {
  /** Answer the ids as well. */
  returnIds: boolean;
  idempotency: IdempotencyKey | null;
  /** Aborted when the client leaves. */
  signal: Departure;
}

interface Inserted {
  answer: BatchAnswer;
  /** It is the answer of an earlier request with the same key; nothing was inserted now. */
  replayed: boolean;
}

const TIMEOUT_MS = 30_000;
const expired = queryTimeout(TIMEOUT_MS);

/**
 * @param body the decoded body: a JSON array of records
 * @throws EngineError whatever section 6 of the contract names. Nothing was stored then, except that
 * `outcome_unknown` leaves it open.
 */
export async function insertRecords(
  project: Project,
  table: string,
  body: Buffer,
  options: InsertOptions,
): Promise<Inserted> {
  const { idempotency, signal } = options;
  const deadline = { timeoutMs: TIMEOUT_MS, signal, expired };
  const room = idempotency === null ? project.requireRoom() : undefined;
  if (room !== undefined) await room;
  // A repeat under its key is answered even without room: it stores nothing.
  const hasRoom = idempotency === null || (await project.excess()) === null;
  const answer = hasRoom ? await insertFast(project, table, body, deadline, options) : null;
  return answer === null ? insertByReference(project, table, body, deadline, options) : { answer, replayed: false };
}

/**
 * The reference path. Separate, because an async function keeps all its locals alive while it waits, and most requests
 * never come here.
 */
async function insertByReference(
  project: Project,
  table: string,
  body: Buffer,
  deadline: Deadline,
  { returnIds, idempotency }: InsertOptions,
): Promise<Inserted> {
  const batch = parseBatch(body);
  return project.use('typed', deadline, async (lease) => {
    const { session } = lease;
    if (idempotency === null)
      return insertBatch(project, lease, table, batch, { returnIds, idempotency, begin: [BEGIN] });
    try {
      const earlier = await claimKey(session, [BEGIN], idempotency);
      if (earlier !== null) return { answer: earlier, replayed: true };
      await project.requireRoom();
      return await insertBatch(project, lease, table, batch, { returnIds, idempotency, begin: [] });
    } finally {
      // A repeat may come as soon as the answer is out: by then the key must be free.
      if (!session.closed && session.transaction !== 'I') await session.run([ROLLBACK]);
    }
  });
}

interface BatchOptions extends Pick<InsertOptions, 'returnIds' | 'idempotency'> {
  /** What begins the transaction, where it is not under way. */
  begin: readonly Statement[];
}

async function insertBatch(
  project: Project,
  lease: Lease,
  table: string,
  batch: ParsedBatch,
  { returnIds, idempotency, begin }: BatchOptions,
): Promise<Inserted> {
  const { session } = lease;
  const shape = await lockTable(session, begin, project.schema, table).catch((error: unknown) => {
    // What is wrong whatever the table is comes before the table.
    batch.faults.refuse();
    throw error;
  });
  project.rememberShape(shape);
  if (shape.runsProjectCode) lease.resetAfterUse();
  const inserts = encodeBatch(batch, shape, { returnIds });
  const statements = inserts.map((insert) => insert.statement);
  try {
    // A trigger or rule may leave records out: how many were stored shows only after the INSERTs.
    if (returnIds || shape.runsProjectCode) {
      const results = await session.run(statements);
      const ids = returnIds ? idsInOrder(inserts, results) : undefined;
      return await finish(session, [], inserted(rowsStored(results), ids), idempotency);
    }
    return await finish(session, statements, inserted(batch.records.length), idempotency);
  } catch (error) {
    if (!(error instanceof PostgresError) || session.closed) throw error;
    await session.run([ROLLBACK]);
    throw await attributeRefusal(session, batch, shape, error);
  }
}

/**
 * Takes the lock that an INSERT takes, then reads the table's shape: it cannot change any more until the end of the
 * transaction, so the values are checked against the very columns they are stored in.
 */
async function lockTable(
  session: Session,
  begin: readonly Statement[],
  schema: string,
  table: string,
): Promise<TableDescription> {
  const lock = statement(sql`LOCK TABLE ${ident(schema, table)} IN ROW EXCLUSIVE MODE`);
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

/** Sends what is left of the transaction and its COMMIT, with the answer under the key where there is one. */
async function finish(
  session: Session,
  statements: readonly Statement[],
  answer: BatchAnswer,
  idempotency: IdempotencyKey | null,
): Promise<Inserted> {
  const remember = idempotency === null ? [] : rememberAnswer(idempotency, answer);
  await commit(session, [...statements, ...remember], idempotency !== null);
  return { answer, replayed: false };
}

/**
 * The ids that the INSERTs returned, by the position of their record in the request.
 * @throws EngineError constraint_violation where rows are missing: nobody can tell whose ids are there
 */
function idsInOrder(inserts: readonly BatchInsert[], results: readonly TextResult[]): string[] {
  const ids: string[] = [];
  inserts.forEach(({ records }, i) => {
    const rows = results[i]?.rows ?? [];
    if (rows.length !== records.length) {
      throw new EngineError(
        'constraint_violation',
        'A trigger or rule of the table left records out, so that their ids cannot be told. Nothing was stored',
        { hint: 'Send the batch without return=ids.' },
      );
    }
    records.forEach((record, row) => (ids[record] = rows[row]?.[0] ?? ''));
  });
  return ids;
}

/** By the command tags, such as `INSERT 0 250`. */
const rowsStored = (results: readonly TextResult[]): number =>
  results.reduce((sum, { tag }) => sum + (readCommandTag(tag).count ?? 0), 0);
