/**
 * What shows early that a server is in trouble: how long a commit takes, and its standbys. For `cdp doctor` and
 * metrics.
 */
import { fixed, type Session, sql } from '../../pg/index.js';

export type Asked = Pick<Session, 'query'>;

/** A commit that is flushed as one of rows is. It leaves nothing but its record in the write-ahead log. */
const TINY_COMMIT = fixed(`SELECT pg_logical_emit_message(true, 'cdp', '')`);

/** @returns seconds */
export async function timeOfCommit(server: Asked): Promise<number> {
  const started = performance.now();
  await server.query(TINY_COMMIT);
  return (performance.now() - started) / 1_000;
}

export interface Replication {
  /** Connected ones. */
  readonly standbys: number;
  /**
   * WAL that the slowest of them has not replayed. null: there is none, or the role may not see it
   * (`pg_read_all_stats`).
   */
  readonly lagBytes: number | null;
  /** `synchronous_standby_names` if none of them is connected, so that no commit returns; else null. */
  readonly missing: string | null;
}

/** Of a primary. */
export async function replicationOf(server: Asked): Promise<Replication> {
  // Of standbys that the role may not look at it sees that they are there.
  const [[standbys, lag, missing] = []] = await server.query(sql`
    SELECT count(*), max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)),
      CASE WHEN current_setting('synchronous_commit') NOT IN ('off', 'local')
        AND 0 = count(*) FILTER (WHERE sync_state IS DISTINCT FROM 'async')
        THEN nullif(current_setting('synchronous_standby_names'), '') END
    FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup'`);
  return { standbys: Number(standbys), lagBytes: lag == null ? null : Number(lag), missing: missing ?? null };
}
