/** Adds, alters and drops columns (contract C6). */
import type { JsonNode } from '../../codec/index.js';
import { checkAll } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { Type } from '../../contract/schema.js';
import { unstorable } from '../../contract/column-types.js';
import * as wire from '../../contract/wire/tables.js';
import { type Table, tableByName } from '../catalog/catalog.js';
import { ident, sql, type Statement } from '../../pg/index.js';
import type { Replayable } from '../../db/idempotency.js';
import type { Project } from '../../db/project.js';
import { type CommitPlan, planCommit } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import {
  commentOnColumn,
  dropDefault,
  requireNoNulls,
  setDefault,
  setNotNull,
  setUnique,
  shownColumn,
} from './column-properties.js';
import {
  checkColumn,
  checkComment,
  checkName,
  type ColumnDefinition,
  columnType,
  columnDefinitionSql,
} from './definition.js';
import { existingColumn, existingTable, lockForChange, nameIsTaken } from '../catalog/find-table.js';
import { explainDuplicates } from './indexes.js';
import { explainRetypeRefusal, retype } from './retype.js';
import { type ChangeOptions, noteMentions, schemaChange } from './schema-change.js';

/**
 * @throws EngineError invalid_name, reserved_name, unknown_type, invalid_value, table_not_found, column_exists,
 * constraint_violation if rows would have NULL, unique_violation if they would share a default, table_busy,
 * quota_exceeded
 */
export async function addColumn(
  project: Project,
  tableName: string,
  body: ColumnDefinition,
  options: ChangeOptions,
): Promise<Replayable<wire.Column>> {
  const [, , column] = checkAll(
    () => checkName('column', body.name),
    () => checkComment(body.comment),
    () => checkColumn(body),
  );
  const { name, comment } = column;
  // If rows would get no value, the error should say how many, which Postgres's does not.
  const needsValues = column.notNull && column.defaultValue === null;
  const definition = columnDefinitionSql(needsValues ? { ...column, notNull: false } : column);
  const add = [
    sql`ALTER TABLE ${ident(project.schema, tableName)} ADD COLUMN ${definition}`,
    ...(comment === null ? [] : [commentOnColumn(project.schema, tableName, name, comment)]),
  ];
  return schemaChange(project, options, wire.Column, 'grows', async (db) => {
    const table = await lockForChange(db, project.schema, tableName);
    refuseCaseInsensitiveDuplicate(table, body.name);
    const columns = table.columns.filter((column) => !column.isId).length;
    if (columns >= LIMITS.columnsPerTable) {
      throw new EngineError(
        'invalid_request',
        `Table "${tableName}" has ${columns} columns; the API allows at most ${LIMITS.columnsPerTable}`,
      );
    }
    if (!needsValues) return commitColumn(db, table, name, add);
    await requireNoNulls(db, table, name, add, 'Give the column a default, too.');
    return commitColumn(db, table, name, [setNotNull(table, name, true)]);
  });
}

/** The requested changes; the default keeps every digit that was sent. */
interface ColumnChange extends Omit<wire.AlterColumnBody, 'default'> {
  default?: JsonNode;
}

interface AlterOptions extends ChangeOptions {
  /** Whether an error lists the values that cannot be converted. */
  showValues?: boolean;
}

/**
 * Changes a column in one transaction; a type change keeps every value or changes nothing.
 * @throws EngineError invalid_name, reserved_name, unknown_type, invalid_value, table_not_found, column_not_found,
 * column_exists, not_convertible, constraint_violation, unique_violation, dependent_objects, table_busy; quota_exceeded
 * for a new type or an index, which take space
 */
