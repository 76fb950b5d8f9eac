/** Tables and columns that a request names: what the catalog says of them, or why there are none. */
import { didYouMean } from '../../contract/did-you-mean.js';
import { EngineError } from '../../contract/errors.js';
import { cut } from '../../contract/message-text.js';
import { PostgresError, ROLLBACK, type Row, type Session, UNDEFINED_TABLE, WRONG_OBJECT_TYPE } from '../../pg/index.js';
import { type Column, readTables, type Table, tableByName, tableNames } from '../catalog/catalog.js';

/**
 * The table out of the rows of {@link tableByName}; a view is none.
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
    hint: 'Use SQL to change or drop it.',
  });
}

/** If Postgres says that there is no such table, or that it is none: why, with a near name; else what it said. */
export async function explainNoTable(session: Session, schema: string, name: string, error: unknown): Promise<unknown> {
  if (!(error instanceof PostgresError && [UNDEFINED_TABLE, WRONG_OBJECT_TYPE].includes(error.sqlstate))) return error;
  const [, found] = await session.run([ROLLBACK, tableByName(schema, name)]);
  await existingTable(session, schema, name, found?.rows ?? []);
  return error;
}

/** @throws EngineError always: table_not_found with a similar name as hint */
export async function tableNotFound(session: Session, schema: string, name: string): Promise<never> {
  const [, found] = await session.run([ROLLBACK, tableNames(schema)]);
  const names = found?.rows.map(([found]) => found ?? '') ?? [];
  throw notFound('table_not_found', `There is no table ${JSON.stringify(cut(name))}.`, didYouMean(name, names));
}

/** @throws EngineError column_not_found with a similar name */
export function existingColumn(table: Table, name: string): Column {
  const column = table.columns.find((candidate) => candidate.name === name);
  if (column !== undefined) return column;
  const names = table.columns.map((candidate) => candidate.name);
  const message = `Table "${table.name}" has no column ${JSON.stringify(cut(name))}.`;
  throw notFound('column_not_found', message, didYouMean(name, names));
}

/** Names what is missing, and what may have been meant. */
function notFound(code: 'table_not_found' | 'column_not_found', message: string, near?: string): EngineError {
  if (near === undefined) return new EngineError(code, message);
  const hint = `Did you mean "${near}"?`;
  return new EngineError(code, `${message} ${hint}`, { hint });
}
