/** Creating, reading and dropping tables (specification 4.1; contract section 5). */
import type { CreateTableBody } from '../../contract/wire/tables.js';
import { COLUMN_TYPES, type ColumnType } from '../../contract/column-types.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { ADVISORY_LOCKS } from '../../tenancy/advisory-locks.js';
import {
  allTables,
  collidingNames,
  nameIsFree,
  POSTGRES_TYPES,
  readTables,
  schemaBytes,
  tableByName,
  tableNames,
  type TableDescription,
} from '../catalog/catalog.js';
import {
  DIVISION_BY_ZERO,
  fixed,
  ident,
  join,
  literal,
  PostgresError,
  ROLLBACK,
  type Session,
  sql,
  type Statement,
  trusted,
  UNDEFINED_TABLE,
  WRONG_OBJECT_TYPE,
} from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { ErrorCollector } from '../../contract/error-collector.js';
import { cut } from '../../contract/message-text.js';
import { unstorable } from '../../contract/storable-text.js';
import { checkName, columnNameProblem, isName, tableNameProblem } from './names.js';
import { didYouMean } from '../../contract/did-you-mean.js';
import type { Project } from '../project.js';
import { schemaChange, schemaRead, type SchemaLimits } from './schema-change.js';
import { commit } from '../transaction.js';

/** Two new names that differ by case alone must not slip past each other. */
const ONE_AT_A_TIME = fixed(`SELECT pg_catalog.pg_advisory_xact_lock(${ADVISORY_LOCKS.newTable})`);

/**
 * Creates a table with its `id`, columns and comments in one transaction.
 * @returns the names of its columns, `id` first
 * @throws EngineError invalid_name, reserved_name, unknown_type, invalid_request, table_exists, table_busy,
 * quota_exceeded
 */
export async function createTable(project: Project, body: CreateTableBody, limits: SchemaLimits): Promise<string[]> {
  const columns = checkDefinition(body);
  await project.requireRoom();
  const { table_name: name, comment } = body;
  const table = ident(project.schema, name);
  const comments: Statement[] = [];
  if (comment) comments.push(sql`COMMENT ON TABLE ${table} IS ${literal(comment)}`);
  for (const column of columns) {
    if (column.comment) comments.push(commentOn(project.schema, name, column.name, column.comment));
  }
  const definitions = columns.map((column) => sql`${ident(column.name)} ${trusted(POSTGRES_TYPES[column.type])}`);
  const id = sql`id pg_catalog.uuid PRIMARY KEY DEFAULT _cdp.uuid_v7()`;

  const create = sql`CREATE TABLE ${table} (${join([id, ...definitions])})`;
  await schemaChange(project, limits, async ({ session }, begin) => {
    try {
      await commit(session, [...begin, ONE_AT_A_TIME, nameIsFree(project.schema, name), create, ...comments]);
    } catch (error) {
      if (!isRefused(error, DIVISION_BY_ZERO)) throw error;
      const [, found] = await session.run([ROLLBACK, collidingNames(project.schema, name)]);
      throw tableExists(name, found?.rows[0]?.[0] ?? name);
    }
  });
  return ['id', ...columns.map((column) => column.name)];
}

/** All tables and views of the project. @throws EngineError result_too_large: while it is made it takes many times its bytes */
export async function readSchema(project: Project, limits: SchemaLimits): Promise<TableDescription[]> {
  return schemaRead(project, limits, async (session) => {
    const [size] = await session.query(schemaBytes(project.schema));
    if (Number(size?.[0]) > LIMITS.resultBytes) {
      throw new EngineError('result_too_large', 'The tables have too many columns and comments for one answer', {
        hint: 'Read one table at a time; their names are in pg_tables, by SQL.',
      });
    }
    return readTables(project.schema, await session.query(allTables(project.schema)));
  });
}

/** @throws EngineError table_not_found */
export async function readTable(project: Project, name: string, limits: SchemaLimits): Promise<TableDescription> {
  return schemaRead(project, limits, async (session) => {
    const [table] = readTables(project.schema, await session.query(tableByName(project.schema, name)));
    return table ?? (await tableNotFound(session, project.schema, name));
  });
}

/** @throws EngineError table_not_found, dependent_objects, table_busy */
export async function dropTable(project: Project, name: string, limits: SchemaLimits): Promise<void> {
  const drop = async ({ session }: Lease, begin: readonly Statement[]) => {
    try {
      await commit(session, [...begin, sql`DROP TABLE ${ident(project.schema, name)}`]);
    } catch (error) {
      throw await explainNoTable(session, project.schema, name, error);
    }
  };
  await schemaChange(project, limits, drop, 'none');
}

const isRefused = (error: unknown, ...sqlstates: string[]): boolean =>
  error instanceof PostgresError && sqlstates.includes(error.sqlstate);

