/** Early signs of trouble on a server: the time of a commit, and its standbys. For `cdp doctor` and metrics. */
import { fixed, type Session, sql } from '../../pg/index.js';

export type Asked = Pick<Session, 'query' | 'row'>;

/** A commit that is flushed like one of rows, but leaves only a record in the write-ahead log. */
const TINY_COMMIT = fixed(`SELECT pg_logical_emit_message(true, 'cdp', '')`);

/** @returns seconds */
export async function timeOfCommit(server: Asked): Promise<number> {
  const started = performance.now();
  await server.query(TINY_COMMIT);
  return (performance.now() - started) / 1_000;
}

export interface Replication {
  /** Connected standbys. */
  readonly standbys: number;
  /**
   * Bytes of WAL that the slowest standby has not replayed. null: there is none, or the role may not see it
   * (`pg_read_all_stats`).
   */
  readonly lagBytes: number | null;
  /** `synchronous_standby_names` if none of them is connected, so that no commit returns; otherwise null. */
  readonly missing: string | null;
}

/** The replication state of a primary. */
export async function replicationOf(server: Asked): Promise<Replication> {
  // A role without the right to see details of a standby still sees its row.
  const [standbys, lag, missing] = await server.row(sql`
    SELECT count(*), max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)),
      CASE WHEN current_setting('synchronous_commit') NOT IN ('off', 'local')
        AND 0 = count(*) FILTER (WHERE sync_state IS DISTINCT FROM 'async')
        THEN nullif(current_setting('synchronous_standby_names'), '') END
    FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup'`);
  return { standbys: Number(standbys), lagBytes: lag == null ? null : Number(lag), missing: missing ?? null };
}
