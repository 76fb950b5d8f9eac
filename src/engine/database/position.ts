/**
 * How far a server's write-ahead log has come, as a text that clients carry from a write to a read: the cluster, the
 * timeline and the LSN. A replica of the same cluster and timeline that has replayed up to there shows that write.
 * Whatever else a text says, no replica has reached it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { fixed, PostgresError, type Session } from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import type { Server } from '../../tenancy/tenancy.js';
import type { Clock } from '../limits/deadline.js';

/** A replica that is farther behind is not waited for. */
const WAIT_MS = 300;
const CHECK_MS = 10;

/** A check must not wait on a connection that is dead. */
const ANSWER_MS = 1_000;

/** If the primary does not say: reads after such a write go there. */
const UNKNOWN = 'unknown';

const LSN_DIGITS = 16;

/** LSNs of one length, so that the positions of one timeline have the order of their texts. */
function position(cluster: string, timeline: number, lsn: string): string {
  const [high = '', low = ''] = lsn.split('/');
  return `${cluster}.${timeline}.${(high + low.padStart(8, '0')).padStart(LSN_DIGITS, '0')}`;
}

/** The timeline of the control file would be that of before a promotion until the next checkpoint. */
const INSERTED = fixed(`SELECT system_identifier, left(pg_walfile_name(lsn), 8), lsn
  FROM pg_control_system(), pg_current_wal_insert_lsn() AS lsn`);

/** Questions that are about to be sent: all of one turn of the event loop share one. */
const gathered = new WeakMap<Server, Promise<string>>();

/** What was committed before is before it. Never rejects: the write has been done. */
export function positionOf(server: Server): Promise<string> {
  const shared = gathered.get(server);
  if (shared !== undefined) return shared;
  const asked = new Promise((resolve) => setImmediate(resolve)).then(async () => {
    gathered.delete(server);
    const [[cluster, timeline, lsn] = []] = await server.pool.query(INSERTED);
    return position(cluster ?? '', parseInt(timeline ?? '', 16), lsn ?? '');
  });
  const known = asked.catch(() => UNKNOWN);
  gathered.set(server, known);
  return known;
}

/**
 * A standby tells its timeline only as of its last restart point. Until then, after a promotion, it seems to be on the
 * former one. In the session that reads: its server may be another, or have restarted at an earlier position, for any
 * other.
 */
const REPLAYED = fixed(`SELECT system_identifier, timeline_id, pg_catalog.pg_last_wal_replay_lsn()
  FROM pg_catalog.pg_control_system(), pg_catalog.pg_control_checkpoint()`);

/** The replica is no longer one, or has not reached the position of a read. */
export class NotReplayed extends Error {}

/**
 * Before a read at a replica: waits until the connection shows what was written before the position.
 * @throws NotReplayed; ConnectionLost
 */
export async function awaitPosition(lease: Lease, clock: Clock, wanted: string | undefined): Promise<void> {
  if (lease.session.wasPromoted) {
    lease.closeAfterUse();
    throw new NotReplayed('The replica was promoted');
  }
  if (wanted === undefined) return;
  // The statement's time does not run yet.
  clock.pause();
  for (const until = performance.now() + WAIT_MS; ; await sleep(CHECK_MS)) {
    const found = await replayedBy(lease.session);
    if (isOfOneTimeline(found, wanted) && found >= wanted) break;
    if (!isOfOneTimeline(found, wanted) || performance.now() > until) {
      throw new NotReplayed('The replica has not replayed that far');
    }
  }
  clock.resume();
}

async function replayedBy(session: Session): Promise<string> {
  const [[cluster, timeline, lsn] = []] = await session
    .query(REPLAYED, { timeoutMs: ANSWER_MS })
    .catch((error: unknown) => {
      // A managed Postgres may not tell.
      throw error instanceof PostgresError ? new NotReplayed(error.message) : error;
    });
  return position(cluster ?? '', Number(timeline), lsn ?? '');
}

/** Positions of one timeline are the same but for the LSN. */
const isOfOneTimeline = (one: string, other: string): boolean =>
  one.length === other.length && one.slice(0, -LSN_DIGITS) === other.slice(0, -LSN_DIGITS);
