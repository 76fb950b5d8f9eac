/** Deletes rows by a unique key: 1 to 250 keys in one transaction, once per Idempotency-Key. */
import { checkRecords, readRecords, type Records, type Row } from '../../codec/index.js';
import { counted, quoted } from '../../contract/message-text.js';
import { DeleteResponse } from '../../contract/wire/batch.js';
import { ident, join, sql, type Statement } from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';
import { lockToWrite } from '../catalog/find-table.js';
import type { UniqueKey } from '../catalog/unique-key.js';
import type { Replayable, IdempotencyKey } from '../write/idempotency.js';
import { typedDeadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import { runWrite } from '../write/write.js';
import { columnName, sourceRows } from './insert-statement.js';
import { findKey } from './upsert.js';

interface DeleteOptions {
  /** The columns of a unique index. */
  readonly by: readonly string[];
  readonly idempotency: IdempotencyKey | null;
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
  { by, idempotency, signal }: DeleteOptions,
): Promise<Replayable<DeleteResponse>> {
  const batch = readRecords(body);
  const deadline = typedDeadline(signal);
  const options = {
    deadline,
    repeat: { key: idempotency, responseSchema: DeleteResponse },
    growth: 'may grow',
  } as const;
  return runWrite(project, options, async (write) => {
    const { lease, begin, commit } = write;
    const { session } = lease;
    // Triggers, and foreign keys of other tables, may run code of the project.
    lease.resetAfterUse();
    const table = await lockToWrite(session, begin, project.schema, tableName, batch.errors);
    const key = await findKey(session, table, 'by', by);
    const count = await session.rowCount(deleteStatement(table, key, readKeys(batch, table, key)));
    const message = `${counted(count, 'record')} deleted`;
    const response: DeleteResponse = { success: true, deleted_rows: count, message };
    return { response: await commit([], response, count), replayed: false };
  });
}

/** @throws EngineError naming every record that has columns outside the key, or lacks a value for one of the key */
function readKeys(batch: Records, table: Table, { columns }: UniqueKey): Row[] {
  const { errors } = batch;
  const rows = checkRecords(batch, table, false);
  for (const [record, row] of rows.entries()) {
    for (const [index, { name: column }] of table.columns.entries()) {
      const isOfKey = columns.includes(index);
      if (isOfKey ? row[index] != null : row[index] === undefined) continue;
      const reason = isOfKey ? 'a key needs a value' : 'not a column of `by`';
      const message = `Record ${record}, column ${quoted(column)}: ${reason}`;
      errors.add(isOfKey ? 'invalid_value' : 'invalid_request', () => ({ record, column, message }));
    }
  }
  errors.throwIfAny();
  return rows;
}

function deleteStatement(table: Table, { columns }: UniqueKey, rows: readonly Row[]): Statement {
  const equal = columns.map((index) => sql`stored.${columnName(table, index)} = v.${ident(`c${index}`)}`);
  return sql`DELETE FROM ${ident(table.schema, table.name)} AS stored
    USING (${sourceRows(table, columns, rows)}) AS v WHERE ${join(equal, ' AND ')}`;
}
