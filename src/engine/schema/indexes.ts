/** Creates, lists and drops the indexes of a table. */
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import { Type } from '../../contract/schema.js';
import { type CreateIndexBody, Index } from '../../contract/wire/indexes.js';
import { readTables, tableByName } from '../catalog/catalog.js';
import { duplicatesIn, type FoundIndex, indexesOf, newIndexesOf, readIndexes } from '../catalog/indexes.js';
import { ident, join, PostgresError, ROLLBACK, type Session, sql, SQLSTATE, type Statement } from '../../pg/index.js';
import type { Replayable } from '../write/idempotency.js';
import type { Project } from '../project.js';
import { checkName } from './definition.js';
import {
  lockForChange,
  notFoundWithHint,
  requireColumns,
  requireFreeName,
  tableNotFound,
} from '../catalog/find-table.js';
import { type ChangeOptions, schemaChange, schemaRead, type SchemaLimits } from './schema-change.js';

/**
 * Meanwhile others can read the table, but not write it.
 * @throws EngineError invalid_name, reserved_name, table_not_found, unknown_column, table_exists, unique_violation,
 * table_busy, quota_exceeded; row_too_large, sql_error if Postgres cannot index the values
 */
export async function createIndex(
  project: Project,
  table: string,
  { columns, unique = false, name }: CreateIndexBody,
  options: ChangeOptions,
): Promise<Replayable<Index>> {
  if (name !== undefined) checkName('index', name);
  const { schema } = project;
  return schemaChange(project, options, Index, 'grows', async ({ lease, begin, commit }) => {
    const { session } = lease;
    requireColumns(await lockForChange(lease, begin, schema, table, 'SHARE ROW EXCLUSIVE'), columns);
    if (name !== undefined) await requireFreeName(session, schema, name);
    const what = unique ? sql`UNIQUE INDEX` : sql`INDEX`;
    const called = name === undefined ? sql`` : ident(name);
    const on = sql`${ident(schema, table)} (${join(columns.map((column) => ident(column)))})`;
    try {
      const [, created] = await session.run([sql`CREATE ${what} ${called} ON ${on}`, newIndexesOf(schema, table)]);
      const [index] = readIndexes(created?.rows ?? []);
      if (index === undefined) throw new Error('The new index is not in the catalog');
      return await commit([], shownIndex(index));
    } catch (error) {
      throw await explainDuplicates(session, schema, table, columns, error);
    }
  });
}

/** The primary key first. @throws EngineError table_not_found */
export async function listIndexes(project: Project, table: string, limits: SchemaLimits): Promise<Index[]> {
  const { schema } = project;
  return schemaRead(project, limits, async (session) => {
    const [found, indexes] = await session.run([tableByName(schema, table), indexesOf(schema, table)]);
    if (readTables(schema, found?.rows ?? []).length === 0) await tableNotFound(session, schema, table);
    return readIndexes(indexes?.rows ?? []).map(shownIndex);
  });
}

/** @throws EngineError table_not_found, index_not_found, reserved_name, dependent_objects, table_busy */
export async function dropIndex(
  project: Project,
  table: string,
  name: string,
  options: ChangeOptions,
): Promise<Replayable<null>> {
  const { schema } = project;
  return schemaChange(project, options, Type.Null(), 'none', async ({ lease, begin, commit }) => {
    await lockForChange(lease, begin, schema, table);
    const indexes = readIndexes(await lease.session.query(indexesOf(schema, table)));
    const index = indexes.find((candidate) => candidate.name === name);
    if (index === undefined) {
      const names = indexes.map((candidate) => candidate.name);
      throw notFoundWithHint('index_not_found', `Table "${table}" has no index ${quoted(name)}`, name, names);
    }
    if (index.primary) {
      throw new EngineError('reserved_name', `"${name}" is the index of the primary key and cannot be dropped`);
    }
    return commit([dropStatement(schema, table, index)], null);
  });
}

/** A constraint and its index have the same name. */
export const dropStatement = (schema: string, table: string, { name, isOfConstraint }: FoundIndex): Statement =>
  isOfConstraint
    ? sql`ALTER TABLE ${ident(schema, table)} DROP CONSTRAINT ${ident(name)}`
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
  session: Session,
  schema: string,
  table: string,
  columns: readonly string[],
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof PostgresError && error.sqlstate === SQLSTATE.UNIQUE_VIOLATION)) return error;
  if (error.fields.constraint === NAMES_OF_RELATIONS) {
    return new EngineError('table_exists', 'Another request has just taken the name of the index', { cause: error });
  }
  const results = await session.run([ROLLBACK, duplicatesIn(schema, table, columns)]);
  const [values = '0', rows] = results[1]?.rows[0] ?? [];
  const names = columns.map((column) => `"${column}"`).join(', ');
  // There are none if the values become equal only by the change, or if a policy hides them.
  const often =
    values === '0'
      ? 'values would occur more than once'
      : `${values} ${values === '1' ? 'value occurs' : 'values occur'} more than once, up to ${rows} times`;
  const message = `${names} cannot be unique in "${table}": ${often}`;
  return new EngineError('unique_violation', message, {
    hint: `Find them with SQL: SELECT ${names}, count(*) FROM "${table}" WHERE (${names}) IS NOT NULL GROUP BY ${names} HAVING count(*) > 1`,
    postgres: { sqlstate: error.sqlstate },
    cause: error,
  });
}
