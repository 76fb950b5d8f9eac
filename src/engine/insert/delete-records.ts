/** Deletes rows by a unique key: 1 to 250 keys in one transaction, once per Idempotency-Key. */
import { checkRecords, readRecords, type RecordBatch, type RecordCells, type Steps } from '../../codec/index.js';
import { counted, quoted } from '../../contract/message-text.js';
import { DeleteResponse } from '../../contract/wire/batch.js';
import { ident, join, sql, type Statement } from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';
import { lockToWrite } from '../catalog/find-table.js';
import { findKey, type UniqueKey } from '../catalog/unique-key.js';
import type { Replayable, IdempotencyKey } from '../../db/idempotency.js';
import type { Project } from '../../db/project.js';
import { planCommit } from '../../db/transaction.js';
import type { EventLoopThrottle } from '../limits/event-loop-throttle.js';
import { columnName, sourceRows } from './insert-statement.js';

interface DeleteOptions {
  /** The columns of a unique index. */
  readonly by: readonly string[];
  readonly key: IdempotencyKey | null;
  readonly throttle: EventLoopThrottle;
  readonly signal: AbortSignal;
}

/**
 * @param body the decoded body: a JSON array of records that have the columns of `by`
 * @throws EngineError as an insert. Nothing was deleted then, except that `outcome_unknown` leaves it open.
 */
export async function deleteRecords(
  project: Project,
  tableName: string,
  body: Buffer,
  { by, key, throttle, signal }: DeleteOptions,
): Promise<Replayable<DeleteResponse>> {
  const batch = await throttle.runSteps(project.id, readRecords(body));
  const underKey = { key, responseSchema: DeleteResponse };
  return project.write({ signal, underKey, growth: 'frees' }, async (db) => {
    // Triggers, and foreign keys of other tables, may run code of the project.
    db.resetAfterUse();
    const table = await lockToWrite(db, project.schema, tableName, batch.errors);
    const unique = await findKey(db, table, 'by', by);
    const count = await db.rowCount(
      deleteStatement(table, unique, await throttle.runSteps(project.id, readKeys(batch, table, unique))),
    );
    const message = `${counted(count, 'record')} deleted`;
    const response: DeleteResponse = { success: true, deleted_rows: count, message };
    return planCommit(response, [], { rows: count });
  });
}

/** @throws EngineError naming every record that has columns outside the key, or lacks a value for one of the key */
function* readKeys(batch: RecordBatch, table: Table, { columns }: UniqueKey): Steps<RecordCells[]> {
  const { errors } = batch;
  const rows = yield* checkRecords(batch, table, { throws: false });
  for (const [record, row] of rows.entries()) {
    for (const [index, { name: column }] of table.columns.entries()) {
      const belongsToKey = columns.includes(index);
      if (belongsToKey ? row[index] != null : row[index] === undefined) continue;
      const reason = belongsToKey ? 'a key needs a value' : 'not a column of `by`';
      const message = `Record ${record}, column ${quoted(column)}: ${reason}`;
      errors.add(belongsToKey ? 'invalid_value' : 'invalid_request', () => ({ record, column, message }));
    }
  }
  errors.throwIfAny();
  return rows;
}

function deleteStatement(table: Table, { columns }: UniqueKey, rows: readonly RecordCells[]): Statement {
  const equal = columns.map((index) => sql`stored.${columnName(table, index)} = v.${ident(`c${index}`)}`);
  return sql`DELETE FROM ${ident(table.schema, table.name)} AS stored
    USING (${sourceRows(table, columns, rows)}) AS v WHERE ${join(equal, ' AND ')}`;
}
