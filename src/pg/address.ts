/** A Postgres server as an address: where it is, and what a login there takes, whatever the role. */
import { connect, type OnReadOpts, type Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { parse as parseConnectionString } from 'pg-connection-string';

/** What one login takes. */
export interface LoginOptions {
  /** Host name, IP address, or the folder of a Unix socket. */
  host: string;
  port: number;
  user: string;
  password: string;
  database: string;
  ssl?: boolean | ConnectionOptions;
  /** `-c name=value …` (Postgres manual 20.1.4), see {@link startupOptions}. */
  options?: string;
  application_name?: string;
  /** For the whole login. */
  connectionTimeoutMillis: number;
  /** Silence after which the system checks whether the other side is still there (TCP keep-alive). */
  keepAliveMs?: number;
}

/** Where a server is, and the service's own role on it. `database` is the control database. */
export type ServerAddress = Omit<LoginOptions, 'options' | 'application_name'>;

const CONNECT_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 10_000;

/**
 * @param url `postgres://user:password@host:port/database?sslmode=…`
 * @throws Error naming what is missing, never repeating the url: it holds a password
 */
export function addressOfUrl(url: string): ServerAddress {
  let parsed: ReturnType<typeof parseConnectionString>;
  try {
    parsed = parseConnectionString(url);
  } catch {
    throw new Error('DATABASE_URL is not a valid connection string (postgres://user:password@host:port/database)');
  }
  const { host, port, user, password, database, ssl } = parsed;
  if (!host || !user || !database) throw new Error('DATABASE_URL must name a host, a user and a database');
  return {
    host,
    port: port ? Number(port) : 5432,
    user,
    password: password ?? '',
    database,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAliveMs: KEEP_ALIVE_MS,
    ...(ssl === undefined ? {} : { ssl: ssl as boolean | ConnectionOptions }),
  };
}

/**
 * `-c` options for the start of a connection. They become the session's defaults, which RESET ALL and DISCARD ALL
 * return to, and they win over whatever `ALTER ROLE … SET` or `ALTER DATABASE … SET` left behind.
 */
export function startupOptions(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replace(/[\\ ]/g, '\\$&')}`)
    .join(' ');
}

/** A socket that is about to connect: TCP, or the Unix socket in the folder. */
export function connectTo({ host, port }: Pick<ServerAddress, 'host' | 'port'>, onread?: OnReadOpts): Socket {
  const place = host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port };
  return connect({ ...place, ...(onread === undefined ? {} : { onread }) });
}
