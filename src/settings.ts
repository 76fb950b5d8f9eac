/**
 * Declares every setting once: default, kind and description. The key gives the name of the flag, of the key in the
 * file and of the environment variable. `--help`, `cdp config`, the docs test and the validation use this table.
 */
import { AUDIT_MODES, AUDIT_STATEMENTS, type AuditMode, type AuditStatements } from './contract/audit.js';
import { DAY_MS } from './contract/calendar.js';
import type { Rate } from './engine/access/rate-limits.js';
import { TRACE_DETAILS, type TraceDetail } from './http/observability/trace-context.js';
import {
  boolean,
  databaseUrl,
  extensionNames,
  folder,
  integer,
  mebibytes,
  milliseconds,
  networks,
  withNames,
  oneOf,
  origins,
  proxies,
  quota,
  rate,
  schedule,
  secret,
  setting,
  type SettingRow,
  text,
  uidRange,
  url,
} from './setting-kinds.js';

const HOUR_MS = 3_600_000;

export const SETTINGS = withNames({
  port: setting(8080, integer(0, 65_535), 'Listen on this port; 0 picks a free one.'),
  host: setting('127.0.0.1', text('ADDRESS'), 'Listen on this address.'),
  dataDir: setting(
    '.cdp',
    text('DIR'),
    'Keep the embedded Postgres servers in this folder. Not used with a database URL.',
  ),
  databaseUrl: setting<string | null>(
    null,
    databaseUrl,
    'Use this Postgres instead of the embedded one; its database becomes the control database.',
    { env: 'DATABASE_URL', secret: true },
  ),
  secret: setting<string | null>(
    null,
    secret,
    'Derive the passwords of database roles from this text of at least 32 characters, the same for all instances. ' +
      'Required with a database URL.',
    { secret: true },
  ),
  secretPrevious: setting<string | null>(
    null,
    secret,
    'While you replace the secret, also accept passwords derived from this previous one.',
    { secret: true },
  ),
  extensions: setting<readonly string[]>(
    [],
    extensionNames,
    "Install these Postgres extensions into every project's database, separated by commas.",
  ),
  archiveDays: setting(
    14,
    integer(1, 36_500),
    'Keep the archived write-ahead log of projects for this many days (cdp project archive).',
  ),
  backupTo: setting<string | null>(
    null,
    folder,
    'Save everything into this folder at the times of backup-at, and archived write-ahead log all the time.',
  ),
  backupAt: setting(
    '0 3 * * *',
    schedule,
    'Make the backups of backup-to at these times: minute, hour, day, month and day of the week, as in a crontab.',
  ),
  backupCommand: setting<string | null>(
    null,
    text('COMMAND'),
    'Run this shell command after each backup of backup-to, with the folder as its last argument.',
  ),
  postgresBin: setting<string | null>(
    null,
    folder,
    'Run the embedded Postgres servers by the programs in this folder, such as /usr/lib/postgresql/18/bin, if it has initdb and ' +
      'postgres; and pg_dump and pg_restore for logical backups. Default: the npm package; PATH and the usual folders.',
  ),
  logLevel: setting<string>(
    'info',
    oneOf('LEVEL', 'trace', 'debug', 'info', 'warn', 'error', 'silent'),
    'Log events of at least this level: trace, debug, info, warn, error or silent.',
  ),
  maxConnections: setting<number | null>(
    null,
    integer(2, 10_000),
    "Open at most this many connections to projects' databases on one server, including idle ones. Default: from the machine's " +
      'memory (80 to 1000); with a database URL 80.',
  ),
  running: setting(
    80,
    integer(2, 10_000),
    'Run at most this many requests on one server at once, across all its projects.',
  ),
  backendMemoryMib: setting<number | null>(
    null,
    mebibytes(64),
    "Limit each process of the embedded Postgres to this much memory. Default: a sixteenth of the machine's.",
  ),
  maxServers: setting<number | null>(
    null,
    integer(2, 100_000),
    "Run at most this many of the projects' embedded Postgres servers at once. Default: limited by memory, processes, " +
      'open files and shared memory segments.',
  ),
  idleStopMs: setting(
    600_000,
    milliseconds(1_000, DAY_MS),
    'Stop the embedded Postgres server of a project that has not been used for this long.',
  ),
  sharedBuffersMib: setting<number | null>(
    null,
    mebibytes(1),
    "Give each project's embedded Postgres server a page cache of this size (shared_buffers). Default: from the project's data " +
      "at the server's start and the machine's memory, at least 32.",
  ),
  parallelWorkers: setting<number | null>(
    null,
    integer(0, 1_000),
    "Let this many processes help with the statements of each project's embedded Postgres server at once (max_worker_processes). " +
      'Default: a quarter of the processors if there are more than four and control groups share them, otherwise none.',
  ),
  maxWalSizeMib: setting(
    256,
    mebibytes(16),
    "Let each project's embedded Postgres server keep this much write-ahead log between checkpoints (max_wal_size).",
  ),
  diskReserveMib: setting(
    1_024,
    mebibytes(0),
    'Keep this much disk space free: below it, projects can only be read; below half of it, one that still grows is stopped.',
  ),
  projectUids: setting<string | null>(
    '50000-59999',
    uidRange,
    "If the service runs as root, run each project's embedded server under a user id of its own from this range, such " +
      'as 50000-59999; off: run all as the same user.',
  ),
  idleConnectionMs: setting(
    60_000,
    milliseconds(100, DAY_MS),
    "Close a connection to a project's database that has been idle for this long.",
  ),
  projectRunning: setting(8, integer(2, 1_000), 'Run at most this many requests of one project in Postgres at once.'),
  projectReserved: setting(
    2,
    integer(0, 999),
    'Reserve this many of the slots of project-running for inserts and schema calls.',
  ),
  projectWaiting: setting(
    64,
    integer(0, 100_000),
    'Let at most this many requests of one project wait; reject further ones with 503.',
  ),
  waitMs: setting(5_000, milliseconds(1, 60_000), 'Reject a request that has waited this long for its turn.'),
  projectQuota: setting<number | null>(
    null,
    quota,
    "Limit each project's database to this much disk, such as 500MB or 10GB; off: no limit.",
  ),
  schemaHoldMs: setting(
    30_000,
    milliseconds(100, HOUR_MS),
    'Roll back a schema change that has held its table for this long.',
  ),
  streamStallMs: setting(
    30_000,
    milliseconds(100, HOUR_MS),
    'Disconnect a client that has not read from a stream for this long.',
  ),
  requestTimeoutMs: setting(
    30_000,
    milliseconds(100, HOUR_MS),
    'Disconnect a client whose request, with headers and body, has not arrived within this time.',
  ),
  rateLimit: setting<Rate | null>(
    null,
    rate,
    'Allow each token this many requests per time, such as 100/1s or 5000/1m; reject further ones with 429.',
    { isShownAsWritten: true },
  ),
  wrongTokens: setting(
    30,
    integer(0, 1_000_000),
    'Allow each address this many wrong tokens per minute; reject further unknown ones with 429. 0: no limit.',
  ),
  trustProxy: setting<readonly string[] | null>(
    null,
    proxies,
    'Trust X-Forwarded-For from these proxies: addresses, networks, or loopback, linklocal, uniquelocal.',
    { isShownAsWritten: true },
  ),
  corsOrigins: setting<readonly string[] | null>(
    null,
    origins,
    'Allow pages from these origins to call the API from a browser, such as https://app.example.com, or *.',
    { isShownAsWritten: true },
  ),
  console: setting(true, boolean, 'Serve the web console at /console.'),
  pgPort: setting<number | null>(
    null,
    integer(0, 65_535),
    'Also accept Postgres clients (psql, drivers, BI tools) on this port; 0 picks a free one.',
  ),
  pgHost: setting<string | null>(null, text('ADDRESS'), 'Accept Postgres clients on this address. Default: host.'),
  tlsCert: setting<string | null>(
    null,
    text('FILE'),
    'Offer TLS to Postgres clients with the certificate chain in this PEM file; requires tls-key.',
  ),
  tlsKey: setting<string | null>(null, text('FILE'), 'Read the private key of tls-cert from this PEM file.'),
  pgPlain: setting(
    false,
    boolean,
    'Let Postgres clients on other machines connect without TLS, which sends tokens unencrypted over the network.',
  ),
  pgSessions: setting(20, integer(1, 1_000), 'Allow each project this many sessions of Postgres clients at once.'),
  pgSessionsTotal: setting(
    200,
    integer(1, 10_000),
    'Allow this many sessions of Postgres clients at once across all projects.',
  ),
  pgIdleMs: setting(
    1_800_000,
    milliseconds(100, DAY_MS),
    'End the session of a Postgres client that is idle for this long.',
  ),
  pgIdleTransactionMs: setting(
    60_000,
    milliseconds(100, DAY_MS),
    'End the session of a Postgres client whose open transaction is idle for this long.',
  ),
  pgTransactionMs: setting(
    600_000,
    milliseconds(100, DAY_MS),
    "If a Postgres client's transaction runs for this long, cancel its statement and then end its session.",
  ),
  mcpWrites: setting(false, boolean, 'Let agents insert records through /mcp, with tokens that have data:write.'),
  shutdownMs: setting(30_000, milliseconds(0, HOUR_MS), 'After SIGTERM, let running requests finish for this long.'),
  metricsHost: setting('127.0.0.1', text('ADDRESS'), 'Serve /metrics on this address, if metrics-port is set.'),
  metricsPort: setting<number | null>(
    null,
    integer(0, 65_535),
    'Serve /metrics on this separate port. Default: on the main port, to loopback and admin tokens.',
  ),
  metricsByProject: setting(false, boolean, 'Also export metrics for each project, with its name in their labels.'),
  traceDetail: setting<TraceDetail>(
    'route',
    oneOf('WHAT', ...TRACE_DETAILS),
    'Record in spans: route (no caller data), names (also project, table, path, address) or ' +
      'statements (also the SQL text).',
  ),
  audit: setting<AuditMode>(
    'all',
    oneOf('WHAT', ...AUDIT_MODES),
    'Record in the audit log: all, changes (no inserts, no reads) or off.',
  ),
  auditStatements: setting<AuditStatements>(
    'hash',
    oneOf('WHAT', ...AUDIT_STATEMENTS),
    'Record SQL in the audit log as hash (HMAC-SHA-256 only) or text (also the full text, including its values).',
  ),
  quarantineDays: setting(30, integer(1, 36_500), 'Keep records in the quarantine for this many days.'),
  auditDays: setting(90, integer(1, 36_500), 'Keep entries of the audit log for this many days.'),
  receiptDays: setting(7, integer(1, 400), 'Keep receipts of batches with an Idempotency-Key for this many days.'),
  webhookNetworks: setting<readonly string[]>(
    [],
    networks,
    'Let webhooks also send to these networks, separated by commas, such as 10.0.0.0/8, and there without TLS, too. Default: only to ' +
      'public addresses, by https.',
  ),
  jwtIssuer: setting<string | null>(
    null,
    text('TEXT'),
    'Accept JWTs from this issuer; requires jwt-jwks-url and jwt-audience.',
  ),
  jwtAudience: setting<string | null>(null, text('TEXT'), 'Accept only JWTs that name this audience.'),
  jwtJwksUrl: setting<string | null>(null, url, "Fetch the identity provider's public keys from this URL."),
});

type Table = typeof SETTINGS;
export type SettingName = keyof Table;
export type Settings = { [K in SettingName]: Table[K] extends SettingRow<infer T> ? T : never };
