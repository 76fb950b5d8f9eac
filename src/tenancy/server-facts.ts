/** What the service asks a server about itself: before projects live there, for `cdp doctor`, and later. Changes nothing. */
import { randomInt } from 'node:crypto';
import {
  fixed,
  type Pool,
  PostgresError,
  type Row,
  type ServerAddress,
  type Session,
  sql,
  SQLSTATE,
  trusted,
  withSession,
} from '../pg/index.js';
import { publicDatabases } from './database-privileges.js';
import { appliedVersion } from './migrations/migrate.js';
import { withServiceSession } from './service-pool.js';
import { serviceWork } from './postgres-errors.js';

export interface ServerInspection {
  /** Major version, such as 18. */
  readonly major: number;
  /** For people, such as `18.1 (Debian 18.1-1)`. */
  readonly version: string;
  readonly isSuperuser: boolean;
  /** May create databases and roles. */
  readonly canProvision: boolean;
  /** May create the control schema, or the schema exists. */
  readonly canCreateSchema: boolean;
  /** By name, without those that this server does not have. */
  readonly settings: ReadonlyMap<string, ServerSetting>;
  /** Connections available to ordinary roles. */
  readonly connections: number;
  /** Whether this connection is encrypted, or does not leave the machine. */
  readonly isPrivate: boolean;
  /** Milliseconds by which the server's clock is ahead of ours. */
  readonly clockAheadMs: number;
  /** Version of the control schema; 0 if there is none. */
  readonly controlVersion: number;
  /** The database of the address and those of initdb, as far as any role may connect to them. */
  readonly publicDatabases: readonly string[];
}

/** A row of the view `pg_settings`. */
export interface ServerSetting {
  readonly value: string;
  readonly needsRestart: boolean;
  /** The values of an enum; null: it is not one. */
  readonly allowed: readonly string[] | null;
}

/** @throws EngineError database_unavailable */
export function inspectServer(address: ServerAddress): Promise<ServerInspection> {
  return serviceWork(() =>
    withServiceSession(address, address.database, async (session) => {
      const settings = await session.query(
        sql`SELECT name, setting, context = 'postmaster', array_to_string(enumvals, ',') FROM pg_settings`,
      );
      const before = Date.now();
      const [row] = await session.query(sql`
        SELECT current_setting('server_version_num'), current_setting('server_version'), rolsuper,
          rolsuper OR (rolcreatedb AND rolcreaterole),
          current_setting('max_connections')::integer
            - current_setting('superuser_reserved_connections')::integer
            - coalesce(current_setting('reserved_connections', true)::integer, 0),
          inet_client_addr() IS NULL OR inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1'
            OR coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
          extract(epoch FROM clock_timestamp())::float8 * 1000,
          has_database_privilege(current_database(), 'CREATE') OR to_regnamespace('cdp') IS NOT NULL
        FROM pg_roles WHERE rolname = current_user`);
      const answered = Date.now();
      if (row === undefined) throw new Error('The role of the service is not in pg_roles');
      const [number, version, superuser, provisions, connections, isPrivate, nowMs, createsSchema] = row;
      return {
        major: Math.floor(Number(number) / 10_000),
        version: version ?? '',
        isSuperuser: superuser === 't',
        canProvision: provisions === 't',
        canCreateSchema: createsSchema === 't',
        settings: new Map(settings.map(settingOf)),
        connections: Number(connections),
        isPrivate: isPrivate === 't',
        // The server read its clock at some moment in between.
        clockAheadMs: Number(nowMs) - (before + answered) / 2,
        controlVersion: await appliedVersion(session, 'cdp'),
        publicDatabases: await publicDatabases(session),
      };
    }),
  );
}

const settingOf = ([name, value, needsRestart, allowed]: Row): [string, ServerSetting] => [
  name ?? '',
  { value: value ?? '', needsRestart: needsRestart === 't', allowed: allowed?.split(',') ?? null },
];

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
export const postmasterStartTime = (address: ServerAddress): Promise<string> =>
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

export interface ServerProbe {
  /** Median of a few round trips. */
  readonly latencyMs: number;
  /** Sessions of clients, and of workers that count as clients. */
  readonly connectionsUsed: number;
  /** Whether the database of the URL has the extension. */
  readonly hasCitus: boolean;
}

export const probeServer = (address: ServerAddress): Promise<ServerProbe> =>
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

interface WalState {
  /** Postgres's identifier of the cluster, which its standbys share. */
  readonly cluster: string;
  readonly isStandby: boolean;
  /** The last position written, or on a standby, replayed. */
  readonly lsn: bigint;
}

export const walStateOf = (address: ServerAddress): Promise<WalState> =>
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

/** @param pool of the service's own role @throws EngineError database_unavailable */
export function serverMajor(pool: Pool): Promise<number> {
  return serviceWork(async () => {
    const [number] = await pool.row(sql`SELECT current_setting('server_version_num')`);
    return Math.floor(Number(number) / 10_000);
  });
}

/** A database that is being dropped, or whose files disappear while they are counted. */
const GONE = new Set<string>([SQLSTATE.INVALID_CATALOG_NAME, SQLSTATE.UNDEFINED_FILE]);

/**
 * Bytes of one database: tables, indexes, large objects and temporary tables, in all tablespaces, with what running
 * transactions have written; not the write-ahead log or the temporary files of sorts. Takes 1 to 2 ms, and about 30 ms
 * more per thousand tables.
 * @param pool of the service's own role, which may ask for the size of any project's database
 * @returns null if there is no such database
 * @throws EngineError database_unavailable
 */
export function databaseSize(pool: Pool, database: string): Promise<number | null> {
  return serviceWork(async () => {
    try {
      const [bytes] = await pool.row(sql`SELECT pg_database_size(${database}::name)`);
      return bytes == null ? null : Number(bytes);
    } catch (error) {
      if (error instanceof PostgresError && GONE.has(error.sqlstate)) return null;
      throw error;
    }
  });
}
