/** The INSERT that stores checked cells: one text array per column, whatever the number of rows. */
import { ident, join, sql, statement, trusted, type Fragment, type Statement } from '../../postgres/sql.js';
import type { ColumnShape, TableShape } from '../../postgres/catalog/table-shape.js';
import { arrayLiteral, quotedElement } from './array-literal.js';

/** A row's cells by the position of their column in the table's shape; undefined where the record has no such key. */
export type Row = readonly (string | null | undefined)[];

/**
 * Stores the rows in their order; with `returnIds` the result's only column is their `id`, in the same order.
 * A column that none of the rows has stays out of the statement, so it takes its default; in any other column a missing
 * cell is NULL. Everything but the table is named in pg_catalog, since the session's search_path is the project's.
 */
export function insertStatement(table: TableShape, rows: readonly Row[], returnIds: boolean): Statement {
  const used = [...table.columns.entries()].filter(([index]) => rows.some((row) => row[index] !== undefined));
  const names = used.map(([, column]) => ident(column.name));
  const into = used.length === 0 ? sql`` : sql` (${join(names)})`;
  const source = used.length === 0 ? emptyRows(rows.length) : cellRows(used, rows);
  const returning = returnIds ? sql` RETURNING ${ident('id')}` : sql``;
  return statement(sql`INSERT INTO ${ident(table.schema, table.name)}${into} ${source}${returning}`);
}

/** Postgres has rows without any column, and an INSERT of them stores defaults only. */
function emptyRows(count: number): Fragment {
  return sql`SELECT FROM pg_catalog.generate_series(1, CAST(${count} AS pg_catalog.int4))`;
}

function cellRows(used: readonly (readonly [number, ColumnShape])[], rows: readonly Row[]): Fragment {
  const aliases = used.map(([index]) => ident(`c${index}`));
  const casts = used.map(([index, column]) => sql`CAST(v.${ident(`c${index}`)} AS ${trusted(column.sqlType)})`);
  const arrays = used.map(([index]) => {
    const cells = arrayLiteral(rows.map((row) => quotedElement(row[index] ?? null)));
    return sql`pg_catalog.unnest(CAST(${cells} AS pg_catalog.text[]))`;
  });
  // ROWS FROM, because unnest of several arrays exists only under its unqualified name, and for up to 100 of them.
  const numbered = sql`ROWS FROM (${join(arrays)}) WITH ORDINALITY AS v (${join(aliases)}, n)`;
  return sql`SELECT ${join(casts)} FROM ${numbered} ORDER BY v.n`;
}
