/**
 * A position in a server's write-ahead log, as a text that clients carry from a write to a read: the cluster, the
 * timeline and the LSN. A replica of the same cluster and timeline that has replayed up to the LSN shows that write. Any
 * other text is a position that no replica has reached.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../contract/errors.js';
import { fixed, PostgresError, type Session, SQLSTATE } from '../pg/index.js';
import type { PooledConnection } from '../tenancy/connections/project-connection-pool.js';
import type { PostgresServer } from '../tenancy/postgres-server.js';
import type { RequestTimer } from './backend-request.js';

/** Maximum wait for a replica to catch up. */
const WAIT_MS = 300;
const CHECK_MS = 10;

/** A check must not wait on a dead connection. */
const RESPONSE_MS = 1_000;

/** The position if the primary cannot be asked: reads after such a write go to the primary. */
export const UNKNOWN_POSITION = 'unknown';

const LSN_DIGITS = 16;

/** LSNs are padded to one length, so that the positions of a timeline sort as texts. */
function position(cluster: string, timeline: number, lsn: string): string {
  const [high = '', low = ''] = lsn.split('/');
  return `${cluster}.${timeline}.${(high + low.padStart(8, '0')).padStart(LSN_DIGITS, '0')}`;
}

/** Not the timeline in the control file: after a promotion, that is the former one until the next checkpoint. */
const INSERTED = fixed(`SELECT system_identifier, left(pg_walfile_name(lsn), 8), lsn
  FROM pg_control_system(), pg_current_wal_insert_lsn() AS lsn`);

/** Queries about to be sent: callers in one turn of the event loop share one. */
const gathered = new WeakMap<PostgresServer, Promise<string>>();

/** The current position; everything committed so far precedes it. Never rejects: the write has already succeeded. */
export function positionOf(server: PostgresServer): Promise<string> {
  const shared = gathered.get(server);
  if (shared !== undefined) return shared;
  const current = new Promise((resolve) => setImmediate(resolve)).then(async () => {
    gathered.delete(server);
    const [cluster, timeline, lsn] = await server.pool.row(INSERTED);
    return position(cluster ?? '', parseInt(timeline ?? '', 16), lsn ?? '');
  });
  const orUnknown = current.catch(() => UNKNOWN_POSITION);
  gathered.set(server, orUnknown);
  return orUnknown;
}

/**
 * A standby reports its timeline as of its last restart point, so after a promotion it seems to be on the former one
 * for a while. Run this in the session that reads: another session may reach another server, or one that has restarted
 * at an earlier position.
 */
const REPLAYED = fixed(`SELECT system_identifier, timeline_id, pg_catalog.pg_last_wal_replay_lsn()
  FROM pg_catalog.pg_control_system(), pg_catalog.pg_control_checkpoint()`);

/** The replica has been promoted, or has not reached the position of a read. */
export class NotReplayed extends Error {}

/**
 * Errors of operations that a hot standby refuses but a primary may allow (Postgres manual, Hot Standby): unlogged
 * tables, transaction ids, locks. The primary decides.
 */
const REFUSED_IN_RECOVERY = new Set<string | undefined>([
  SQLSTATE.FEATURE_NOT_SUPPORTED,
  SQLSTATE.OBJECT_NOT_IN_PREREQUISITE_STATE,
  SQLSTATE.READ_ONLY_SQL_TRANSACTION,
]);

/** A read failed because of the replica: it lags, cannot be reached, is damaged, or canceled it because of a conflict with recovery. */
export function primaryMayAnswer(error: unknown): boolean {
  if (error instanceof NotReplayed) return true;
  if (!(error instanceof EngineError)) return false;
  const sqlstate = error.postgres?.sqlstate;
  return (
    error.code === 'database_unavailable' ||
    error.code === 'data_corrupted' ||
    sqlstate?.startsWith('40') === true ||
    REFUSED_IN_RECOVERY.has(sqlstate)
  );
}

/**
 * Waits, before a read at a replica, until the replica has reached the position.
 * @throws NotReplayed; ConnectionLost
 */
export async function awaitPosition(
  connection: PooledConnection,
  timer: RequestTimer,
  position: string | undefined,
): Promise<void> {
  if (connection.session.wasPromoted) {
    connection.closeAfterUse();
    throw new NotReplayed('The replica was promoted');
  }
  if (position === undefined) return;
  // The wait does not count as time of the statement.
  timer.pause();
  for (const until = performance.now() + WAIT_MS; ; await sleep(CHECK_MS)) {
    const replayed = await replayedBy(connection.session);
    if (areOnOneTimeline(replayed, position) && replayed >= position) break;
    if (!areOnOneTimeline(replayed, position) || performance.now() > until) {
      throw new NotReplayed('The replica has not replayed that far');
    }
  }
  timer.resume();
}

async function replayedBy(session: Session): Promise<string> {
  const [cluster, timeline, lsn] = await session.row(REPLAYED, { timeoutMs: RESPONSE_MS }).catch((error: unknown) => {
    // A managed Postgres may not allow these functions.
    throw error instanceof PostgresError ? new NotReplayed(error.message) : error;
  });
  return position(cluster ?? '', Number(timeline), lsn ?? '');
}

/** Positions of one timeline differ only in the LSN. */
const areOnOneTimeline = (one: string, other: string): boolean =>
  one.length === other.length && one.slice(0, -LSN_DIGITS) === other.slice(0, -LSN_DIGITS);
