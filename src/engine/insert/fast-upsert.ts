/**
 * The upsert of the fast path: one INSERT … ON CONFLICT of an encoded batch, which takes an array for each column. It
 * accepts batches whose records have the same columns and change no row twice; others take the checked path.
 */
import type { EncodedBatch } from '../../codec/index.js';
import { type Fragment, ident, join, sql, type Step, trusted } from '../../pg/index.js';
import { type Column, POSTGRES_TYPES, type Table } from '../catalog/catalog.js';
import { columnName } from './insert-statement.js';
import { IS_NEW, onConflict, type UpsertRule } from './upsert.js';

/**
 * Returns the number of rows inserted, and of all rows stored. Rows are sorted by key, so that concurrent requests lock
 * them in the same order, and within a key by their order in the batch.
 * @returns null: the batch needs the checked path
 */
export function fastUpsert(table: Table, rows: EncodedBatch, { columns: key, resolution }: UpsertRule): Step | null {
  const given = rows.columns;
  const isMissing = (column: Column, index: number) => !column.isId && !given.includes(index);
  if (resolution === 'replace' && table.columns.some(isMissing)) return null;
  const columns = key.map((name) => table.columns.findIndex((column) => column.name === name));
  const params = rows.columnArrays(table.columns);
  if (params === null || columns.some((index) => !given.includes(index))) return null;

  const names = join(given.map((index) => columnName(table, index)));
  const alias = (index: number) => sql`v.${ident(`c${index}`)}`;
  const arrays = given.map((index, i) => {
    const { type = null } = table.columns[index] ?? {};
    return trusted(`pg_catalog.unnest($${i + 1}::${type === null ? 'pg_catalog.uuid' : POSTGRES_TYPES[type]}[])`);
  });
  const aliases = join([...given.map((index) => ident(`c${index}`)), ident('n')]);
  const order = join([...columns.map((index) => sorted(table, index, alias(index))), sql`v.n`]);
  const clause = onConflict(table, given, { columns, identifying: new Set(['id']) }, resolution);
  const { text } = sql`WITH result AS (
      INSERT INTO ${ident(table.schema, table.name)} AS stored (${names})
      SELECT ${join(given.map(alias))} FROM ROWS FROM (${join(arrays)}) WITH ORDINALITY AS v (${aliases})
      ORDER BY ${order} ${clause} RETURNING ${IS_NEW} AS is_new)
    SELECT pg_catalog.count(*) FILTER (WHERE is_new), pg_catalog.count(*) FROM result`;
  return { text, params };
}

/**
 * A sort expression with the collation of the column: under a nondeterministic collation, different texts may be the
 * same key.
 */
function sorted(table: Table, index: number, value: Fragment): Fragment {
  if (table.columns[index]?.type !== 'TEXT') return value;
  const { schema, name } = table;
  return sql`COALESCE(${value}, (SELECT t.${columnName(table, index)} FROM ${ident(schema, name)} AS t WHERE false))`;
}