export async function alterColumn(
  project: Project,
  tableName: string,
  column: string,
  body: ColumnChange,
  options: AlterOptions,
): Promise<Replayable<wire.Column>> {
  const { new_name: newName, new_type: newType, map, comment, default: defaultValue, not_null: notNull, unique } = body;
  if (Object.keys(body).length === 0) {
    const names = 'new_name, new_type, comment, not_null, default and unique';
    throw new EngineError('invalid_request', `At least one of ${names} is needed`);
  }
  if (column === 'id' && Object.keys(body).some((field) => field !== 'comment')) {
    throw new EngineError('reserved_name', 'Only the comment of the id column can be changed');
  }
  const [, , , type] = checkAll(
    () => newName !== undefined && checkName('column', newName),
    () => checkComment(comment),
    () => checkMap(map, newType),
    () => (newType === undefined ? undefined : columnType(newType)),
  );
  const growth = type === undefined && unique !== true ? 'may grow' : 'grows';
  return schemaChange(project, options, wire.Column, growth, async (db) => {
    const table = await lockForChange(db, project.schema, tableName);
    const current = existingColumn(table, column);
    const ownDefault =
      defaultValue && setDefault(table, type === undefined ? current : { ...current, type }, defaultValue);
    const changes: Statement[] = [];
    try {
      if (type !== undefined && (type !== current.type || map !== undefined)) {
        // Child tables are rewritten too, which runs their checks and index expressions.
        db.resetAfterUse();
        // The old default may not convert to the new type.
        if (ownDefault !== undefined) changes.push(dropDefault(table, column));
        changes.push(await retype(db, table, current, { to: type, map, showValues: options.showValues ?? false }));
      }
      if (ownDefault !== undefined) changes.push(ownDefault);
      if (notNull === true) await requireNoNulls(db, table, column, changes.splice(0));
      if (notNull !== undefined) changes.push(setNotNull(table, column, notNull));
      if (unique !== undefined) changes.push(...(await setUnique(db, table, column, unique)));
      if (comment !== undefined) changes.push(commentOnColumn(project.schema, tableName, column, comment));
      if (newName !== undefined && newName !== column) {
        refuseCaseInsensitiveDuplicate(table, newName, column);
        await noteMentions(db, project, tableName, column);
        changes.push(
          sql`ALTER TABLE ${ident(project.schema, tableName)} RENAME COLUMN ${ident(column)} TO ${ident(newName)}`,
        );
      }
      return await commitColumn(db, table, newName ?? column, changes);
    } catch (error) {
      const explained = unique ? await explainDuplicates(db, project.schema, tableName, [column], error) : error;
      throw explainRetypeRefusal(explained, column);
    }
  });
}

/** Makes the last changes. @returns the end, with the changed column */
async function commitColumn(
  db: QueryRunner,
  { schema, name }: Table,
  column: string,
  changes: readonly Statement[],
): Promise<CommitPlan<wire.Column, Replayable<wire.Column>>> {
  const results = await db.run([...changes, tableByName(schema, name)]);
  const changed = await existingTable(db, schema, name, results.at(-1)?.rows ?? []);
  return planCommit(shownColumn(existingColumn(changed, column)));
}

/** @throws EngineError invalid_request */
function checkMap(map: wire.AlterColumnBody['map'], newType: string | undefined): void {
  if (map === undefined) return;
  if (newType === undefined)
    throw new EngineError('invalid_request', '"map" is for a change of the type: send new_type too');
  for (const text of Object.entries(map).flat()) {
    const reason = text === null ? undefined : unstorable(text);
    if (reason !== undefined) throw new EngineError('invalid_request', `map: ${reason}`);
  }
}

/** @throws EngineError reserved_name, table_not_found, column_not_found, dependent_objects, table_busy */
export async function dropColumn(
  project: Project,
  tableName: string,
  column: string,
  options: ChangeOptions,
): Promise<Replayable<null>> {
  if (column === 'id') throw new EngineError('reserved_name', 'The id column cannot be dropped');
  return schemaChange(project, options, Type.Null(), 'none', async (db) => {
    existingColumn(await lockForChange(db, project.schema, tableName), column);
    return planCommit(null, [sql`ALTER TABLE ${ident(project.schema, tableName)} DROP COLUMN ${ident(column)}`]);
  });
}

/** @throws EngineError column_exists if another column has the name in any case */
function refuseCaseInsensitiveDuplicate(table: Table, name: string, renamed?: string): void {
  const duplicate = table.columns.find(
    (column) => column.name !== renamed && column.name.toLowerCase() === name.toLowerCase(),
  );
  if (duplicate !== undefined) throw new EngineError('column_exists', `Column ${nameIsTaken(name, duplicate.name)}`);
}
