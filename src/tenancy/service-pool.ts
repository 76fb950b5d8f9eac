/**
 * Connections of the service's own role: a pool on the control database for short questions, and one at a time to any
 * database for work that takes longer.
 */
import pg from 'pg';
import { Absence } from './absence.js';
import { isSilence } from '../postgres/errors.js';
import { type LoginOptions, type ServerAddress, startupOptions, type Wired, withClient } from '../postgres/server.js';

/**
 * Connections that an instance opens beside those to projects' databases, as servers are sized for (docs/operations.md): the
 * pools', and now and then some to make or repair a project.
 */
export const CONNECTIONS_BESIDE_PROJECTS = 10;

/**
 * A network that swallows what is sent breaks no connection: without a limit of its own a query would wait for ever. The
 * first is for short questions of the service, the second for work such as the making of a database.
 */
const QUESTION_MS = 3_000;
const WORK_MS = 120_000;

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

/** One short-lived connection of the service's own role to any database. */
export const withServiceClient = <T>(
  address: ServerAddress,
  database: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> => withClient({ ...serviceLogin(address, database), query_timeout: WORK_MS }, work);

function serviceLogin(address: ServerAddress, database: string): LoginOptions {
  return { ...address, database, application_name: 'cdp service', options: startupOptions(SERVICE_SETTINGS) };
}
