/** The findings of `cdp doctor` about a Postgres server, with advice. */
import { roundedSize } from '../../contract/disk-size.js';
import { counted } from '../../contract/message-text.js';
import { MAJORS } from '../../contract/servers.js';
import { problem, warning, ok, type Finding } from '../../contract/wire/findings.js';
import { fixed, type ServerAddress, type Session, sql } from '../../pg/index.js';
import { newestVersion, readMigrations } from '../../tenancy/migrations/migrate.js';
import type { ServerInspection } from '../../tenancy/server-facts.js';
import { SERVICE_CONNECTIONS, withServiceSession } from '../../tenancy/service-pool.js';
import { serviceWork } from '../../tenancy/postgres-errors.js';
import { NO_STANDBY, noCommitReturns } from '../../tenancy/standby-wait.js';
import { examineSettings } from './recommended-settings.js';

/** Maximum acceptable difference between the clocks of Postgres and this machine. */
const CLOCK_MS = 1_000;

/** The number of commits to time; the fastest counts. */
const COMMITS = 3;
const SLOW_COMMIT_MS = 50;

/** A standby with more unreplayed WAL than this gets a warning. */
const LAG_BYTES = 256 * 1024 ** 2;

/** How the server is used, as far as findings depend on it. */
interface ServerUse {
  /** This instance's limit of connections to its projects; null: there are none. */
  readonly connections: number | null;
  /** Connections in use now, by anyone; null: unknown. */
  readonly used: number | null;
  /** The source of its URL, for advice. */
  readonly source: string;
}

/**
 * Checks of the default server that work before the service has created anything there.
 * @param connections null: no project is on this server
 */
export const examineServer = (facts: ServerInspection, connections: number | null): Finding[] => [
  version(facts),
  rights(facts, true),
  ...examineOperation(facts, { connections, used: null, source: 'DATABASE_URL' }),
  controlSchema(facts),
];

/** Whether projects can live on another server. */
export const examineFitness = (facts: ServerInspection): Finding[] => [version(facts), rights(facts, false)];

/** How a server with projects is set up. */
export const examineOperation = (facts: ServerInspection, { connections, used, source }: ServerUse): Finding[] => [
  durability(facts),
  ...(connections === null
    ? []
    : [connectionsOf(facts, connections, used), databases(facts), ...examineSettings(facts.settings)]),
  privacy(facts, source),
  clock(facts),
];

/** Whether the control schema is of this program's version. */
export const isCurrent = ({ controlVersion }: ServerInspection): boolean =>
  controlVersion === newestVersion(readMigrations('control'));

function version({ major, version: text }: ServerInspection): Finding {
  const subject = 'Postgres';
  const { oldest, newest } = MAJORS;
  if (major < oldest) return problem(subject, text, `Upgrade the server to Postgres ${oldest} or later.`);
  if (major > newest) return warning(subject, text, `The service is tested with Postgres ${oldest} to ${newest}.`);
  return ok(subject, text);
}

function rights({ isSuperuser, canProvision, canCreateSchema }: ServerInspection, isControl: boolean): Finding {
  const subject = 'rights';
  if (isSuperuser) return ok(subject, "the service's role is a superuser");
  if (!canProvision) {
    return problem(
      subject,
      "the service's role may not create databases and roles",
      'ALTER ROLE … CREATEDB CREATEROLE',
    );
  }
  if (isControl && !canCreateSchema) {
    return problem(
      subject,
      "the service's role may not create its schema in the control database",
      'ALTER DATABASE … OWNER TO the role of DATABASE_URL',
    );
  }
  return ok(subject, "the service's role may create databases and roles");
}

/** Without these settings, a power failure can lose acknowledged rows. */
const DURABLE = ['fsync', 'full_page_writes', 'synchronous_commit'];

function durability({ settings }: ServerInspection): Finding {
  const off = [...DURABLE, 'autovacuum'].filter((name) => settings.get(name)?.value === 'off');
  if (off.some((name) => DURABLE.includes(name))) {
    const names = off.join(', ');
    return problem('durability', `off: ${names}; acknowledged rows can be lost`, `ALTER SYSTEM RESET for: ${names}`);
  }
  if (off.length > 0) {
    return warning(
      'durability',
      'autovacuum is off; tables bloat, and transaction IDs will wrap around',
      'ALTER SYSTEM RESET autovacuum',
    );
  }
  return ok('durability', `${DURABLE.join(', ')} are on`);
}

function connectionsOf(facts: ServerInspection, maxConnections: number, used: number | null): Finding {
  const needed = maxConnections + SERVICE_CONNECTIONS;
  const now = used === null ? '' : `, ${used} in use`;
  const result = `${facts.connections} available to ordinary roles${now}; this instance uses up to ${needed}`;
  if (facts.connections >= needed) return ok('connections', result);
  return warning(
    'connections',
    result,
    'Raise max_connections of Postgres, or lower the setting max-connections. Several instances add up.',
  );
}

