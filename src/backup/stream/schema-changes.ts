/** What tells that a project's schema may have been changed, without a dump: reading it takes milliseconds. */
import { ident, join, type Session, sql } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { streamedTables } from './obstacles.js';

/** Columns of pg_class that change with the rows of a table, and as late as VACUUM likes. */
const VOLATILE = [
  ...['relfilenode', 'relpages', 'reltuples', 'relallvisible', 'relallfrozen', 'relfrozenxid', 'relminmxid'],
  ...['relhasindex', 'relhasrules', 'relhastriggers', 'relhassubclass'],
];

/**
 * Tables of the service, which no project can change. A dump changes the rows of their columns, since it takes rights
 * to a table from its role, and some columns have rights of their own.
 */
const BOOKKEEPING = sql`SELECT oid FROM pg_class WHERE relnamespace = '_cdp'::regnamespace`;

/**
 * Of the rows of all catalogs: another one after any change of a schema, and after some that are none, as of a
 * temporary table. Of those that a dump changes there and back, since it grants rights to its role, what they say.
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
  const [[text] = []] = await session.query(
    sql`SELECT md5(string_agg(one, ' ' ORDER BY one)) FROM (${join(catalogs.map(rowsOf), ' UNION ALL ')}) AS all_of_them`,
  );
  return text ?? '';
}

/**
 * Of the columns of all tables whose changes are streamed: another one after any change of them, and of the tables that
 * there are. A table that was changed there and back may have lost parts of its values, and the stream says nothing of
 * that.
 */
export async function columnsOf(session: Session, placement: Placement): Promise<string> {
  const [[text] = []] = await session.query(sql`
    SELECT md5(string_agg(concat_ws(' ', attrelid, attnum, a.xmin), ',' ORDER BY attrelid, attnum))
    FROM pg_attribute a WHERE attrelid IN (SELECT c.oid FROM ${streamedTables(placement)}) AND attrelid NOT IN (${BOOKKEEPING})`);
  return text ?? '';
}
