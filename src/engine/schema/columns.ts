/** Adding, altering and dropping columns (specification 4.2, 4.3; contract section 5). */
import type { ColumnType } from '../../contract/column-types.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { Type } from '../../contract/schema.js';
import { type AddColumnBody, type AlterColumnBody, Column as ShownColumn } from '../../contract/wire/tables.js';
import { type Column, POSTGRES_TYPES, type Table, tableByName, viewsOnColumn } from '../catalog/catalog.js';
import { conversion } from '../catalog/conversions.js';
import {
  CANNOT_COERCE,
  DATATYPE_MISMATCH,
  FEATURE_NOT_SUPPORTED,
  fixed,
  ident,
  PostgresError,
  type Session,
  sql,
  type Statement,
  trusted,
  UNDEFINED_FUNCTION,
} from '../../pg/index.js';
import { toEngineError } from '../../tenancy/engine-error.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import type { Answered } from '../idempotency.js';
import type { Project } from '../project.js';
import { checkComment, checkName, columnType, nameIsTaken } from './definition.js';
import { existingColumn, existingTable, explainNoTable } from './find-table.js';
import { type ChangeOptions, schemaChange } from './schema-change.js';
import { commentOn } from './tables.js';

/**
 * @throws EngineError invalid_name, reserved_name, unknown_type, table_not_found, column_exists, table_busy,
 * quota_exceeded
 */
export async function addColumn(
  project: Project,
  table: string,
  body: AddColumnBody,
  options: ChangeOptions,
): Promise<Answered<ShownColumn>> {
  checkName('column', body.name);
  checkComment(body.comment);
  const type = columnType(body.type);
  const comment = body.comment || null;
  const change = [
    sql`ALTER TABLE ${ident(project.schema, table)} ADD COLUMN ${ident(body.name)} ${trusted(POSTGRES_TYPES[type])}`,
    ...(comment === null ? [] : [commentOn(project.schema, table, body.name, comment)]),
  ];
  return schemaChange(project, options, ShownColumn, 'grows', async ({ lease, begin, commit }) => {
    const shape = await lockTable(lease, begin, project.schema, table);
    refuseTwin(shape, body.name);
    const columns = shape.columns.filter((column) => !column.isId).length;
    if (columns >= LIMITS.columnsPerTable) {
      throw new EngineError(
        'invalid_request',
        `Table "${table}" has ${columns} columns; the API allows at most ${LIMITS.columnsPerTable}`,
      );
    }
    return commit(change, { name: body.name, type, comment });
  });
}

/**
 * Renames, retypes and comments a column in one transaction; a type change keeps every value or changes nothing.
 * @throws EngineError invalid_name, reserved_name, unknown_type, table_not_found, column_not_found, column_exists,
 * not_convertible, dependent_objects, table_busy; quota_exceeded for a new type, which may rewrite the table
 */
export async function alterColumn(
  project: Project,
  table: string,
  column: string,
  body: AlterColumnBody,
  options: ChangeOptions,
): Promise<Answered<ShownColumn>> {
  const { new_name: newName, new_type: newType, comment } = body;
  if (newName === undefined && newType === undefined && comment === undefined) {
    throw new EngineError('invalid_request', 'At least one of new_name, new_type and comment is needed');
  }
  if (column === 'id' && (newName !== undefined || newType !== undefined)) {
    throw new EngineError('reserved_name', 'The id column can be neither renamed nor retyped; its comment can be set');
  }
  if (newName !== undefined) checkName('column', newName);
  checkComment(comment);
  const type = newType === undefined ? undefined : columnType(newType);
  const kind = type === undefined ? 'comment' : 'grows';
  return schemaChange(project, options, ShownColumn, kind, async ({ lease, begin, commit }) => {
    const shape = await lockTable(lease, begin, project.schema, table);
    const current = existingColumn(shape, column);
    const changes: Statement[] = [];
    if (type !== undefined && type !== current.type) {
      // Tables that inherit from this one are rewritten with it, which runs their checks and indexes.
      lease.resetAfterUse();
      changes.push(await retype(lease.session, shape, current, type));
    }
    if (comment !== undefined) changes.push(commentOn(project.schema, table, column, comment));
    if (newName !== undefined && newName !== column) {
      refuseTwin(shape, newName, column);
      changes.push(
        sql`ALTER TABLE ${ident(project.schema, table)} RENAME COLUMN ${ident(column)} TO ${ident(newName)}`,
      );
    }
    try {
      return await commit(changes, {
        name: newName ?? column,
        type: type ?? current.displayType,
        comment: comment === undefined ? current.comment : comment || null,
      });
    } catch (error) {
      throw explainRefusal(error, column);
    }
  });
}