function privacy({ isPrivate, settings }: ServerInspection, source: string): Finding {
  const subject = 'passwords';
  if (settings.get('password_encryption')?.value !== 'scram-sha-256') {
    return warning(subject, 'password_encryption is not scram-sha-256', 'Set password_encryption to scram-sha-256.');
  }
  if (isPrivate) return ok(subject, 'scram-sha-256, over an encrypted or local connection');
  return warning(subject, 'the connection to Postgres is not encrypted', `Add sslmode=verify-full to ${source}.`);
}

function databases({ publicDatabases }: ServerInspection): Finding {
  const subject = 'databases';
  if (publicDatabases.length === 0) return ok(subject, "projects' roles may connect only to their own");
  const names = publicDatabases.join(', ');
  return warning(
    subject,
    `any role may connect to ${names}, and so may the roles of projects if pg_hba.conf lets them`,
    `As the owner or a superuser: REVOKE CONNECT ON DATABASE ${names} FROM PUBLIC. Before, GRANT it to roles that need it.`,
  );
}

function clock({ clockAheadMs }: ServerInspection): Finding {
  const seconds = (Math.abs(clockAheadMs) / 1000).toFixed(1);
  const result = `Postgres is ${seconds} s ${clockAheadMs < 0 ? 'behind' : 'ahead of'} this machine`;
  if (Math.abs(clockAheadMs) < CLOCK_MS) return ok('clock', result);
  return warning(
    'clock',
    result,
    'Synchronize both by NTP: tokens expire by one clock, and idempotency keys by the other.',
  );
}

function controlSchema({ controlVersion }: ServerInspection): Finding {
  const subject = 'control schema';
  const newest = newestVersion(readMigrations('control'));
  if (controlVersion > newest) {
    return problem(
      subject,
      `version ${controlVersion}; this program supports up to ${newest}`,
      'Run the newer program, or restore a backup made by this one.',
    );
  }
  if (controlVersion === newest) return ok(subject, `version ${controlVersion}, up to date`);
  const result = controlVersion === 0 ? 'not created yet' : `version ${controlVersion} of ${newest}`;
  return warning(subject, result, 'The next start of this program migrates it. Projects were not checked.');
}

/** How long commits take, and whether a standby keeps them from returning. */
export function examineCommits(address: ServerAddress): Promise<Finding[]> {
  return serviceWork(() =>
    withServiceSession(address, address.database, async (session) => {
      const { standbys, lagBytes, missing } = await replicationOf(session);
      if (missing !== null) {
        return [
          problem(
            'commits',
            noCommitReturns(missing),
            'Start the standby, or ALTER SYSTEM RESET synchronous_standby_names.',
          ),
        ];
      }
      const times = [];
      for (let i = 0; i < COMMITS; i++) times.push(await timeOfCommit(session));
      const ms = 1_000 * Math.min(...times);
      const result = `a commit takes ${ms.toFixed(1)} ms`;
      const commits =
        ms < SLOW_COMMIT_MS
          ? ok('commits', result)
          : warning(
              'commits',
              result,
              'Look at the disk of the write-ahead log, the network, and synchronous standbys.',
            );
      return standbys === 0 ? [commits] : [commits, replication(standbys, lagBytes)];
    }),
  );
}

function replication(standbys: number, lagBytes: number | null): Finding {
  const count = `${counted(standbys, 'standby')} connected`;
  if (lagBytes === null) return ok('replication', `${count}; only roles with pg_read_all_stats can see how far behind`);
  const result = `${count}, at most ${roundedSize(lagBytes)} behind`;
  if (lagBytes < LAG_BYTES) return ok('replication', result);
  return warning(
    'replication',
    result,
    'A failover now would take long, or lose that much if the standby is asynchronous.',
  );
}

// Early signs of trouble on a server: the time of a commit, and its standbys. For `cdp doctor` and metrics.

export type Queryable = Pick<Session, 'query' | 'row'>;

/** A commit that is flushed like one of rows, but leaves only a record in the write-ahead log. */
const TINY_COMMIT = fixed(`SELECT pg_logical_emit_message(true, 'cdp', '')`);

/** @returns seconds */
export async function timeOfCommit(server: Queryable): Promise<number> {
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
export async function replicationOf(server: Queryable): Promise<Replication> {
  // A role without the right to see details of a standby still sees its row.
  const [standbys, lag, missing] = await server.row(sql`
    SELECT count(*), max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)), ${NO_STANDBY}
    FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup'`);
  return { standbys: Number(standbys), lagBytes: lag == null ? null : Number(lag), missing: missing ?? null };
}
