/** Creates, lists and drops the indexes of a table. */
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import { Type } from '../../contract/schema.js';
import { type CreateIndexBody, Index } from '../../contract/wire/indexes.js';
import { readTables, tableByName } from '../catalog/catalog.js';
import { duplicatesIn, type FoundIndex, indexesOf, newIndexesOf, readIndexes } from '../catalog/indexes.js';
import { ident, join, PostgresError, sql, SQLSTATE, type Statement } from '../../pg/index.js';
import type { Replayable } from '../../db/idempotency.js';
import type { Project } from '../../db/project.js';
import { planCommit } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { checkName } from './definition.js';
import {
  lockForChange,
  notFoundWithHint,
  requireColumns,
  requireFreeName,
  tableNotFound,
} from '../catalog/find-table.js';
import { type ChangeOptions, schemaChange, schemaRead, type SchemaOptions } from './schema-change.js';

/**
 * Meanwhile others can read the table, but not write it.
 * @throws EngineError invalid_name, reserved_name, table_not_found, unknown_column, table_exists, unique_violation,
 * table_busy, quota_exceeded; row_too_large, sql_error if Postgres cannot index the values
 */
export async function createIndex(
  project: Project,
  tableName: string,
  { columns, unique = false, name }: CreateIndexBody,
  options: ChangeOptions,
): Promise<Replayable<Index>> {
  if (name !== undefined) checkName('index', name);
  const { schema } = project;
  return schemaChange(project, options, Index, 'grows', async (db) => {
    requireColumns(await lockForChange(db, schema, tableName, 'SHARE ROW EXCLUSIVE'), columns);
    if (name !== undefined) await requireFreeName(db, schema, name);
    const kind = unique ? sql`UNIQUE INDEX` : sql`INDEX`;
    const nameClause = name === undefined ? sql`` : ident(name);
    const on = sql`${ident(schema, tableName)} (${join(columns.map((column) => ident(column)))})`;
    try {
      const [, created] = await db.run([sql`CREATE ${kind} ${nameClause} ON ${on}`, newIndexesOf(schema, tableName)]);
      const [index] = readIndexes(created?.rows ?? []);
      if (index === undefined) throw new Error('The new index is not in the catalog');
      return planCommit(shownIndex(index));
    } catch (error) {
      throw await explainDuplicates(db, schema, tableName, columns, error);
    }
  });
}

/** The primary key first. @throws EngineError table_not_found */
export async function listIndexes(project: Project, tableName: string, limits: SchemaOptions): Promise<Index[]> {
  const { schema } = project;
  return schemaRead(project, limits, async (db) => {
    const [tables, indexes] = await db.run([tableByName(schema, tableName, db.shown), indexesOf(schema, tableName)]);
    if (readTables(schema, tables?.rows ?? []).length === 0) await tableNotFound(db, schema, tableName);
    return readIndexes(indexes?.rows ?? []).map(shownIndex);
  });
}

/** @throws EngineError table_not_found, index_not_found, reserved_name, dependent_objects, table_busy */
export async function dropIndex(
  project: Project,
  tableName: string,
  name: string,
  options: ChangeOptions,
): Promise<Replayable<null>> {
  const { schema } = project;
  return schemaChange(project, options, Type.Null(), 'none', async (db) => {
    await lockForChange(db, schema, tableName);
    const indexes = readIndexes(await db.query(indexesOf(schema, tableName)));
    const index = indexes.find((candidate) => candidate.name === name);
    if (index === undefined) {
      const names = indexes.map((candidate) => candidate.name);
      throw notFoundWithHint('index_not_found', `Table "${tableName}" has no index ${quoted(name)}`, name, names);
    }
    if (index.primary) {
      throw new EngineError('reserved_name', `"${name}" is the index of the primary key and cannot be dropped`);
    }
    return planCommit(null, [dropIndexStatement(schema, tableName, index)]);
  });
}

/** A constraint and its index have the same name. */
export const dropIndexStatement = (
  schema: string,
  tableName: string,
  { name, backsConstraint }: FoundIndex,
): Statement =>
  backsConstraint
    ? sql`ALTER TABLE ${ident(schema, tableName)} DROP CONSTRAINT ${ident(name)}`
    : sql`DROP INDEX ${ident(schema, name)}`;

export const shownIndex = ({ name, columns, unique, primary, partial, valid }: FoundIndex): Index => ({
  name,
  columns,
  unique,
  primary,
  partial,
  valid,
});

/** The catalog's index in which two transactions collide if they take the same name. */
const NAMES_OF_RELATIONS = 'pg_class_relname_nsp_index';

/**
 * If values of the columns are not unique, an error that says how many, and how to find them, but never the values.
 * Otherwise the error itself.
 */
export async function explainDuplicates(
  db: QueryRunner,
  schema: string,
  tableName: string,
  columns: readonly string[],
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof PostgresError && error.sqlstate === SQLSTATE.UNIQUE_VIOLATION)) return error;
  if (error.fields.constraint === NAMES_OF_RELATIONS) {
    return new EngineError('table_exists', 'Another request has just taken the name of the index', { cause: error });
  }
  const [duplicates] = await db.rollback([duplicatesIn(schema, tableName, columns)]);
  const [values = '0', rows] = duplicates?.rows[0] ?? [];
  const names = columns.map((column) => `"${column}"`).join(', ');
  // There are none if the values become equal only by the change, or if a policy hides them.
  const often =
    values === '0'
      ? 'values would occur more than once'
      : `${values} ${values === '1' ? 'value occurs' : 'values occur'} more than once, up to ${rows} times`;
  const message = `${names} cannot be unique in "${tableName}": ${often}`;
  return new EngineError('unique_violation', message, {
    hint: `Find them with SQL: SELECT ${names}, count(*) FROM "${tableName}" WHERE (${names}) IS NOT NULL GROUP BY ${names} HAVING count(*) > 1`,
    postgres: { sqlstate: error.sqlstate },
    cause: error,
  });
}
