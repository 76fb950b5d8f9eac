/** Every relation that does not belong to the project: its rows, and how Postgres would read them. */
import type pg from 'pg';
import type { Probe } from './probe.js';

export async function relationProbes(superuser: pg.Client): Promise<Probe[]> {
  const { rows } = await superuser.query<{ name: string }>(
    `SELECT format('%I.%I', n.nspname, c.relname) AS name
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('pg_catalog', 'information_schema', 'pg_toast', '_cdp') AND c.relkind IN ('r', 'v', 'm', 't', 'S')
     ORDER BY 1`,
  );
  return rows.flatMap(({ name }) => [
    { name: `rows of ${name}`, sql: `SELECT * FROM ${name}` },
    { name: `plan of ${name}`, sql: `EXPLAIN (VERBOSE, SETTINGS) SELECT * FROM ${name}` },
  ]);
}
