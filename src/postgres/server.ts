/** A Postgres server as an address: where it is, and what a login there takes, of whichever role. */
import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import { parse as parseConnectionString } from 'pg-connection-string';

/** What the driver needs for one login. */
export interface LoginOptions {
  host: string;
  port: number;
  user: string;
  password: string;
  database: string;
  ssl?: boolean | ConnectionOptions;
  /** `-c name=value …` (Postgres manual 20.1.4). */
  options?: string;
  application_name?: string;
  connectionTimeoutMillis: number;
  keepAlive?: boolean;
  keepAliveInitialDelayMillis?: number;
}

/** Where a server is, and the service's own role on it. `database` is the control database. */
export type ServerAddress = Omit<LoginOptions, 'options' | 'application_name'>;

const CONNECT_TIMEOUT_MS = 5_000;

/** Silence after which the system asks the other side whether it is still there. */
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
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
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

/**
 * One short-lived connection of any role, by the driver.
 * @param signal aborted: the connection breaks at once, whatever it waits for
 */
export async function withClient<T>(
  login: pg.ClientConfig,
  work: (client: pg.Client) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  signal?.throwIfAborted();
  const client = new pg.Client(login);
  client.on('error', () => {});
  const breakOff = () => (client as unknown as Wired).connection.stream.destroy();
  signal?.addEventListener('abort', breakOff);
  try {
    await client.connect();
    try {
      return await work(client);
    } finally {
      await client.end();
    }
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  } finally {
    signal?.removeEventListener('abort', breakOff);
  }
}

/** What the driver's type declarations leave out. */
export interface Wired {
  connection: { stream: Socket };
}
