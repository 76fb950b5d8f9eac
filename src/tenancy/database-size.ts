/**
 * How much disk a project's database takes: tables, indexes, large objects and temporary tables, in all tablespaces.
 * The write-ahead log and the temporary files of sorts are the server's and do not count.
 */
import pg from 'pg';
import { serviceWork } from './service-work.js';
import { INVALID_CATALOG_NAME, UNDEFINED_FILE } from '../postgres/sqlstate.js';

/** A database that is being dropped, or whose files go away while they are counted. */
const GONE = new Set([INVALID_CATALOG_NAME, UNDEFINED_FILE]);

/**
 * Bytes of one database: 1 to 2 ms, and some 30 ms more for each thousand of tables. What running transactions have
 * written is in it.
 * @param pool of the service's own role, which may ask for the size of any project's database
 * @returns null if there is no such database
 * @throws EngineError database_unavailable
 */
export function databaseSize(pool: pg.Pool, database: string): Promise<number | null> {
  return serviceWork(async () => {
    try {
      const { rows } = await pool.query<{ bytes: string }>('SELECT pg_database_size($1::name) AS bytes', [database]);
      return rows[0] === undefined ? null : Number(rows[0].bytes);
    } catch (error) {
      if (error instanceof pg.DatabaseError && GONE.has(error.code ?? '')) return null;
      throw error;
    }
  });
}
