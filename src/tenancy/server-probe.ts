/** Tests a server before projects live there. Leaves nothing behind. */
import { randomInt } from 'node:crypto';
import { fixed, type ServerAddress, type Session, sql, trusted, withSession } from '../pg/index.js';
import { withServiceSession } from './service-pool.js';

const VERSION_MS = 5_000;

/**
 * The result of `version()`. Without the settings of the service's sessions, which a server other than Postgres may
 * refuse.
 */
export const versionText = (address: ServerAddress): Promise<string> =>
  withSession({ ...address, timeoutMs: VERSION_MS }, async (session) => {
    const [text] = await session.row(fixed('SELECT version()'));
    return text ?? '';
  });

/** Whether an advisory lock of one session excludes another, as the service requires. */
export const locksExclude = (address: ServerAddress): Promise<boolean> =>
  inService(address, (first) =>
    inService(address, async (second) => {
      // Different from the service's own locks, which have small numbers or hashes.
      const key = trusted(String(randomInt(2 ** 47)));
      await first.query(sql`SELECT pg_advisory_lock(${key})`);
      const [isFree] = await second.row(sql`SELECT pg_try_advisory_lock(${key})`);
      return isFree === 'f';
    }),
  );

/** The start time of its postmaster in microseconds, which distinguishes servers. */
export const startedAt = (address: ServerAddress): Promise<string> =>
  inService(address, async (session) => {
    const [time] = await session.row(fixed('SELECT pg_postmaster_start_time()'));
    return time ?? '';
  });

export const databasesAt = (address: ServerAddress): Promise<Set<string>> =>
  inService(address, async (session) => {
    const rows = await session.query(fixed('SELECT datname FROM pg_database'));
    return new Set(rows.map(([name]) => name ?? ''));
  });

const ROUND_TRIPS = 5;

export interface Reach {
  /** Median of a few round trips. */
  readonly latencyMs: number;
  /** Sessions of clients, and of workers that count as clients. */
  readonly connectionsUsed: number;
  /** Whether the database of the URL has the extension. */
  readonly hasCitus: boolean;
}

export const reachOf = (address: ServerAddress): Promise<Reach> =>
  inService(address, async (session) => {
    const [used, citus] = await session.row(
      fixed(`SELECT (SELECT sum(numbackends) FROM pg_stat_database),
        EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')`),
    );
    const times = [];
    for (let i = 0; i < ROUND_TRIPS; i++) {
      const started = performance.now();
      await session.query(fixed('SELECT 1'));
      times.push(performance.now() - started);
    }
    const latencyMs = times.sort((a, b) => a - b)[Math.floor(ROUND_TRIPS / 2)] ?? 0;
    return { latencyMs, connectionsUsed: Number(used), hasCitus: citus === 't' };
  });

interface Wal {
  /** Postgres's identifier of the cluster, which its standbys share. */
  readonly cluster: string;
  readonly isStandby: boolean;
  /** The last position written, or on a standby, replayed. */
  readonly lsn: bigint;
}

export const walOf = (address: ServerAddress): Promise<Wal> =>
  inService(address, async (session) => {
    const [cluster, isStandby, lsn] = await session.row(
      fixed(`SELECT system_identifier, pg_is_in_recovery(), pg_wal_lsn_diff('0/0',
        CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END)
        FROM pg_control_system()`),
    );
    return { cluster: cluster ?? '', isStandby: isStandby === 't', lsn: -BigInt(lsn ?? 0) };
  });

const inService = <T>(address: ServerAddress, work: (session: Session) => Promise<T>): Promise<T> =>
  withServiceSession(address, address.database, work);
