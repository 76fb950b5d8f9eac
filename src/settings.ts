/**
 * Every setting, declared once: its name (the flag, the key in the file and, in capitals, the environment variable), its
 * default, parser and description. `--help`, `cdp config`, the docs test and the validation all derive from this table.
 */
import { resolve } from 'node:path';
import { parseQuota } from './contract/disk-size.js';
import { AUDIT_MODES, AUDIT_STATEMENTS, type AuditMode, type AuditStatements } from './contract/audit.js';
import { EMBEDDED_SETTINGS } from './embedded-settings.js';
import type { Rate } from './http/gate/rate-limit.js';
import { TRACE_DETAILS, type TraceDetail } from './http/watch/request-tracer.js';
import {
  databaseUrl,
  extensionNames,
  integer,
  oneOf,
  origins,
  proxies,
  rate,
  secret,
  text,
  url,
  yesOrNo,
} from './setting-values.js';
import { type Setting, setting } from './setting.js';

export const SETTINGS = {
  port: setting({
    flag: 'port',
    default: 8080,
    value: 'N',
    describe: 'Port to listen on; 0 takes a free one.',
    parse: integer(0, 65_535),
  }),
  host: setting({
    flag: 'host',
    default: '127.0.0.1',
    value: 'ADDRESS',
    describe: 'Address to listen on.',
    parse: text('host'),
  }),
  dataDir: setting({
    flag: 'data-dir',
    default: '.cdp',
    value: 'DIR',
    describe: 'Folder of the embedded Postgres servers. Not used with a database URL.',
    parse: text('data-dir'),
  }),
  databaseUrl: setting<string | null>({
    flag: 'database-url',
    env: 'DATABASE_URL',
    default: null,
    value: 'URL',
    describe: 'Postgres to use instead of the embedded one; its database becomes the control database.',
    secret: true,
    parse: databaseUrl,
  }),
  secret: setting<string | null>({
    flag: 'secret',
    default: null,
    value: 'TEXT',
    describe: 'Instance secret for a database URL, at least 32 characters, the same for all instances.',
    secret: true,
    parse: secret,
  }),
  extensions: setting<readonly string[]>({
    flag: 'extensions',
    default: [],
    value: 'NAMES',
    describe: "Postgres extensions that the service installs into every project's database, separated by commas.",
    parse: extensionNames,
  }),
  archiveDays: setting({
    flag: 'archive-days',
    default: 14,
    value: 'N',
    describe: 'Days for which the write-ahead log of projects that archive it is kept (cdp project archive).',
    parse: integer(1, 36_500),
  }),
  postgresBin: setting<string | null>({
    flag: 'postgres-bin',
    default: null,
    value: 'DIR',
    describe: 'Folder of pg_dump and pg_restore for backup and restore. Default: PATH and the usual places.',
    parse: (value: string) => resolve(text('postgres-bin')(value)),
  }),
  logLevel: setting<string>({
    flag: 'log-level',
    default: 'info',
    value: 'LEVEL',
    describe: 'trace, debug, info, warn, error or silent.',
    parse: oneOf('trace', 'debug', 'info', 'warn', 'error', 'silent'),
  }),
  maxConnections: setting<number | null>({
    flag: 'max-connections',
    default: null,
    value: 'N',
    describe:
      "Connections to projects' databases, over all projects, including unused ones. Default: by the machine's memory " +
      '(80 to 1000); with a database URL 80.',
    parse: integer(2, 10_000),
  }),
  running: setting({
    flag: 'running',
    default: 80,
    value: 'N',
    describe: 'Requests that may run in Postgres at once, over all projects.',
    parse: integer(2, 10_000),
  }),
  ...EMBEDDED_SETTINGS,
  idleConnectionMs: setting({
    flag: 'idle-connection-ms',
    default: 60_000,
    value: 'MS',
    describe: 'An unused connection is closed after this time.',
    parse: integer(100, 86_400_000),
  }),
  projectRunning: setting({
    flag: 'project-running',
    default: 8,
    value: 'N',
    describe: 'Requests of one project that may run in Postgres at once.',
    parse: integer(2, 1_000),
  }),
  projectReserved: setting({
    flag: 'project-reserved',
    default: 2,
    value: 'N',
    describe: 'Of project-running, places kept for inserts and schema calls.',
    parse: integer(0, 999),
  }),
  projectWaiting: setting({
    flag: 'project-waiting',
    default: 64,
    value: 'N',
    describe: 'Requests of one project that may wait; further ones are refused with 503.',
    parse: integer(0, 100_000),
  }),
  waitMs: setting({
    flag: 'wait-ms',
    default: 5_000,
    value: 'MS',
    describe: 'Longest wait of a request for its turn.',
    parse: integer(1, 60_000),
  }),
  projectQuota: setting<number | null>({
    flag: 'project-quota',
    default: null,
    value: 'SIZE',
    describe: 'Disk that the database of a project may take, such as 500MB or 10GB; off for no quota.',
    parse: (value: string) => (value === 'off' ? null : parseQuota(value)),
  }),
  schemaHoldMs: setting({
    flag: 'schema-hold-ms',
    default: 30_000,
    value: 'MS',
    describe: 'A schema change that holds its table for longer is undone.',
    parse: integer(100, 3_600_000),
  }),
  streamStallMs: setting({
    flag: 'stream-stall-ms',
    default: 30_000,
    value: 'MS',
    describe: 'Disconnect a client that has not read from a stream for this long.',
    parse: integer(100, 3_600_000),
  }),
  requestTimeoutMs: setting({
    flag: 'request-timeout-ms',
    default: 30_000,
    value: 'MS',
    describe: 'Time in which the headers and body of a request must have arrived.',
    parse: integer(100, 3_600_000),
  }),
  rateLimit: setting<Rate | null>({
    flag: 'rate-limit',
    default: null,
    value: 'N/TIME',
    describe: 'Requests of one token within a time, such as 100/1s or 5000/1m; further ones are refused with 429.',
    isShownAsWritten: true,
    parse: rate,
  }),
  wrongTokens: setting({
    flag: 'wrong-tokens',
    default: 30,
    value: 'N',
    describe: 'Wrong tokens from one address within a minute; further unknown ones are refused with 429. 0: no limit.',
    parse: integer(0, 1_000_000),
  }),
  trustProxy: setting<readonly string[] | null>({
    flag: 'trust-proxy',
    default: null,
    value: 'LIST',
    describe: 'Proxies whose X-Forwarded-For is trusted: addresses, networks, or loopback, linklocal, uniquelocal.',
    isShownAsWritten: true,
    parse: proxies,
  }),
  corsOrigins: setting<readonly string[] | null>({
    flag: 'cors-origins',
    default: null,
    value: 'LIST',
    describe: 'Origins whose pages may call from a browser, such as https://app.example.com, or *.',
    isShownAsWritten: true,
    parse: origins,
  }),
  shutdownMs: setting({
    flag: 'shutdown-ms',
    default: 30_000,
    value: 'MS',
    describe: 'Time that running requests have to finish after SIGTERM.',
    parse: integer(0, 3_600_000),
  }),
  metricsHost: setting({
    flag: 'metrics-host',
    default: '127.0.0.1',
    value: 'ADDRESS',
    describe: 'Address of the separate listener for /metrics.',
    parse: text('metrics-host'),
  }),
  metricsPort: setting<number | null>({
    flag: 'metrics-port',
    default: null,
    value: 'N',
    describe: 'Port of a separate listener for /metrics. Default: /metrics answers loopback and the admin token.',
    parse: integer(0, 65_535),
  }),
  metricsByProject: setting({
    flag: 'metrics-by-project',
    default: false,
    value: 'BOOLEAN',
    describe: 'Also export metrics for each project, with its name in their labels.',
    parse: yesOrNo,
  }),
  traceDetail: setting<TraceDetail>({
    flag: 'trace-detail',
    default: 'route',
    value: 'WHAT',
    describe:
      'What spans say of a request: route (nothing of the caller), names (also project, table, path, address) or ' +
      'statements (also the text of free SQL).',
    parse: oneOf(...TRACE_DETAILS),
  }),
  audit: setting<AuditMode>({
    flag: 'audit',
    default: 'all',
    value: 'WHAT',
    describe: 'What the audit log records: all, changes (no inserts, no reads) or off.',
    parse: oneOf(...AUDIT_MODES),
  }),
  auditStatements: setting<AuditStatements>({
    flag: 'audit-statements',
    default: 'hash',
    value: 'WHAT',
    describe:
      'What the audit log keeps of free SQL: hash (SHA-256 alone) or text (the whole text too, with the values in it).',
    parse: oneOf(...AUDIT_STATEMENTS),
  }),
  auditDays: setting({
    flag: 'audit-days',
    default: 90,
    value: 'N',
    describe: 'Days that entries of the audit log are kept.',
    parse: integer(1, 36_500),
  }),
  jwtIssuer: setting<string | null>({
    flag: 'jwt-issuer',
    default: null,
    value: 'TEXT',
    describe: 'Issuer of accepted JWTs; with jwt-jwks-url and jwt-audience.',
    parse: text('jwt-issuer'),
  }),
  jwtAudience: setting<string | null>({
    flag: 'jwt-audience',
    default: null,
    value: 'TEXT',
    describe: 'Audience that accepted JWTs must name.',
    parse: text('jwt-audience'),
  }),
  jwtJwksUrl: setting<string | null>({
    flag: 'jwt-jwks-url',
    default: null,
    value: 'URL',
    describe: "Where the identity provider's public keys are.",
    parse: url,
  }),
};

type Table = typeof SETTINGS;
export type SettingName = keyof Table;
export type Config = { [K in SettingName]: Table[K] extends Setting<infer T> ? T : never };