/** @throws EngineError reserved_name, table_not_found, column_not_found, dependent_objects, table_busy */
export async function dropColumn(
  project: Project,
  table: string,
  column: string,
  options: ChangeOptions,
): Promise<Answered<null>> {
  if (column === 'id') throw new EngineError('reserved_name', 'The id column cannot be dropped');
  return schemaChange(project, options, Type.Null(), 'drop', async ({ lease, begin, commit }) => {
    existingColumn(await lockTable(lease, begin, project.schema, table), column);
    return commit([sql`ALTER TABLE ${ident(project.schema, table)} DROP COLUMN ${ident(column)}`], null);
  });
}

/** Begins the transaction, takes the table's lock and reads its shape as it then is. */
async function lockTable(lease: Lease, begin: readonly Statement[], schema: string, table: string): Promise<Table> {
  const { session } = lease;
  const lock = sql`LOCK TABLE ${ident(schema, table)} IN ACCESS EXCLUSIVE MODE`;
  const read = session.run([...begin, lock, tableByName(schema, table)]);
  const results = await read.catch(async (error: unknown) => {
    throw await explainNoTable(session, schema, table, error);
  });
  const shape = await existingTable(session, schema, table, results.at(-1)?.rows ?? []);
  // Rewriting or scanning a table runs its indexes, checks and generated columns.
  if (shape.runsProjectCode) lease.resetAfterUse();
  return shape;
}

/** @throws EngineError column_exists if another column has the name, in whatever case */
function refuseTwin(table: Table, name: string, renamed?: string): void {
  const twin = table.columns.find(
    (column) => column.name !== renamed && column.name.toLowerCase() === name.toLowerCase(),
  );
  if (twin !== undefined) throw new EngineError('column_exists', `Column ${nameIsTaken(name, twin.name)}`);
}

/**
 * The statement that changes the type, after every value was seen to survive it.
 * @throws EngineError not_convertible, dependent_objects
 */
async function retype(session: Session, table: Table, column: Column, to: ColumnType): Promise<Statement> {
  const { schema, name } = table;
  const views = await session.query(viewsOnColumn(schema, name, column.name));
  if (views.length > 0) {
    const names = views.map(([view]) => `"${view}"`).join(', ');
    throw new EngineError(
      'dependent_objects',
      `The type of "${column.name}" cannot be changed while views depend on it: ${names}`,
    );
  }
  const reference = ident(column.name);
  const change = conversion(column.type, to, reference);
  const relation = ident(schema, name);
  // The change itself ignores row level security; the look at the values must not see less than it.
  await session.run([fixed('SET LOCAL row_security = off')]);
  const lost = change === null ? sql`${reference} IS NOT NULL` : sql`NOT (${change.convertible})`;
  const counted = await session.query(sql`SELECT pg_catalog.count(*) FROM ${relation} WHERE ${lost}`);
  const count = Number(counted[0]?.[0] ?? 0);
  if (change === null || count > 0) {
    const ids = table.columns.some((candidate) => candidate.name === 'id')
      ? await session.query(sql`SELECT id::pg_catalog.text FROM ${relation} WHERE ${lost} LIMIT 5`)
      : [];
    throw notConvertible(
      column,
      to,
      change === null,
      count,
      ids.map(([id]) => id ?? ''),
    );
  }
  return sql`ALTER TABLE ${relation} ALTER COLUMN ${reference} TYPE ${trusted(POSTGRES_TYPES[to])} USING ${change.using}`;
}

function notConvertible(column: Column, to: ColumnType, never: boolean, count: number, ids: string[]): EngineError {
  const values = `${count} ${count === 1 ? 'value' : 'values'} of "${column.name}" (${column.displayType})`;
  const rows =
    ids.length === 0 ? '' : `; ${count > ids.length ? 'some of their rows' : 'their rows'}: ${ids.join(', ')}`;
  if (!never) {
    const hint = 'Change those values with SQL (UPDATE … WHERE id = …), then retry.';
    return new EngineError('not_convertible', `${values} cannot be kept as ${to}${rows}`, { hint });
  }
  const hint =
    column.type === null
      ? 'Change it to TEXT first.'
      : 'Add a column of the new type and fill it with SQL, which lets you decide how to convert each value.';
  const lost = count === 0 ? '' : `: ${values} would be lost${rows}`;
  const message = `${column.displayType} cannot be converted to ${to}${lost}`;
  return new EngineError('not_convertible', message, { hint });
}

/** Postgres's own refusals of a type change that the checks above do not foresee. */
function explainRefusal(error: unknown, column: string): unknown {
  if (!(error instanceof PostgresError)) return error;
  const translated = toEngineError(error);
  if (!(translated instanceof EngineError)) return error;
  const { postgres } = translated;
  const options = { cause: error, ...(postgres === undefined ? {} : { postgres }) };
  switch (error.sqlstate) {
    case FEATURE_NOT_SUPPORTED: // a generated column, policy, trigger or rule uses it
      return new EngineError('dependent_objects', `"${column}": ${error.message}`, options);
    case DATATYPE_MISMATCH: // its default
    case UNDEFINED_FUNCTION: // a check or an index uses an operator that the new type does not have
    case CANNOT_COERCE:
      return new EngineError('not_convertible', `"${column}": ${error.message}`, options);
    default:
      return error;
  }
}
