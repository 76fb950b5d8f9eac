/** Detects that a project's schema may have changed. This takes milliseconds, and needs no dump. */
import { ident, join, type Session, sql } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { streamedTables } from './obstacles.js';

/** Columns of pg_class that change when rows do, or later by VACUUM. */
const VOLATILE = [
  ...['relfilenode', 'relpages', 'reltuples', 'relallvisible', 'relallfrozen', 'relfrozenxid', 'relminmxid'],
  ...['relhasindex', 'relhasrules', 'relhastriggers', 'relhassubclass'],
];

/**
 * The service's tables, which projects cannot change. A dump grants and revokes rights on them, which rewrites the rows
 * of columns that have their own rights.
 */
const BOOKKEEPING = sql`SELECT oid FROM pg_class WHERE relnamespace = '_cdp'::regnamespace`;

/**
 * Returns a hash over all catalogs, which differs after any change of the schema. It may also differ without one, for
 * instance after a temporary table was created. A dump grants rights to its role and revokes them, so pg_class and
 * pg_proc are hashed by content, other catalogs by the versions of their rows.
 */
export async function catalogsOf(session: Session): Promise<string> {
  const catalogs = await session.query(sql`SELECT relname FROM pg_class
    WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' AND NOT relisshared
      AND relname NOT IN ('pg_statistic', 'pg_statistic_ext_data', 'pg_largeobject')
      AND has_table_privilege(oid, 'SELECT') ORDER BY 1`);
  const rowsOf = ([name]: (string | null)[]) => {
    const row = ['pg_class', 'pg_proc'].includes(name ?? '')
      ? sql`(to_jsonb(c) - ${VOLATILE}::text[])::text`
      : sql`ctid::text || ' ' || xmin`;
    const kept = name === 'pg_attribute' ? sql`WHERE attrelid NOT IN (${BOOKKEEPING})` : sql``;
    return sql`SELECT ${name ?? ''} || ' ' || count(*) || ' ' || sum(hashtextextended(${row}, 0)) AS one FROM ${ident(name ?? '')} c ${kept}`;
  };
  const [text] = await session.row(
    sql`SELECT md5(string_agg(one, ' ' ORDER BY one)) FROM (${join(catalogs.map(rowsOf), ' UNION ALL ')}) AS all_of_them`,
  );
  return text ?? '';
}

/**
 * Returns a hash over the columns of all streamed tables, which differs after any change of them or of the set of
 * tables. If a column was changed and then changed back, parts of its values may be lost, but the stream does not show
 * that.
 */
export async function columnsOf(session: Session, placement: Placement): Promise<string> {
  const [text] = await session.row(sql`
    SELECT md5(string_agg(concat_ws(' ', attrelid, attnum, a.xmin), ',' ORDER BY attrelid, attnum))
    FROM pg_attribute a WHERE attrelid IN (SELECT c.oid FROM ${streamedTables(placement)}) AND attrelid NOT IN (${BOOKKEEPING})`);
  return text ?? '';
}
