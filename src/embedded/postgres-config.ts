/** The configuration of a server. It is written at every start, so that a new release can change it. */
import type { ServerFolder } from './server-folder.js';

export const SUPERUSER = 'cdp_service';
export const PORT = 5432;

/**
 * Who may log in (Postgres manual, The pg_hba.conf File). Only the service can access the socket, whose folder has mode
 * 700. TCP is off.
 */
export const HBA = `\
# TYPE  DATABASE  USER  METHOD
local   all       all   trust
`;

/** The settings that differ between servers. */
export interface ServerTuning {
  /** Concurrent logins, including three for superusers. */
  readonly maxConnections: number;
  readonly sharedBuffersMib: number;
  /**
   * How many processes may help with statements at once (Postgres manual, Parallel Query). They run only while they
   * help.
   */
  readonly parallelWorkers: number;
  /** WAL between two checkpoints. */
  readonly maxWalSizeMib: number;
  /** `autovacuum_naptime` */
  readonly autovacuumNapSeconds: number;
  /** False only for tests. */
  readonly durable: boolean;
}

/** The control database: many short transactions, small tables. */
export const CONTROL_SIZE: Omit<ServerTuning, 'durable'> = {
  maxConnections: 40,
  sharedBuffersMib: 64,
  parallelWorkers: 0,
  maxWalSizeMib: 512,
  autovacuumNapSeconds: 60,
};

/**
 * `postgresql.conf`. The log receives only what the server itself reports.
 * @param major of the programs: a server refuses to start with a setting that it does not know
 */
export function serverConfig(folder: ServerFolder, size: ServerTuning, major: number): string {
  const settings: Record<string, string> = {
    listen_addresses: '',
    port: String(PORT),
    unix_socket_directories: `"${folder.socketDir.replaceAll('"', '""')}"`, // a list, split at commas outside quotes
    unix_socket_permissions: '0700',
    hba_file: folder.hba,
    cluster_name: folder.clusterName,
    max_connections: String(size.maxConnections),
    max_locks_per_transaction: '256',
    max_pred_locks_per_transaction: '256',
    // Five processes when idle: no replication, no I/O workers. A session may set max_parallel_workers itself.
    max_worker_processes: String(size.parallelWorkers),
    max_logical_replication_workers: '0',
    max_wal_senders: '0',
    max_replication_slots: '2', // for backups and streams
    ...(major >= 18 ? { io_method: 'sync', autovacuum_worker_slots: '3' } : {}),
    autovacuum_max_workers: '2',
    autovacuum_naptime: `${size.autovacuumNapSeconds}s`,
    shared_buffers: `${size.sharedBuffersMib}MB`,
    // Crash recovery first flushes all files. This uses one call instead of a thousand.
    ...(process.platform === 'linux' ? { recovery_init_sync_method: 'syncfs' } : {}),
    // In the data directory, because /dev/shm of a container suffices for only about 60 servers.
    dynamic_shared_memory_type: 'mmap',
    min_wal_size: '5MB',
    max_wal_size: `${size.maxWalSizeMib}MB`,
    // If a backup falls behind, the backup fails and the project continues.
    max_slot_wal_keep_size: `${4 * size.maxWalSizeMib}MB`,
    wal_compression: 'pglz', // the only method of every build
    // 32 MB of unread notifications; if they exceed it, NOTIFY fails. Before 17 the limit is 8 GB.
    ...(major >= 17 ? { max_notify_queue_pages: '4096' } : {}),
    temp_file_limit: '2GB', // per session
    jit: 'off',
    client_connection_check_interval: '1s',
    // The service restarts a crashed server itself, with a backoff.
    restart_after_crash: 'off',
    // Only this file configures the server.
    ...(major >= 17 ? { allow_alter_system: 'off' } : {}),

    datestyle: 'iso, mdy',
    timezone: 'UTC',
    lc_messages: 'C',
    lc_monetary: 'C',
    lc_numeric: 'C',
    lc_time: 'C',
    default_text_search_config: 'pg_catalog.english',

    logging_collector: 'off', // stderr is the log file, see `postmaster.ts`
    log_timezone: 'UTC',
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
    log_error_verbosity: 'terse',
    log_statement: 'none',
    log_checkpoints: 'off',
    log_autovacuum_min_duration: '-1',
    log_parameter_max_length: '0',
    log_parameter_max_length_on_error: '0',
    ...(size.durable ? {} : { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' }),
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${configValue(value)}`);
  return [
    '# Written by the service at every start. An operator’s own settings go into the files named at the end.',
    ...lines,
    ...folder.ownSettings.map((file) => `include_if_exists = ${configValue(file)}`),
    '',
  ].join('\n');
}

/** A file that it includes. */
export const configFile = (settings: Readonly<Record<string, string>>): string =>
  Object.entries(settings)
    .map(([name, value]) => `${name} = ${configValue(value)}\n`)
    .join('');

/**
 * A value for postgresql.conf (Postgres manual, Parameter Interaction via the Configuration File), where a backslash
 * escapes as in a C string.
 */
const configValue = (value: string): string => `'${value.replace(/['\\]/g, '\\$&')}'`;
