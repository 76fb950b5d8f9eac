/** Looks up the tables and columns that a request names, and explains why one is not found. */
import { didYouMean } from '../../contract/did-you-mean.js';
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { cut, quoted } from '../../contract/message-text.js';
import {
  ident,
  PostgresError,
  ROLLBACK,
  type Row,
  type Session,
  sql,
  SQLSTATE,
  type Statement,
  trusted,
} from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import {
  collidingNames,
  type Column,
  readTables,
  type Table,
  tableByName,
  tableNames,
  tableToWrite,
} from './catalog.js';

/**
 * The table in the rows of {@link tableByName}; a view is not a table.
 * @throws EngineError table_not_found with a similar name
 */
export async function existingTable(
  session: Session,
  schema: string,
  name: string,
  rows: readonly Row[],
): Promise<Table> {
  const [table] = readTables(schema, rows);
  if (table === undefined) return tableNotFound(session, schema, name);
  if (table.kind === 'table') return table;
  throw new EngineError('table_not_found', `"${name}" is a ${table.kind.replace('_', ' ')}, not a table`, {
    hint: 'Use SQL to work with it.',
  });
}

/**
 * Begins the transaction, locks the table, then reads its shape.
 * @param mode SHARE ROW EXCLUSIVE lets others read the table
 * @throws EngineError table_not_found
 */
export async function lockForChange(
  lease: Lease,
  begin: readonly Statement[],
  schema: string,
  table: string,
  mode: 'ACCESS EXCLUSIVE' | 'SHARE ROW EXCLUSIVE' = 'ACCESS EXCLUSIVE',
): Promise<Table> {
  const { session } = lease;
  const lock = sql`LOCK TABLE ${ident(schema, table)} IN ${trusted(mode)} MODE`;
  const read = session.run([...begin, lock, tableByName(schema, table)]);
  const results = await read.catch(async (error: unknown) => {
    throw await explainNoTable(session, schema, table, error);
  });
  const shape = await existingTable(session, schema, table, results.at(-1)?.rows ?? []);
  // Rewriting or scanning a table runs the expressions of its indexes, checks and generated columns.
  if (shape.runsProjectCode) lease.resetAfterUse();
  return shape;
}

/**
 * Begins the transaction, takes the lock of an INSERT, then reads the table's shape. It cannot change until the transaction
 * ends, so the values are checked against the columns that will store them.
 * @param errors come first: they do not depend on the table
 * @throws EngineError table_not_found
 */
export async function lockToWrite(
  session: Session,
  begin: readonly Statement[],
  schema: string,
  table: string,
  errors?: ErrorCollector,
): Promise<Table> {
  const lock = sql`LOCK TABLE ${ident(schema, table)} IN ROW EXCLUSIVE MODE`;
  try {
    const results = await session.run([...begin, lock, tableToWrite(schema, table)]);
    const [shape] = readTables(schema, results.at(-1)?.rows ?? []);
    return shape ?? (await tableNotFound(session, schema, table));
  } catch (error) {
    errors?.throwIfAny();
    throw await explainNoTable(session, schema, table, error);
  }
}

const NO_TABLE = new Set<string>([SQLSTATE.UNDEFINED_TABLE, SQLSTATE.WRONG_OBJECT_TYPE]);

/**
 * If Postgres reports that there is no such table, or that it is not one: table_not_found, with a similar name. Otherwise
 * the error as it is.
 */
export async function explainNoTable(session: Session, schema: string, name: string, error: unknown): Promise<unknown> {
  if (!(error instanceof PostgresError && NO_TABLE.has(error.sqlstate))) return error;
  const [, found] = await session.run([ROLLBACK, tableByName(schema, name)]);
  await existingTable(session, schema, name, found?.rows ?? []);
  // It has been created since.
  return new EngineError('table_not_found', `There is no table ${quoted(name)}`, { cause: error });
}

/** @throws EngineError always: table_not_found with a similar name as hint */
export async function tableNotFound(session: Session, schema: string, name: string): Promise<never> {
  const [, found] = await session.run([ROLLBACK, tableNames(schema)]);
  const names = found?.rows.map(([found]) => found ?? '') ?? [];
  throw notFoundWithHint('table_not_found', `There is no table ${quoted(name)}`, name, names);
}

/**
 * @param before statements to run first
 * @param renamed a relation that is about to give up its name
 * @throws EngineError table_exists: tables, views, indexes and sequences share one namespace
 */
export async function requireFreeName(
  session: Session,
  schema: string,
  name: string,
  before: readonly Statement[] = [],
  renamed?: string,
): Promise<void> {
  const results = await session.run([...before, collidingNames(schema, name)]);
  const found = results.at(-1)?.rows ?? [];
  const existing = found.map(([existing]) => existing ?? '').find((existing) => existing !== renamed);
  if (existing !== undefined) throw new EngineError('table_exists', nameIsTaken(name, existing));
}

/** The message for a new name that is taken, perhaps in another case. */
export const nameIsTaken = (name: string, existing: string): string =>
  existing === name ? `"${name}" already exists` : `"${name}" differs only by case from the existing "${existing}"`;

/** @throws EngineError column_not_found with a similar name */
export function existingColumn(table: Table, name: string): Column {
  const column = table.columns.find((candidate) => candidate.name === name);
  if (column !== undefined) return column;
  const names = table.columns.map((candidate) => candidate.name);
  const message = `Table "${table.name}" has no column ${quoted(name)}`;
  throw notFoundWithHint('column_not_found', message, name, names);
}

/**
 * @param parameter the request's parameter that names them
 * @throws EngineError unknown_column, naming each missing column, with a similar name
 */
export function requireColumns(table: Table, columns: Iterable<string>, parameter?: string): void {
  const names = table.columns.map(({ name }) => name);
  const errors = new ErrorCollector();
  for (const column of new Set(columns)) {
    if (names.includes(column)) continue;
    const hint = didYouMean(column, names);
    const place = parameter === undefined ? 'Table' : `${parameter}: table`;
    const text = `${place} ${quoted(table.name)} has no column ${quoted(column)}`;
    errors.add('unknown_column', () => ({
      column: cut(column),
      message: hint === undefined ? text : `${text}. ${hint}`,
      ...(hint === undefined ? {} : { hint }),
    }));
  }
  errors.throwIfAny();
}

/** A not-found error that suggests the most similar name. */
export function notFoundWithHint(
  code: 'table_not_found' | 'column_not_found' | 'index_not_found',
  message: string,
  name: string,
  names: readonly string[],
): EngineError {
  const hint = didYouMean(name, names);
  return new EngineError(code, hint === undefined ? message : `${message}. ${hint}`, { hint });
}
