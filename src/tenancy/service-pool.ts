/** Sessions of the service's own role: a pool for short queries, and one at a time for work that takes longer. */
import { type LoginOptions, Pool, type ServerAddress, Session, startupOptions, withSession } from '../pg/index.js';
import { CircuitBreaker } from './health/circuit-breaker.js';

/**
 * Connections that an instance opens in addition to those to projects' databases, as servers are sized for
 * (docs/servers.md): the pools', and now and then some to make or repair a project.
 */
export const CONNECTIONS_BESIDE_PROJECTS = 10;

/**
 * A network that swallows what is sent breaks no connection: without a time limit a query would wait for ever. The
 * first is for short queries, and for a free connection; the second for work such as the making of a database.
 */
const QUERY_MS = 3_000;
const WORK_MS = 120_000;

/** A query of the pool may ask for more than {@link QUERY_MS}, and for no more than this. */
const LONGEST_QUERY_MS = 40_000;

const IDLE_MS = 30_000;

/**
 * The service's own role resolves names in pg_catalog alone, so that nothing a project made can stand in for a function
 * or an operator, and reports times in one form. Shorter time limits that an operator has given the role would end the
 * making of a database, or a session that only holds a lock. A backend must not go on waiting for a lock when its
 * client has given up: with new ones for each attempt there would soon be no connection left.
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
 * @param options.kept connections that stay open though nobody uses them
 * @param options.breaker shared with everything else that logs in there
 */
export function servicePool(
  address: ServerAddress,
  max: number,
  { kept = 0, breaker = new CircuitBreaker() }: { kept?: number; breaker?: CircuitBreaker } = {},
): Pool {
  const login = {
    ...serviceLogin(address, address.database, LONGEST_QUERY_MS),
    connectionTimeoutMillis: Math.min(QUERY_MS, address.connectionTimeoutMillis),
    timeoutMs: QUERY_MS,
  };
  const connect = () => breaker.run((signal) => Session.connect(login, signal));
  return new Pool(connect, { max, kept, idleMs: IDLE_MS, waitMs: QUERY_MS });
}

/**
 * One short-lived session of the service's own role in any database.
 * @param signal aborted: the session ends, with its reason
 */
export const withServiceSession = <T>(
  address: ServerAddress,
  database: string,
  work: (session: Session) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> => withSession({ ...serviceLogin(address, database, WORK_MS), timeoutMs: WORK_MS }, work, signal);

/** Logs in as the service's own role, and out again. @throws PostgresError, ConnectionLost */
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
