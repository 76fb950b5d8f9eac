/**
 * A Postgres server as an address: where it is and how the service itself logs in. All connections of the project
 * start from the settings here.
 */
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
}

/** Where a server is, and the service's own role on it. `database` is the control database. */
export type ServerAddress = Omit<LoginOptions, 'options' | 'application_name'>;

const CONNECT_TIMEOUT_MS = 5_000;

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
 * Every connection of the service's own role: it resolves names in pg_catalog alone, so that nothing a project made
 * can stand in for a function or an operator, and reports times in one form.
 */
const SERVICE_SETTINGS = { search_path: 'pg_catalog', TimeZone: 'UTC', DateStyle: 'ISO,MDY', jit: 'off' };

/** A pool of the service's own role on the control database. */
export function servicePool(address: ServerAddress, max: number): pg.Pool {
  const pool = new pg.Pool({ ...serviceLogin(address, address.database), max, idleTimeoutMillis: 30_000 });
  // A connection that breaks while it is idle is replaced by the pool; one that breaks in somebody's hands fails the
  // next query there. In both cases the event alone must not end the process.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

/** One short-lived connection of the service's own role to any database. */
export async function withServiceClient<T>(
  address: ServerAddress,
  database: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client(serviceLogin(address, database));
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Makes the control database of an embedded server, closed to everybody but the service, where it is missing. */
export async function ensureControlDatabase(address: ServerAddress): Promise<void> {
  const { database } = address;
  await withServiceClient(address, 'postgres', async (client) => {
    const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [database]);
    if (rowCount === 1) return;
    await client.query(`CREATE DATABASE ${database}`).catch((error: unknown) => {
      // Another starter was faster.
      if (!(error instanceof pg.DatabaseError && (error.code === '42P04' || error.code === '23505'))) throw error;
    });
    await client.query(`REVOKE ALL ON DATABASE ${database}, postgres, template1 FROM PUBLIC`);
  });
}

function serviceLogin(address: ServerAddress, database: string): LoginOptions {
  return { ...address, database, application_name: 'cdp service', options: startupOptions(SERVICE_SETTINGS) };
}
