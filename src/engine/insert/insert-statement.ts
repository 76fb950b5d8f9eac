/** The INSERTs that store checked records: one text array per column, whatever the number of rows. */
import type { Row } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import { type Fragment, ident, join, sql, type Statement, trusted } from '../../pg/index.js';
import type { Column, Table } from '../catalog/catalog.js';

/** One INSERT and the indices of the records it stores, in the order of its rows. */
export interface BatchInsert {
  readonly statement: Statement;
  readonly records: readonly number[];
}

/**
 * Normally one INSERT; several, to run in one transaction, if records differ in which columns with a default they
 * leave out. With `returnIds` each returns the column `id`, in the order of its `records`.
 */
export function insertStatements(table: Table, rows: readonly Row[], returnIds: boolean): BatchInsert[] {
  return groupsByDefaults(rows, table.columns).map((records) => ({
    statement: insertStatement(
      table,
      records.map((record) => rows[record] as Row),
      returnIds,
    ),
    records,
  }));
}

/** @throws EngineError invalid_request: ids are asked of a table that has none */
export function requireIds(table: Table): void {
  if (table.columns.some(({ name }) => name === 'id')) return;
  throw new EngineError('invalid_request', `Table ${quoted(table.name)} has no "id" column to return`);
}

/** Indices of records that leave out the same columns with a default; the groups in the order of their first record. */
function groupsByDefaults(rows: readonly Row[], columns: readonly Column[]): number[][] {
  const defaulted = [...columns.keys()].filter((index) => columns[index]?.hasDefault);
  const groups = new Map<string, number[]>();
  for (const [record, row] of rows.entries()) {
    const given = defaulted.filter((index) => row[index] !== undefined).join();
    const group = groups.get(given);
    if (group === undefined) groups.set(given, [record]);
    else group.push(record);
  }
  return [...groups.values()];
}

/**
 * Stores the rows in their order; with `returnIds` the result's only column is their `id`, in the same order.
 * A column that none of the rows has stays out of the statement, so it takes its default; in any other column a missing
 * cell is NULL. Everything but the table is named in pg_catalog, since the session's search_path is the project's.
 */
export function insertStatement(table: Table, rows: readonly Row[], returnIds: boolean): Statement {
  const used = [...table.columns.entries()].filter(([index]) => rows.some((row) => row[index] !== undefined));
  const names = used.map(([, column]) => ident(column.name));
  const into = used.length === 0 ? sql`` : sql` (${join(names)})`;
  const source = used.length === 0 ? emptyRows(rows.length) : cellRows(used, rows);
  const returning = returnIds ? sql` RETURNING ${ident('id')}` : sql``;
  return sql`INSERT INTO ${ident(table.schema, table.name)}${into} ${source}${returning}`;
}

/** Postgres has rows without any column, and an INSERT of them stores defaults only. */
function emptyRows(count: number): Fragment {
  return sql`SELECT FROM pg_catalog.generate_series(1, CAST(${count} AS pg_catalog.int4))`;
}

function cellRows(used: readonly (readonly [number, Column])[], rows: readonly Row[]): Fragment {
  const aliases = used.map(([index]) => ident(`c${index}`));
  const casts = used.map(([index, column]) => sql`CAST(v.${ident(`c${index}`)} AS ${trusted(column.sqlType)})`);
  const arrays = used.map(([index]) => {
    const cells = rows.map((row) => row[index] ?? null);
    return sql`pg_catalog.unnest(CAST(${cells} AS pg_catalog.text[]))`;
  });
  // ROWS FROM, because unnest of several arrays exists only under its unqualified name, and for up to 100 of them.
  const numbered = sql`ROWS FROM (${join(arrays)}) WITH ORDINALITY AS v (${join(aliases)}, n)`;
  return sql`SELECT ${join(casts)} FROM ${numbered} ORDER BY v.n`;
}
