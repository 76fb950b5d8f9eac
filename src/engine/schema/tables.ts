/** Creates, reads and drops tables (contract C6). */
import type { Index } from '../../contract/wire/indexes.js';
import { type AlterTableBody, AlteredTable } from '../../contract/wire/tables.js';
import { checkAll } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { Type } from '../../contract/schema.js';
import { ADVISORY_LOCKS } from '../../tenancy/locks.js';
import { IN_PG_CATALOG } from '../../tenancy/connections/project-session.js';
import { allTables, readTables, schemaBytes, type Table, tableByName } from '../catalog/catalog.js';
import { BEGIN, COMMIT, fixed, ident, join, sql, type Statement } from '../../pg/index.js';
import type { Replayable } from '../../db/idempotency.js';
import type { Project } from '../../db/project.js';
import { planCommit } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { renameQuarantinedTable } from '../insert/quarantine.js';
import { distributions, readDistributions } from '../catalog/distribution.js';
import { indexesOf, readIndexes } from '../catalog/indexes.js';
import { checkComment, checkDefinition, checkName, columnDefinitionSql, type TableDefinition } from './definition.js';
import { commentOnColumn, commentOnTable } from './column-properties.js';
import { checkDistribution, distribute } from './distribution.js';
import { explainNoTable, lockForChange, requireFreeName, tableNotFound } from '../catalog/find-table.js';
import { shownIndex } from './indexes.js';
import { type ChangeOptions, noteMentions, schemaChange, schemaRead, type SchemaOptions } from './schema-change.js';

/** Otherwise two concurrent requests could create names that differ only by case. */
export const ONE_TABLE_AT_A_TIME = fixed(`SELECT pg_catalog.pg_advisory_xact_lock(${ADVISORY_LOCKS.newTable})`);

/**
 * Creates a table with its `id`, columns and comments in one transaction.
 * @returns the names of its columns, `id` first
 * @throws EngineError invalid_name, reserved_name, unknown_type, invalid_request, invalid_value, table_exists,
 * table_busy, quota_exceeded
 */
export async function createTable(
  project: Project,
  body: TableDefinition,
  options: ChangeOptions,
): Promise<Replayable<string[]>> {
  const columns = checkDefinition(body);
  const { table_name: tableName, comment, distribution } = body;
  if (distribution !== undefined) checkDistribution(project, distribution);
  const relation = ident(project.schema, tableName);
  const comments: Statement[] = comment ? [commentOnTable(project.schema, tableName, comment)] : [];
  for (const column of columns) {
    if (column.comment) comments.push(commentOnColumn(project.schema, tableName, column.name, column.comment));
  }
  const definitions = columns.map(columnDefinitionSql);
  const id = sql`id pg_catalog.uuid PRIMARY KEY DEFAULT _cdp.uuid_v7()`;

  const create = sql`CREATE TABLE ${relation} (${join([id, ...definitions])})`;
  const names = ['id', ...columns.map((column) => column.name)];
  return schemaChange(project, options, Type.Array(Type.String()), 'grows', async (db) => {
    await requireFreeName(db, project.schema, tableName, [ONE_TABLE_AT_A_TIME]);
    if (distribution === undefined || distribution.kind === 'local') return planCommit(names, [create, ...comments]);
    const results = await db.run([create, ...comments, tableByName(project.schema, tableName)]);
    for (const table of readTables(project.schema, results.at(-1)?.rows ?? []))
      await distribute(db, table, distribution);
    return planCommit(names);
  });
}

/**
 * All tables and views of the project.
 * @throws EngineError result_too_large: building the response takes many times its size in memory
 */
export async function readSchema(project: Project, limits: SchemaOptions): Promise<Table[]> {
  return schemaRead(project, limits, async (db) => {
    const [size] = await db.query(schemaBytes(project.schema));
    if (Number(size?.[0]) > LIMITS.resultBytes) {
      throw new EngineError('result_too_large', 'The tables have too many columns and comments for one response', {
        hint: 'Read one table at a time; query pg_tables for their names.',
      });
    }
    return withDistribution(
      project,
      db,
      readTables(project.schema, await db.query(allTables(project.schema, db.shown))),
    );
  });
}

/** The coordinator's statistics do not count rows on workers. */
async function withDistribution(project: Project, db: QueryRunner, tables: readonly Table[]): Promise<Table[]> {
  if (!project.distributesTables) return [...tables];
  const statements = [BEGIN, IN_PG_CATALOG, distributions(project.schema), COMMIT];
  const byName = readDistributions((await db.run(statements))[2]?.rows ?? []);
  return tables.map((table) => {
    const distribution = byName.get(table.name);
    if (distribution === undefined) return table;
    const approximateRows = distribution.kind === 'local' ? table.approximateRows : null;
    return { ...table, approximateRows, distribution };
  });
}

/** @throws EngineError table_not_found */
export async function readTable(
  project: Project,
  tableName: string,
  limits: SchemaOptions,
): Promise<Table & { indexes: Index[] }> {
  return schemaRead(project, limits, async (db) => {
    const { schema } = project;
    const [tables, indexes] = await db.run([tableByName(schema, tableName, db.shown), indexesOf(schema, tableName)]);
    const [table] = await withDistribution(project, db, readTables(schema, tables?.rows ?? []));
    if (table === undefined) return tableNotFound(db, schema, tableName);
    const names = new Set(table.columns.map(({ name }) => name));
    const isShown = ({ columns }: Index) => columns.every((column) => column === null || names.has(column));
    return {
      ...table,
      indexes: readIndexes(indexes?.rows ?? [])
        .map(shownIndex)
        .filter(isShown),
    };
  });
}

/**
 * Renames and comments a table in one transaction. Its indexes keep their names, and views still work.
 * @throws EngineError invalid_name, reserved_name, invalid_request, table_not_found, table_exists, table_busy
 */
export async function alterTable(
  project: Project,
  tableName: string,
  { new_name: newName, comment }: AlterTableBody,
  options: ChangeOptions,
): Promise<Replayable<AlteredTable>> {
  if (newName === undefined && comment === undefined) {
    throw new EngineError('invalid_request', 'At least one of new_name and comment is needed');
  }
  checkAll(
    () => newName !== undefined && checkName('table', newName),
    () => checkComment(comment),
  );
  const { schema } = project;
  return schemaChange(project, options, AlteredTable, 'may grow', async (db) => {
    const table = await lockForChange(db, schema, tableName);
    const changes: Statement[] = comment === undefined ? [] : [commentOnTable(schema, tableName, comment)];
    if (newName !== undefined && newName !== tableName) {
      await requireFreeName(db, schema, newName, [ONE_TABLE_AT_A_TIME], tableName);
      await noteMentions(db, project, tableName, tableName);
      changes.push(
        sql`ALTER TABLE ${ident(schema, tableName)} RENAME TO ${ident(newName)}`,
        renameQuarantinedTable(tableName, newName),
      );
    }
    const altered = { table: newName ?? tableName, comment: comment === undefined ? table.comment : comment || null };
    return planCommit(altered, changes);
  });
}

/** @throws EngineError table_not_found, dependent_objects, table_busy */
export function dropTable(project: Project, tableName: string, options: ChangeOptions): Promise<Replayable<null>> {
  return schemaChange(project, options, Type.Null(), 'none', () =>
    planCommit(null, [sql`DROP TABLE ${ident(project.schema, tableName)}`], {
      onRefused: async (error, db) => {
        throw await explainNoTable(db, project.schema, tableName, error);
      },
    }),
  );
}
