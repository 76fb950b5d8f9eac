/** A Postgres server that projects live on: the service's own connections to it, and their monitoring. */
import type { Fleet } from '../embedded/fleet.js';
import type { Pool, ServerAddress } from '../pg/index.js';
import { memoized } from '../promises.js';
import { BackendControl } from './connections/backend-control.js';
import { CircuitBreaker } from './health/circuit-breaker.js';
import { StaleConnections } from './health/stale-connections.js';
import { servicePool } from './service-pool.js';
import { serverMajor } from './server-facts.js';

/** The first major version with the setting `transaction_timeout`. */
export const TRANSACTION_TIMEOUT = 17;

/** A Postgres server that projects live on. */
export interface PostgresServer {
  /** The service's own login. `database` is one that no project can connect to. */
  readonly address: ServerAddress;
  /** A few connections of that login, for short queries. */
  readonly pool: Pool;
  readonly breaker: CircuitBreaker;
  readonly staleConnections: StaleConnections;
  readonly backendControl: BackendControl;
  /**
   * Whether it has the setting `transaction_timeout`, as Postgres 17 and later do. Asked once.
   * @throws EngineError database_unavailable
   */
  hasTransactionTimeout(): Promise<boolean>;
  /**
   * Keeps the server running until {@link release}.
   * @returns undefined if it already runs; otherwise resolves when it does
   * @throws EngineError database_unavailable, overloaded; nothing needs to be released then
   */
  acquire(): Promise<void> | undefined;
  release(): void;
}

/**
 * Creates the parts that each server needs: the service's connections, and their monitoring.
 * @param started by the service itself; null: by the operator
 */
export function connectionsTo(
  address: ServerAddress,
  poolSize: number,
  started: Pick<Fleet, 'niceness' | 'major'> | null,
): Omit<PostgresServer, 'acquire' | 'release'> {
  const breaker = new CircuitBreaker();
  const pool = servicePool(address, poolSize, breaker);
  return {
    address,
    pool,
    breaker,
    staleConnections: new StaleConnections(pool, breaker, started !== null),
    backendControl: new BackendControl(pool, started?.niceness),
    hasTransactionTimeout: memoized(async () => (started?.major ?? (await serverMajor(pool))) >= TRANSACTION_TIMEOUT),
  };
}

/** Runs `work` while the server runs. */
export async function withServer<T>(server: PostgresServer, work: () => Promise<T>): Promise<T> {
  await server.acquire();
  try {
    return await work();
  } finally {
    server.release();
  }
}
