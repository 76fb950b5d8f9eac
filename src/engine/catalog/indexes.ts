/** Reads the indexes of a table from the system catalogs; as in `catalog.ts`, names are qualified and types exact. */
import type { Index } from '../../contract/wire/indexes.js';
import { type Fragment, ident, join, type Row, sql, type Statement } from '../../pg/index.js';
import { schemaOid } from './catalog.js';

export interface FoundIndex extends Index {
  /** Whether the index belongs to a constraint of the same name, and is dropped with it. */
  readonly backsConstraint: boolean;
}

/** Not pg_get_indexdef(), which waits for locks on the table. */
function selectIndexes(schema: string, tableName: string, which: Fragment): Statement {
  return sql`
    SELECT x.relname,
      pg_catalog.to_json(ARRAY(
        SELECT a.attname::pg_catalog.text
        FROM pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY AS k (attnum, place)
        LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE k.place <= i.indnkeyatts ORDER BY k.place)),
      i.indisunique, i.indisprimary, i.indpred IS NOT NULL, i.indisvalid,
      EXISTS (SELECT FROM pg_catalog.pg_constraint n
        WHERE n.conindid = i.indexrelid AND n.contype IN ('p', 'u', 'x'))
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_index i ON i.indrelid = c.oid
    JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
    WHERE c.relnamespace = ${schemaOid(schema)} AND c.relname = ${tableName} AND ${which}
    ORDER BY i.indisprimary DESC, x.relname`;
}

export const indexesOf = (schema: string, tableName: string): Statement => selectIndexes(schema, tableName, sql`true`);

/** Indexes that this transaction has created. */
export const newIndexesOf = (schema: string, tableName: string): Statement =>
  selectIndexes(schema, tableName, sql`x.xmin = pg_catalog.pg_current_xact_id()::pg_catalog.xid`);

export const readIndexes = (rows: readonly Row[]): FoundIndex[] =>
  rows.map(([name, columns, unique, primary, partial, valid, backsConstraint]) => ({
    name: name ?? '',
    columns: JSON.parse(columns ?? '[]') as (string | null)[],
    unique: unique === 't',
    primary: primary === 't',
    partial: partial === 't',
    valid: valid === 't',
    backsConstraint: backsConstraint === 't',
  }));

/** The number of duplicate values in the columns, and the number of rows with the most frequent one. */
export const duplicatesIn = (schema: string, tableName: string, columns: readonly string[]): Statement => {
  const names = columns.map((column) => ident(column));
  const conditions = names.map((name) => sql`${name} IS NOT NULL`);
  return sql`SELECT pg_catalog.count(*), pg_catalog.max(d.rows) FROM (
    SELECT pg_catalog.count(*) AS rows FROM ${ident(schema, tableName)} WHERE ${join(conditions, ' AND ')}
    GROUP BY ${join(names)} HAVING pg_catalog.count(*) > 1::pg_catalog.int8) d`;
};
