/**
 * Settings of the sessions on both sides, so that a value has one text, and no limit of the operator's ends a long
 * COPY.
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
  // Rows keep their order.
  synchronize_seqscans: 'off',
  statement_timeout: '0',
  idle_session_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  transaction_timeout: '0',
};

/** A sequence that has become a view since must not run the project's code with the rights of whoever reads it. */
const READING = { restrict_nonsystem_relation_kind: 'view, foreign-table' };

/** A function may name what is made after it. */
const WRITING = { check_function_bodies: 'off' };

/** Those that this version of Postgres has. */
export async function set(session: Session, kind: 'reading' | 'writing'): Promise<void> {
  const wanted = Object.entries({ ...SETTINGS, ...(kind === 'reading' ? READING : WRITING) });
  await session.query(
    sql`SELECT pg_catalog.set_config(s.name, wanted.value, false)
        FROM ROWS FROM (pg_catalog.unnest(${wanted.map(([name]) => name)}::text[]),
          pg_catalog.unnest(${wanted.map(([, value]) => value)}::text[])) AS wanted (name, value)
        JOIN pg_catalog.pg_settings s ON s.name = wanted.name`,
  );
}
