/** Looks up the tables and columns that a request names, and explains why one is not found. */
import { didYouMean, suggester, suggesting } from '../../contract/did-you-mean.js';
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { cut, quoted } from '../../contract/message-text.js';
import { ident, PostgresError, type Row, sql, SQLSTATE, type Statement, trusted } from '../../pg/index.js';
import type { QueryRunner } from '../../db/query-runner.js';
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
  db: QueryRunner,
  schema: string,
  tableName: string,
  rows: readonly Row[],
): Promise<Table> {
  const [table] = readTables(schema, rows);
  if (table === undefined) return tableNotFound(db, schema, tableName);
  if (table.kind === 'table') return table;
  throw new EngineError('table_not_found', `"${tableName}" is a ${table.kind.replace('_', ' ')}, not a table`, {
    hint: 'Use SQL to work with it.',
  });
}

/**
 * Locks the table, then reads its columns.
 * @param mode SHARE ROW EXCLUSIVE lets others read the table
 * @throws EngineError table_not_found
 */
export async function lockForChange(
  db: QueryRunner,
  schema: string,
  tableName: string,
  mode: 'ACCESS EXCLUSIVE' | 'SHARE ROW EXCLUSIVE' = 'ACCESS EXCLUSIVE',
): Promise<Table> {
  const lock = sql`LOCK TABLE ${ident(schema, tableName)} IN ${trusted(mode)} MODE`;
  const read = db.run([lock, tableByName(schema, tableName)]);
  const results = await read.catch(async (error: unknown) => {
    throw await explainNoTable(db, schema, tableName, error);
  });
  const table = await existingTable(db, schema, tableName, results.at(-1)?.rows ?? []);
  // Rewriting or scanning a table runs the expressions of its indexes, checks and generated columns.
  if (table.runsProjectCode) db.resetAfterUse();
  return table;
}

/**
 * Takes the lock of an INSERT, then reads the table's columns. They cannot change until the transaction ends, so the values
 * are checked against those that will store them.
 * @param errors come first: they do not depend on the table
 * @throws EngineError table_not_found
 */
export async function lockToWrite(
  db: QueryRunner,
  schema: string,
  tableName: string,
  errors?: ErrorCollector,
): Promise<Table> {
  const lock = sql`LOCK TABLE ${ident(schema, tableName)} IN ROW EXCLUSIVE MODE`;
  try {
    const results = await db.run([lock, tableToWrite(schema, tableName)]);
    const [table] = readTables(schema, results.at(-1)?.rows ?? []);
    return table ?? (await tableNotFound(db, schema, tableName));
  } catch (error) {
    errors?.throwIfAny();
    throw await explainNoTable(db, schema, tableName, error);
  }
}

const NO_TABLE = new Set<string>([SQLSTATE.UNDEFINED_TABLE, SQLSTATE.WRONG_OBJECT_TYPE]);

/**
 * If Postgres reports that there is no such table, or that it is not one: table_not_found, with a similar name. Otherwise
 * the error as it is.
 */
export async function explainNoTable(
  db: QueryRunner,
  schema: string,
  tableName: string,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof PostgresError && NO_TABLE.has(error.sqlstate))) return error;
  const [tables] = await db.rollback([tableByName(schema, tableName)]);
  await existingTable(db, schema, tableName, tables?.rows ?? []);
  // It has been created since.
  return new EngineError('table_not_found', `There is no table ${quoted(tableName)}`, { cause: error });
}

/** @throws EngineError always: table_not_found with a similar name as hint */
export async function tableNotFound(db: QueryRunner, schema: string, tableName: string): Promise<never> {
  const [result] = await db.rollback([tableNames(schema, db.shown)]);
  const names = result?.rows.map(([name]) => name ?? '') ?? [];
  throw notFoundWithHint('table_not_found', `There is no table ${quoted(tableName)}`, tableName, names);
}

/**
 * @param before statements to run first, in the same round trip
 * @param renamed a relation that is about to give up its name
 * @throws EngineError table_exists: tables, views, indexes and sequences share one namespace
 */
export async function requireFreeName(
  db: QueryRunner,
  schema: string,
  name: string,
  before: readonly Statement[] = [],
  renamed?: string,
): Promise<void> {
  const results = await db.run([...before, collidingNames(schema, name)]);
  const rows = results.at(-1)?.rows ?? [];
  const existing = rows.map(([existing]) => existing ?? '').find((existing) => existing !== renamed);
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
  const existing = new Set(names);
  const suggestion = suggester(names);
  const errors = new ErrorCollector();
  for (const column of new Set(columns)) {
    if (existing.has(column)) continue;
    const place = parameter === undefined ? 'Table' : `${parameter}: table`;
    const text = `${place} ${quoted(table.name)} has no column ${quoted(column)}`;
    errors.add('unknown_column', () => ({ column: cut(column), ...suggesting(text, suggestion(column)) }));
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
  const { message: full, ...options } = suggesting(message, didYouMean(name, names));
  return new EngineError(code, full, options);
}
