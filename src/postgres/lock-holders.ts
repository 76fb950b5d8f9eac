/** Who holds how much of the server's lock table (Postgres manual 53.13, `pg_locks`). */
import type pg from 'pg';
import type { Absence } from './absence.js';
import type { ServerAddress } from './server.js';
import { servicePool } from './service-pool.js';
import { INSUFFICIENT_PRIVILEGE, OUT_OF_MEMORY } from './sqlstate.js';

/**
 * An answer that takes longer will not come. A busy machine may take seconds for one, and to give the connection up
 * would leave nobody who can look: where the lock table is full, no other can log in.
 */
const ANSWER_MS = 15_000;

/** How often the connection is tried, so that one that broke is there again before it is needed. */
const TRY_MS = 5_000;

const LOOK = {
  text: 'SELECT pid, count(*)::integer AS held FROM pg_locks WHERE NOT fastpath AND pid IS NOT NULL GROUP BY pid',
  query_timeout: ANSWER_MS,
} as pg.QueryConfig;

const TRY = { text: 'SELECT 1', query_timeout: ANSWER_MS } as pg.QueryConfig;

/** By the function alone: the view looks into catalogs that all databases share, whose locks need entries of a full table. */
const END_AUTOVACUUM = {
  text: `SELECT pg_terminate_backend(pid, 1000) AS ended FROM pg_stat_get_activity($1)
    WHERE backend_type = 'autovacuum worker'`,
  query_timeout: ANSWER_MS,
} as pg.QueryConfig;

/** The role lacks the right; or its rights cannot be looked at, since that needs entries of a full table. */
const MAY_NOT = new Set([INSUFFICIENT_PRIVILEGE, OUT_OF_MEMORY]);

export class LockHolders {
  /**
   * A connection of its own that stays open: where the lock table is full nobody can log in. What it asks takes no place
   * in the table (manual 13.3, fast-path locks).
   */
  private readonly pool: pg.Pool;
  private readonly trying: NodeJS.Timeout;

  constructor(address: ServerAddress, absence: Absence) {
    this.pool = servicePool(address, 1, { kept: 1, absence });
    this.trying = setInterval(() => {
      // The next try comes soon.
      this.pool.query(TRY).catch(() => {});
    }, TRY_MS);
    this.trying.unref();
  }

  /**
   * Logs in, so that the connection is there when it is needed.
   * @returns for how many locks the table is made (manual 19.12). Predicate locks of serializable transactions have a table
   * of their own and are counted with the others: the smaller of the two tables counts.
   */
  async open(): Promise<number> {
    const { rows } = await this.pool.query<{ capacity: number }>(
      `SELECT least(current_setting('max_locks_per_transaction')::integer,
           current_setting('max_pred_locks_per_transaction')::integer)
         * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer)
         AS capacity`,
    );
    return rows[0]?.capacity ?? 0;
  }

  /** Number of locks in the shared table, by process id. */
  async byProcess(): Promise<Map<number, number>> {
    const { rows } = await this.pool.query<{ pid: number; held: number }>(LOOK);
    return new Map(rows.map(({ pid, held }) => [pid, held]));
  }

  /**
   * Ends a process of autovacuum, which runs functions of projects' indexes (`autovacuum-watch.ts`).
   * @returns false where it is another process, or the service's role may not end it
   */
  async endAutovacuum(pid: number): Promise<boolean> {
    try {
      const { rows } = await this.pool.query<{ ended: boolean }>({ ...END_AUTOVACUUM, values: [pid] });
      return rows[0]?.ended ?? false;
    } catch (error) {
      if (MAY_NOT.has((error as pg.DatabaseError).code ?? '')) return false;
      throw error;
    }
  }

  close(): Promise<void> {
    clearInterval(this.trying);
    return this.pool.end();
  }
}
