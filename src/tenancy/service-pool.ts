/** Sessions of the service's own role: a pool for short queries, and single sessions for longer work. */
import { type LoginOptions, Pool, type ServerAddress, Session, startupOptions, withSession } from '../pg/index.js';
import { CircuitBreaker } from './health/circuit-breaker.js';

/** Maximum number of connections of a pool. The control database has one pool, and each server by address. */
export const SERVICE_POOL_SIZE = 6;

/**
 * Connections that an instance needs in addition to those to projects' databases (docs/servers.md): for both pools, if
 * the server has the control database, too, and sometimes to create, move or repair projects.
 */
export const SERVICE_CONNECTIONS = 2 * SERVICE_POOL_SIZE + 4;

/**
 * A network that drops packets breaks no connection: without a time limit, a query would wait forever. The first limit
 * is for short queries, and for the wait for a free connection; the second is for work such as CREATE DATABASE.
 */
const QUERY_MS = 3_000;
const WORK_MS = 120_000;

/** A query of the pool may ask for more time than {@link QUERY_MS}, up to this. */
const MAX_QUERY_MS = 40_000;

const IDLE_MS = 30_000;

/**
 * The service's own role resolves names only in pg_catalog, so that no function or operator of a project can be called,
 * and reports times in one format. Shorter time limits that an operator has set for the role would end a CREATE
 * DATABASE, or a session that only holds a lock. A backend must not keep waiting for a lock after its client has given
 * up: with a new one for each attempt, connections would soon run out.
 */
const SETTINGS = {
  search_path: 'pg_catalog',
  TimeZone: 'UTC',
  DateStyle: 'ISO,MDY',
  jit: 'off',
  client_connection_check_interval: '1000',
  lock_timeout: '0',
  idle_session_timeout: '0',
  idle_in_transaction_session_timeout: '0',
};

/**
 * A pool of the service's own role on the database of the address.
 * @param breaker shared with everything else that logs in there
 */
export function servicePool(address: ServerAddress, max: number, breaker = new CircuitBreaker()): Pool {
  const login = {
    ...serviceLogin(address, address.database, MAX_QUERY_MS),
    connectionTimeoutMillis: Math.min(QUERY_MS, address.connectionTimeoutMillis),
    timeoutMs: QUERY_MS,
  };
  const connect = () => breaker.runLogin((signal) => Session.connect(login, signal));
  return new Pool(connect, { max, idleMs: IDLE_MS, waitMs: QUERY_MS });
}

/**
 * Runs work in a short-lived session of the service's own role, in any database.
 * @param signal if aborted, the session ends with its reason
 */
export const withServiceSession = <T>(
  address: ServerAddress,
  database: string,
  work: (session: Session) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> => withSession({ ...serviceLogin(address, database, WORK_MS), timeoutMs: WORK_MS }, work, signal);

/** Logs in as the service's own role, and logs out again. @throws PostgresError, ConnectionLost */
export async function tryLogin(address: ServerAddress, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const login = { ...serviceLogin(address, address.database, QUERY_MS), connectionTimeoutMillis: timeoutMs };
  const session = await Session.connect(login, signal);
  void session.close();
}

const serviceLogin = (address: ServerAddress, database: string, statementTimeout: number): LoginOptions => ({
  ...address,
  database,
  application_name: 'cdp service',
  options: startupOptions({ ...SETTINGS, statement_timeout: String(statementTimeout) }),
});
