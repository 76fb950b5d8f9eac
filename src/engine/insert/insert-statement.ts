/** The INSERTs that store checked records: one text array per column, for any number of rows. */
import type { RecordCells } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import {
  type Fragment,
  ident,
  join,
  readCommandTag,
  type Result,
  sql,
  type Statement,
  trusted,
} from '../../pg/index.js';
import type { Column, Table } from '../catalog/catalog.js';

/** One INSERT and the indices of the records it stores, in the order of its rows. */
export interface BatchInsert {
  readonly statement: Statement;
  readonly records: readonly number[];
}

/**
 * Usually one INSERT. If records omit different columns with defaults, there are several, to be run in one transaction.
 * With `returnIds`, each returns the column `id`, in the order of its `records`.
 * @param distributesTables a distributed table returns rows in any order, so ids need a statement for each record; and without
 * RETURNING, its errors lack an SQLSTATE
 */
export function insertStatements(
  table: Table,
  rows: readonly RecordCells[],
  { returnIds, distributesTables }: { returnIds: boolean; distributesTables: boolean },
): BatchInsert[] {
  const oneByOne = returnIds && distributesTables;
  const groups = oneByOne ? rows.map((_, record) => [record]) : groupsByDefaults(rows, table.columns);
  const nothing = distributesTables && !table.needsInsert ? sql` RETURNING NULL` : sql``;
  const returning = returnIds ? sql` RETURNING ${ident('id')}` : nothing;
  return groups.map((records) => ({
    statement: insertStatement(
      table,
      records.map((record) => rows[record] as RecordCells),
      returning,
    ),
    records,
  }));
}

/** The sum of the counts in the command tags, such as `INSERT 0 250`. */
export const rowsStored = (results: readonly Result[]): number =>
  results.reduce((sum, { tag }) => sum + (readCommandTag(tag).count ?? 0), 0);

/** @throws EngineError invalid_request if the table has no id */
export function requireIds(table: Table): void {
  if (table.columns.some(({ name }) => name === 'id')) return;
  throw new EngineError('invalid_request', `Table ${quoted(table.name)} has no "id" column to return`);
}

/**
 * Groups the indices of records that omit the same columns with defaults, in the order of the first record of each
 * group.
 */
function groupsByDefaults(rows: readonly RecordCells[], columns: readonly Column[]): number[][] {
  const defaulted = [...columns.keys()].filter((index) => columns[index]?.hasDefault);
  const groups = new Map<string, number[]>();
  for (const [record, row] of rows.entries()) {
    const presentColumns = defaulted.filter((index) => row[index] !== undefined).join();
    const group = groups.get(presentColumns);
    if (group === undefined) groups.set(presentColumns, [record]);
    else group.push(record);
  }
  return [...groups.values()];
}

/**
 * Stores the rows in their order, and returns them in the same order. The statement omits columns that no row has, so
 * they take their defaults; in any other column a missing cell is NULL. Everything but the table is named in
 * pg_catalog, since the session's search_path is the project's.
 */
function insertStatement(table: Table, rows: readonly RecordCells[], returning: Fragment): Statement {
  const columns = givenColumns(table, rows);
  const into = columns.length === 0 ? sql`` : sql` (${join(columns.map((index) => columnName(table, index)))})`;
  return sql`INSERT INTO ${ident(table.schema, table.name)}${into} ${sourceRows(table, columns, rows)}${returning}`;
}

export const columnName = ({ columns }: Table, index: number) => ident(columns[index]?.name ?? '');

/** Indices of the columns that at least one row has. */
export const givenColumns = ({ columns }: Table, rows: readonly RecordCells[]): number[] =>
  [...columns.keys()].filter((index) => rows.some((row) => row[index] !== undefined));

/** A SELECT of the rows' cells, in their order. */
export function sourceRows({ columns }: Table, indexes: readonly number[], rows: readonly RecordCells[]): Fragment {
  // Postgres allows rows without columns; an INSERT of them stores only defaults.
  if (indexes.length === 0)
    return sql`SELECT FROM pg_catalog.generate_series(1, CAST(${rows.length} AS pg_catalog.int4))`;
  const aliases = indexes.map((index) => ident(`c${index}`));
  const casts = indexes.map((index) => {
    const alias = ident(`c${index}`);
    return sql`CAST(v.${alias} AS ${trusted(columns[index]?.sqlType ?? '')}) AS ${alias}`;
  });
  const arrays = indexes.map((index) => {
    const cells = rows.map((row) => row[index] ?? null);
    return sql`pg_catalog.unnest(CAST(${cells} AS pg_catalog.text[]))`;
  });
  // ROWS FROM, because unnest of several arrays works only under its unqualified name, and only for up to 100 arrays.
  const numbered = sql`ROWS FROM (${join(arrays)}) WITH ORDINALITY AS v (${join(aliases)}, n)`;
  return sql`SELECT ${join(casts)} FROM ${numbered} ORDER BY v.n`;
}
