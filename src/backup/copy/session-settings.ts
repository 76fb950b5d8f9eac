/**
 * Settings of the sessions on both sides. They give each value one text format, and remove the operator's limits, which
 * could end a long COPY.
 */
import { type Session, sql } from '../../pg/index.js';

const SETTINGS = {
  DateStyle: 'ISO',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  bytea_output: 'hex',
  extra_float_digits: '3',
  lc_monetary: 'C',
  xmloption: 'content',
  // Keeps the order of rows.
  synchronize_seqscans: 'off',
  statement_timeout: '0',
  idle_session_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  transaction_timeout: '0',
};

/**
 * If a sequence is replaced by a view before it is read, the view must not run the project's code with the reader's
 * rights.
 */
const READING = { restrict_nonsystem_relation_kind: 'view, foreign-table' };

/** The body of a function may refer to objects that are created later. */
const WRITING = { check_function_bodies: 'off' };

/** Sets those settings that this version of Postgres has. */
export async function set(session: Session, kind: 'reading' | 'writing'): Promise<void> {
  const wanted = Object.entries({ ...SETTINGS, ...(kind === 'reading' ? READING : WRITING) });
  await session.query(
    sql`SELECT pg_catalog.set_config(s.name, wanted.value, false)
        FROM ROWS FROM (pg_catalog.unnest(${wanted.map(([name]) => name)}::text[]),
          pg_catalog.unnest(${wanted.map(([, value]) => value)}::text[])) AS wanted (name, value)
        JOIN pg_catalog.pg_settings s ON s.name = wanted.name`,
  );
}