/** Where Postgres says that there is no such table, or that it is none: why, with a near name; else what it said. */
export async function explainNoTable(session: Session, schema: string, name: string, error: unknown): Promise<unknown> {
  if (!isRefused(error, UNDEFINED_TABLE, WRONG_OBJECT_TYPE)) return error;
  const [, found] = await session.run([ROLLBACK, tableByName(schema, name)]);
  await existingTable(session, schema, name, found?.rows ?? []);
  return error;
}

/**
 * The table out of the rows of {@link tableByName}; a view is none.
 * @throws EngineError table_not_found with a near name
 */
export async function existingTable(
  session: Session,
  schema: string,
  name: string,
  rows: readonly (readonly (string | null)[])[],
): Promise<TableDescription> {
  const [table] = readTables(schema, rows);
  if (table === undefined) return tableNotFound(session, schema, name);
  if (table.kind === 'table') return table;
  throw new EngineError('table_not_found', `"${name}" is a ${table.kind.replace('_', ' ')}, not a table`, {
    hint: 'It is changed and dropped by free SQL.',
  });
}

/** @throws EngineError always: table_not_found with a near name as hint */
export async function tableNotFound(session: Session, schema: string, name: string): Promise<never> {
  const [, found] = await session.run([ROLLBACK, tableNames(schema)]);
  const names = found?.rows.map(([found]) => found ?? '') ?? [];
  throw notFound('table_not_found', `There is no table ${JSON.stringify(cut(name))}.`, didYouMean(name, names));
}

/** Names what is missing, and what may have been meant. */
export function notFound(code: 'table_not_found' | 'column_not_found', message: string, near?: string): EngineError {
  if (near === undefined) return new EngineError(code, message);
  const hint = `Did you mean "${near}"?`;
  return new EngineError(code, `${message} ${hint}`, { hint });
}

export const commentOn = (schema: string, table: string, column: string, comment: string | null): Statement =>
  sql`COMMENT ON COLUMN ${ident(schema, table, column)} IS ${comment ? literal(comment) : trusted('NULL')}`;

/**
 * Postgres text holds no U+0000, and a lone surrogate has no UTF-8.
 * @throws EngineError invalid_request
 */
export function checkComment(comment: string | null | undefined): void {
  const message = unstorableComment(comment);
  if (message !== undefined) throw new EngineError('invalid_request', message);
}

function unstorableComment(comment: string | null | undefined): string | undefined {
  const reason = comment == null ? undefined : unstorable(comment);
  return reason && `comment: ${reason}`;
}

/** A path names a table that cannot exist: no connection is needed to say so. */
export function checkTableInPath(name: string): void {
  if (!isName(name)) throw new EngineError('table_not_found', `There is no table ${JSON.stringify(cut(name))}.`);
}

/**
 * The type of the six that the caller means, whatever its case.
 * @throws EngineError unknown_type
 */
export function columnType(type: string): ColumnType {
  const found = findType(type);
  if (found === undefined) throw new EngineError('unknown_type', unknownType(type));
  return found;
}

/** In lower case, since toUpperCase makes ASCII letters of others (of the dotless i). */
const findType = (type: string): ColumnType | undefined =>
  COLUMN_TYPES.find((known) => known.toLowerCase() === type.toLowerCase());

const unknownType = (type: string) =>
  `${JSON.stringify(cut(type))} is not a column type; the types are ${COLUMN_TYPES.join(', ')}`;

interface CheckedColumn {
  name: string;
  type: ColumnType;
  comment: string | null;
}

/** Names every wrong place of the definition in one answer. */
function checkDefinition(body: CreateTableBody): CheckedColumn[] {
  checkName(tableNameProblem(body.table_name));
  checkComment(body.comment);
  const errors = new ErrorCollector();
  const seen = new Map<string, string>();
  const columns: CheckedColumn[] = [];
  for (const { name, type, comment } of body.columns) {
    const problem = columnNameProblem(name);
    if (problem !== undefined) errors.add(problem.error, () => ({ column: cut(name), message: problem.message }));
    const twin = seen.get(name.toLowerCase());
    if (twin !== undefined) {
      const message =
        twin === name ? `Column "${name}" is declared twice` : `Columns "${twin}" and "${name}" differ only by case`;
      errors.add('invalid_request', () => ({ column: cut(name), message }));
    }
    seen.set(name.toLowerCase(), name);
    const problemOfComment = unstorableComment(comment);
    if (problemOfComment !== undefined) {
      errors.add('invalid_request', () => ({ column: cut(name), message: problemOfComment }));
    }
    const known = findType(type);
    if (known === undefined) errors.add('unknown_type', () => ({ column: cut(name), message: unknownType(type) }));
    else columns.push({ name, type: known, comment: comment ?? null });
  }
  errors.throwIfAny();
  return columns;
}

function tableExists(name: string, existing: string): EngineError {
  const message =
    existing === name ? `"${name}" exists already` : `"${name}" differs only by case from the existing "${existing}"`;
  return new EngineError('table_exists', message);
}
