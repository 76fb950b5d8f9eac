/** Statements that set or drop DEFAULT, NOT NULL, UNIQUE and comments of columns. */
import type { JsonNode } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import type * as wire from '../../contract/wire/tables.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { type Fragment, ident, literal, sql, type Statement, trusted } from '../../pg/index.js';
import type { Column, Table } from '../catalog/catalog.js';
import { indexesOf, readIndexes } from '../catalog/indexes.js';
import { defaultExpression } from './definition.js';
import { dropIndexStatement } from './indexes.js';

const alter = ({ schema, name }: Table, column: string, change: Fragment): Statement =>
  sql`ALTER TABLE ${ident(schema, name)} ALTER COLUMN ${ident(column)} ${change}`;

export const dropDefault = (table: Table, column: string): Statement => alter(table, column, sql`DROP DEFAULT`);

/**
 * @param column as it will be when the statement runs
 * @param value null drops the default
 * @throws EngineError invalid_value
 */
export function setDefault(table: Table, column: Column, value: JsonNode): Statement {
  const expression = defaultExpression(column, value);
  if (expression === null) return dropDefault(table, column.name);
  return alter(table, column.name, sql`SET DEFAULT ${expression}`);
}

export const setNotNull = (table: Table, column: string, notNull: boolean): Statement =>
  alter(table, column, notNull ? sql`SET NOT NULL` : sql`DROP NOT NULL`);

/**
 * @param changes statements to run before the check
 * @param hint default: how to fill in values
 * @throws EngineError constraint_violation with the number of rows
 */
export async function requireNoNulls(
  db: QueryRunner,
  { schema, name }: Table,
  column: string,
  changes: readonly Statement[],
  hint = `Give them values with SQL: UPDATE "${name}" SET "${column}" = … WHERE "${column}" IS NULL`,
): Promise<void> {
  const nulls = sql`SELECT pg_catalog.count(*) FROM ${ident(schema, name)} WHERE ${ident(column)} IS NULL`;
  const results = await db.run([...changes, nulls]);
  const count = Number(results.at(-1)?.rows[0]?.[0] ?? 0);
  if (count === 0) return;
  const rows = count === 1 ? '1 row has' : `${count} rows have`;
  throw new EngineError('constraint_violation', `"${column}" cannot be NOT NULL: ${rows} NULL in it`, { hint });
}

/** No statement if nothing is to change. */
export async function setUnique(
  db: QueryRunner,
  { schema, name }: Table,
  column: string,
  unique: boolean,
): Promise<Statement[]> {
  const indexes = readIndexes(await db.query(indexesOf(schema, name))).filter(
    (index) => index.unique && !index.partial && index.columns.length === 1 && index.columns[0] === column,
  );
  if (!unique) return indexes.filter(({ primary }) => !primary).map((index) => dropIndexStatement(schema, name, index));
  if (indexes.some(({ valid }) => valid)) return [];
  return [sql`ALTER TABLE ${ident(schema, name)} ADD UNIQUE (${ident(column)})`];
}

/** A column as responses show it, with NOT NULL and the default only if it has them. */
export const shownColumn = ({ name, displayType, comment, notNull, defaultText }: Column): wire.Column => ({
  name,
  type: displayType,
  comment,
  ...(notNull ? { not_null: true } : {}),
  ...(defaultText === null ? {} : { default: defaultText }),
});

/** The comments of a table, to restore after it is created again. */
export const commentsOf = ({ schema, name, comment, columns }: Table): Statement[] => [
  ...(comment === null ? [] : [commentOnTable(schema, name, comment)]),
  ...columns.flatMap((column) =>
    column.comment === null ? [] : [commentOnColumn(schema, name, column.name, column.comment)],
  ),
];

export const commentOnTable = (schema: string, tableName: string, comment: string | null): Statement =>
  sql`COMMENT ON TABLE ${ident(schema, tableName)} IS ${comment ? literal(comment) : trusted('NULL')}`;

export const commentOnColumn = (schema: string, tableName: string, column: string, comment: string | null): Statement =>
  sql`COMMENT ON COLUMN ${ident(schema, tableName, column)} IS ${comment ? literal(comment) : trusted('NULL')}`;
