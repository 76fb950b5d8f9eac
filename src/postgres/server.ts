/**
 * A Postgres server as an address: where it is, how the service itself logs in, and what becomes of its failures there.
 */
import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import { parse as parseConnectionString } from 'pg-connection-string';
import { EngineError } from '../contract/errors.js';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import { Absence } from './absence.js';
import { isSilence, isUnreachable, PostgresError, unavailable } from './errors.js';

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

/**
 * A network that swallows what is sent breaks no connection: without a limit of its own a query would wait for ever. The
 * first is for short questions of the service, the second for errands such as the making of a database.
 */
const QUESTION_MS = 3_000;
const ERRAND_MS = 120_000;

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

/** For whoever writes to a project's database, which is read-only to sessions that ask for nothing (`projects/provisioning.ts`). */
export const WRITES = { default_transaction_read_only: 'off' };

/**
 * Wherever the service's own role runs queries: it resolves names in pg_catalog alone, so that nothing a project made
 * can stand in for a function or an operator, and reports times in one form. Time limits that an operator has given the role
 * would end the making of a database, or a session that only holds a lock.
 */
const SERVICE_SETTINGS = {
  search_path: 'pg_catalog',
  TimeZone: 'UTC',
  DateStyle: 'ISO,MDY',
  jit: 'off',
  statement_timeout: '0',
  lock_timeout: '0',
  idle_session_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  ...WRITES,
};

/**
 * A pool of the service's own role on the control database.
 * @param options.kept connections that stay open though nobody uses them
 * @param options.absence shared with whoever else logs in there
 */
export function servicePool(
  address: ServerAddress,
  max: number,
  { kept = 0, absence = new Absence() }: { kept?: number; absence?: Absence } = {},
): pg.Pool {
  // A question waits as long for a connection as for its answer.
  const limits = {
    max,
    min: kept,
    idleTimeoutMillis: 30_000,
    connectionTimeoutMillis: QUESTION_MS,
    query_timeout: QUESTION_MS,
    Client: sparing(absence),
  };
  const pool = new pg.Pool({ ...serviceLogin(address, address.database), ...limits });
  // A connection that breaks while it is idle is replaced by the pool.
  pool.on('error', () => {});
  dropTheSilent(pool);
  return pool;
}

type Connected = (error: Error | null) => void;

/** The driver's client as the pool uses it, which does not even try while Postgres is known to be away. */
const sparing = (absence: Absence) =>
  class extends pg.Client {
    override connect(): Promise<this>;
    override connect(callback: Connected): void;
    override connect(callback?: Connected): Promise<this> | undefined {
      const { refusal } = absence;
      const connecting = refusal === null ? this.tried() : Promise.reject<this>(refusal);
      if (callback === undefined) return connecting;
      connecting.then(() => callback(null), callback);
      return undefined;
    }

    private async tried(): Promise<this> {
      // One that breaks in somebody's hands fails the next query there; the event alone must not end the process. The pool
      // learns of the connection a moment after it is there, and it may have broken by then.
      this.on('error', () => {});
      try {
        await super.connect();
        return this;
      } catch (error) {
        absence.saw(error);
        throw error;
      }
    }
  };

/** Where one connection did not answer, the idle ones go the same way: each would cost a question its whole time. */
function dropTheSilent(pool: pg.Pool): void {
  const idle = new Set<pg.PoolClient>();
  const taken = (client: pg.PoolClient) => void idle.delete(client);
  pool.on('acquire', taken);
  pool.on('remove', taken);
  pool.on('release', (error: Error | boolean | undefined, client) => {
    if (!error) idle.add(client);
    else if (isSilence(error))
      for (const { connection } of [...idle] as unknown as Wired[]) connection.stream.destroy(error);
  });
}

/** What the driver's type declarations leave out. */
interface Wired {
  connection: { stream: Socket };
}

/** One short-lived connection of the service's own role to any database. */
export const withServiceClient = <T>(
  address: ServerAddress,
  database: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> => withClient({ ...serviceLogin(address, database), query_timeout: ERRAND_MS }, work);

/** One short-lived connection of any role, by the driver. */
export async function withClient<T>(login: pg.ClientConfig, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(login);
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** The server's major version: 18. */
export async function serverMajor(address: ServerAddress): Promise<number> {
  return withServiceClient(address, address.database, async (client) => {
    const { rows } = await client.query<{ number: string }>(`SELECT current_setting('server_version_num') AS number`);
    return Math.floor(Number(rows[0]?.number) / 10_000);
  });
}

/** Makes the control database of an embedded server where it is missing, and closes it to everybody but the service. */
export async function ensureControlDatabase(address: ServerAddress): Promise<void> {
  const { database } = address;
  await withServiceClient(address, 'postgres', async (client) => {
    await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.controlDatabase]);
    const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [database]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${database}`);
    // Every time: a start may have been killed between the two.
    await client.query(`REVOKE ALL ON DATABASE ${database}, postgres, template1 FROM PUBLIC`);
  });
}

/**
 * What the service does for itself while it serves a request: its logins, the control database, the making and mending
 * of projects. When Postgres fails it there, that is no error of the caller's SQL, and Postgres's words about it are not
 * for the caller's eyes.
 * @throws EngineError database_unavailable with Postgres's error as its cause; what else `work` throws
 */
export async function ownErrand<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const cause = error instanceof pg.DatabaseError ? PostgresError.fromDriver(error) : error;
    if (!(cause instanceof PostgresError || isUnreachable(cause))) throw error;
    throw unavailable(cause);
  }
}

/**
 * Such an errand of one statement that changes something and commits by itself. Once it was sent, the end of the connection, or
 * no answer in time, leaves open whether it was done.
 * @throws EngineError outcome_unknown; database_unavailable where nothing was done
 */
export async function ownChange<R extends pg.QueryResultRow>(
  pool: pg.Pool,
  text: string,
  values: unknown[],
): Promise<pg.QueryResult<R>> {
  const client = await ownErrand(() => pool.connect());
  let failure: Error | undefined;
  const change = client.query<R>(text, values).catch((error: Error) => {
    failure = error;
    throw endsConnection(error) ? perhapsDone(error) : error;
  });
  return ownErrand(() => change).finally(() => client.release(failure));
}

/** It broke, gave no answer in time, or the server said that it ends it (57P01 and its kin), which may be behind the commit. */
const endsConnection = (error: Error): boolean =>
  isUnreachable(error) || (error instanceof pg.DatabaseError && error.code?.startsWith('57P') === true);

const perhapsDone = (cause: unknown): EngineError =>
  new EngineError(
    'outcome_unknown',
    'The connection to Postgres was lost during the commit: look whether the change is there before you repeat the request',
    { cause, retryAfter: null },
  );

function serviceLogin(address: ServerAddress, database: string): LoginOptions {
  return { ...address, database, application_name: 'cdp service', options: startupOptions(SERVICE_SETTINGS) };
}
