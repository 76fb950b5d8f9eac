/** Creating, reading and dropping tables (specification 4.1; contract section 5). */
import type { CreateTableBody } from '../../contract/wire/tables.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { Type } from '../../contract/schema.js';
import { ADVISORY_LOCKS } from '../../tenancy/advisory-locks.js';
import {
  allTables,
  collidingNames,
  nameIsFree,
  POSTGRES_TYPES,
  readTables,
  schemaBytes,
  type Table,
  tableByName,
} from '../catalog/catalog.js';
import {
  DIVISION_BY_ZERO,
  fixed,
  ident,
  join,
  literal,
  PostgresError,
  ROLLBACK,
  sql,
  type Statement,
  trusted,
} from '../../pg/index.js';
import type { Answered } from '../idempotency.js';
import type { Project } from '../project.js';
import { checkDefinition, nameIsTaken } from './definition.js';
import { explainNoTable, tableNotFound } from './find-table.js';
import { type ChangeOptions, schemaChange, schemaRead, type SchemaLimits } from './schema-change.js';

/** Two new names that differ by case alone must not slip past each other. */
const ONE_AT_A_TIME = fixed(`SELECT pg_catalog.pg_advisory_xact_lock(${ADVISORY_LOCKS.newTable})`);

/**
 * Creates a table with its `id`, columns and comments in one transaction.
 * @returns the names of its columns, `id` first
 * @throws EngineError invalid_name, reserved_name, unknown_type, invalid_request, table_exists, table_busy,
 * quota_exceeded
 */
export async function createTable(
  project: Project,
  body: CreateTableBody,
  options: ChangeOptions,
): Promise<Answered<string[]>> {
  const columns = checkDefinition(body);
  const { table_name: name, comment } = body;
  const table = ident(project.schema, name);
  const comments: Statement[] = comment ? [sql`COMMENT ON TABLE ${table} IS ${literal(comment)}`] : [];
  for (const column of columns) {
    if (column.comment) comments.push(commentOn(project.schema, name, column.name, column.comment));
  }
  const definitions = columns.map((column) => sql`${ident(column.name)} ${trusted(POSTGRES_TYPES[column.type])}`);
  const id = sql`id pg_catalog.uuid PRIMARY KEY DEFAULT _cdp.uuid_v7()`;

  const create = sql`CREATE TABLE ${table} (${join([id, ...definitions])})`;
  const names = ['id', ...columns.map((column) => column.name)];
  return schemaChange(project, options, Type.Array(Type.String()), 'grows', async ({ lease, begin, commit }) => {
    const { session } = lease;
    try {
      return await commit([...begin, ONE_AT_A_TIME, nameIsFree(project.schema, name), create, ...comments], names);
    } catch (error) {
      if (!(error instanceof PostgresError && error.sqlstate === DIVISION_BY_ZERO)) throw error;
      const [, found] = await session.run([ROLLBACK, collidingNames(project.schema, name)]);
      throw new EngineError('table_exists', nameIsTaken(name, found?.rows[0]?.[0] ?? name));
    }
  });
}

/** All tables and views of the project. @throws EngineError result_too_large: while it is made it takes many times its bytes */
export async function readSchema(project: Project, limits: SchemaLimits): Promise<Table[]> {
  return schemaRead(project, limits, async (session) => {
    const [size] = await session.query(schemaBytes(project.schema));
    if (Number(size?.[0]) > LIMITS.resultBytes) {
      throw new EngineError('result_too_large', 'The tables have too many columns and comments for one response', {
        hint: 'Read one table at a time; query pg_tables for their names.',
      });
    }
    return readTables(project.schema, await session.query(allTables(project.schema)));
  });
}

/** @throws EngineError table_not_found */
export async function readTable(project: Project, name: string, limits: SchemaLimits): Promise<Table> {
  return schemaRead(project, limits, async (session) => {
    const [table] = readTables(project.schema, await session.query(tableByName(project.schema, name)));
    return table ?? (await tableNotFound(session, project.schema, name));
  });
}

/** @throws EngineError table_not_found, dependent_objects, table_busy */
export function dropTable(project: Project, name: string, options: ChangeOptions): Promise<Answered<null>> {
  return schemaChange(project, options, Type.Null(), 'drop', async ({ lease, begin, commit }) => {
    try {
      return await commit([...begin, sql`DROP TABLE ${ident(project.schema, name)}`], null);
    } catch (error) {
      throw await explainNoTable(lease.session, project.schema, name, error);
    }
  });
}

export const commentOn = (schema: string, table: string, column: string, comment: string | null): Statement =>
  sql`COMMENT ON COLUMN ${ident(schema, table, column)} IS ${comment ? literal(comment) : trusted('NULL')}`;
