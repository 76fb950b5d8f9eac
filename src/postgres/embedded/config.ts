/** The server's configuration, as text. It is written anew at every start, so a new release changes it everywhere. */
import type { Home } from './home.js';

export const SUPERUSER = 'cdp_service';
export const PORT = 5432;

/** Connections that are kept beside those to projects: for the service's own, commands and backups, a person. */
export const RESERVED_CONNECTIONS = 40;

/** Locks that the table of all sessions has room for. Postgres's default makes it 7,680, which one statement takes. */
const LOCKS = 122_880;

/**
 * Who may log in (Postgres manual 20.1): the service everywhere, a project's role only into the database whose name
 * is a role that it is a member of (`samerole`). No trust, no TCP, no replication.
 */
export const HBA = `\
# TYPE  DATABASE  USER         METHOD
local   all       ${SUPERUSER}  scram-sha-256
local   samerole  all          scram-sha-256
`;

/**
 * `postgresql.conf`. Messages of sessions are not logged at all (see `cluster.ts`), those of the server itself without
 * details: a statement, a key value or a row in the log would be customer data.
 * @param connections to projects' databases
 * @param durable false only for tests, which throw their clusters away.
 */
export function serverConfig(home: Home, connections: number, durable: boolean): string {
  const maxConnections = connections + RESERVED_CONNECTIONS;
  const locksEach = String(Math.ceil(LOCKS / maxConnections));
  const settings: Record<string, string> = {
    listen_addresses: '',
    port: String(PORT),
    unix_socket_directories: `"${home.socketDir.replaceAll('"', '""')}"`, // a list, split at commas outside quotes
    unix_socket_permissions: '0700',
    hba_file: home.hba,
    cluster_name: home.clusterName,
    password_encryption: 'scram-sha-256',

    max_connections: String(maxConnections),
    max_locks_per_transaction: locksEach, // 45 MB in all
    max_pred_locks_per_transaction: locksEach, // the table of serializable transactions, guarded with the other
    // No parallel workers: a statement has one process and one process's memory, and gives way as a whole.
    max_worker_processes: '0',
    max_logical_replication_workers: '0',
    max_notify_queue_pages: '32768', // 256 MB of notifications that nobody fetches; beyond, NOTIFY fails
    shared_buffers: '256MB',
    max_wal_size: '2GB',
    wal_compression: 'pglz', // the only method this build has
    // After a crash every file is flushed first, some 300 for each project: one call instead of one for each of them.
    ...(process.platform === 'linux' ? { recovery_init_sync_method: 'syncfs' } : {}),
    jit: 'off',
    temp_file_limit: '2GB', // per session: one sort must not fill the disk that all projects write to
    client_connection_check_interval: '1s',
    autovacuum_max_workers: '5', // of three, one project's large tables would leave too few to the others

    datestyle: 'iso, mdy',
    timezone: 'UTC',
    lc_messages: 'C',
    lc_monetary: 'C',
    lc_numeric: 'C',
    lc_time: 'C',
    default_text_search_config: 'pg_catalog.english',

    logging_collector: 'off', // stderr is the log file, see `server.ts`
    log_timezone: 'UTC',
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
    log_error_verbosity: 'terse',
    log_statement: 'none',
    log_checkpoints: 'off',
    log_autovacuum_min_duration: '-1',
    log_parameter_max_length: '0',
    log_parameter_max_length_on_error: '0',
    ...(durable ? {} : { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' }),
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${quoted(value)}`);
  return [
    '# Written by the service at every start. An operator’s own settings go into local.conf beside this file.',
    ...lines,
    "include_if_exists = 'local.conf'",
    '',
  ].join('\n');
}

/** A value of postgresql.conf (manual 19.1.2), where a backslash escapes as in a C string. */
const quoted = (value: string): string => `'${value.replace(/['\\]/g, '\\$&')}'`;
