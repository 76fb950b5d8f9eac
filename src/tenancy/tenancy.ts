/**
 * The interface of tenancies, the ways in which projects live on Postgres servers: each on its own embedded server
 * (`own-server-tenancy.ts`), several on one server by address (`shared-tenancy.ts`), or one alone on a Citus cluster
 * (`citus-tenancy.ts`). An installation may have several tenancies (`servers.ts`).
 */
import type { ProjectRow } from './control/control-rows.js';
import { CircuitBreaker } from './health/circuit-breaker.js';
import { StaleConnections } from './health/stale-connections.js';
import { Watchdog } from './connections/watchdog.js';
import type { Placement } from './placement.js';
import { servicePool, withServiceSession } from './service-pool.js';
import type { Fleet } from '../embedded/fleet.js';
import type { Fragment, Pool, ServerAddress, Session } from '../pg/index.js';

/** A Postgres server that projects live on. */
export interface Server {
  /** The service's own login. `database` is one that no project can connect to. */
  readonly address: ServerAddress;
  /** A few connections of that login, for short queries. */
  readonly pool: Pool;
  readonly breaker: CircuitBreaker;
  readonly staleConnections: StaleConnections;
  readonly watchdog: Watchdog;
  /**
   * Keeps the server running until {@link release}.
   * @returns undefined if it already runs; otherwise resolves when it does
   * @throws EngineError database_unavailable, overloaded; nothing needs to be released then
   */
  acquire(): Promise<void> | undefined;
  release(): void;
}

export interface Tenancy {
  /** The embedded servers of its projects; null: the operator runs the server. */
  readonly fleet: Fleet | null;
  /** The number of projects' servers that run now. */
  readonly running: number;
  /** Names for a new project. @throws EngineError database_unavailable */
  newPlacement(): Promise<Placement>;
  serverOf(place: Pick<Placement, 'server'>): Server;
  /** Whether the project's server runs, or the operator is responsible for it. */
  runs(placement: Placement): boolean;
  /** Creates everything of a placement, empty. After a failure or a crash, {@link drop} removes what is there. */
  create(placement: Placement): Promise<void>;
  /** Removes everything of a placement. Every step may have been done before. */
  drop(placement: Placement): Promise<void>;
  /** The options of a login role in CREATE ROLE and ALTER ROLE. */
  roleOptions(role: string): Fragment;
  password(role: string): string;
  /** The role's password under the previous secret; null: there is none. */
  previousPassword(role: string): string | null;
  /** Hides information about other projects that Postgres shows in a project's database. Can be repeated. */
  hideOthers(session: Session): Promise<void>;
  /**
   * Bytes on disk of the project's database; null if it is unknown, or gone. @throws EngineError database_unavailable
   */
  sizeOf(project: Pick<ProjectRow, 'placement' | 'sizeBytes'>): Promise<number | null>;
  /** Names of the extensions that a new project has. */
  extensions(): Promise<string[]>;
  /**
   * Whether projects may create schemas besides `data`, because the service can limit that right.
   * @throws EngineError database_unavailable
   */
  mayOwnSchemas(): Promise<boolean>;
  /** The major version of Postgres. @throws EngineError database_unavailable */
  major(): Promise<number>;
  close(): Promise<void>;
}

/**
 * Creates the parts that each server needs: the service's connections, and their monitoring.
 * @param fleet that starts the server; null: the operator does
 */
export function connectionsTo(
  address: ServerAddress,
  poolSize: number,
  fleet: Pick<Fleet, 'niceness'> | null,
): Pick<Server, 'address' | 'pool' | 'breaker' | 'staleConnections' | 'watchdog'> {
  const breaker = new CircuitBreaker();
  const pool = servicePool(address, poolSize, breaker);
  return {
    address,
    pool,
    breaker,
    staleConnections: new StaleConnections(pool, breaker, fleet !== null),
    watchdog: new Watchdog(pool, fleet?.niceness),
  };
}

/** Runs `work` while the server runs. */
export async function withServer<T>(server: Server, work: () => Promise<T>): Promise<T> {
  await server.acquire();
  try {
    return await work();
  } finally {
    server.release();
  }
}

/**
 * Runs `work` in the project's database as the service's own role, while its server runs.
 * @param signal if aborted, the session ends with its reason
 * @throws PostgresError, ConnectionLost; EngineError database_unavailable if the server does not start
 */
export const inDatabase = <T>(
  tenancy: Tenancy,
  placement: Placement,
  work: (session: Session) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> => {
  const server = tenancy.serverOf(placement);
  return withServer(server, () => withServiceSession(server.address, placement.database, work, signal));
};
