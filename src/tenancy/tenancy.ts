/**
 * How projects live on what the operator has: each on a server of its own (`own-server-tenancy.ts`), with others on one
 * server by address (`shared-tenancy.ts`), or alone on a Citus cluster (`citus-tenancy.ts`). An installation may have
 * several (`servers.ts`).
 */
import type { ProjectRow } from './control-rows.js';
import { CircuitBreaker } from './health/circuit-breaker.js';
import { StaleConnections } from './health/stale-connections.js';
import { Watchdog } from './connections/watchdog.js';
import type { Placement } from './placement.js';
import { servicePool } from './service-pool.js';
import type { Niceness } from '../embedded/niceness.js';
import type { Fragment, Pool, ServerAddress, Session } from '../pg/index.js';

/** A Postgres server that projects live on. */
export interface Server {
  /** The service's own login. `database` is one that no project can connect to. */
  readonly address: ServerAddress;
  /** A few connections of that login, for short questions. */
  readonly pool: Pool;
  readonly breaker: CircuitBreaker;
  readonly staleConnections: StaleConnections;
  readonly watchdog: Watchdog;
  /**
   * Keeps the server running until {@link release}.
   * @returns undefined if it runs already; else resolves when it does
   * @throws EngineError database_unavailable, overloaded; nothing needs to be released then
   */
  acquire(): Promise<void> | undefined;
  release(): void;
}

export interface Tenancy {
  /** Servers of projects that run now. */
  readonly running: number;
  /** Names for a new project. @throws EngineError database_unavailable */
  newPlacement(): Promise<Placement>;
  serverOf(place: Pick<Placement, 'server'>): Server;
  /** Whether the project's server runs, or is the operator's to run. */
  runs(placement: Placement): boolean;
  /** Creates everything of a placement, empty. After a failure or a crash, {@link drop} removes what is there. */
  create(placement: Placement): Promise<void>;
  /** Removes everything of a placement. Every step may have been done before. */
  drop(placement: Placement): Promise<void>;
  /** The options of a login role in CREATE ROLE and ALTER ROLE. */
  roleOptions(role: string): Fragment;
  password(role: string): string;
  /** The one that an instance with the previous secret gives the role; null: there is none. */
  previousPassword(role: string): string | null;
  /** Closes, in a project's database, what Postgres shows there of others; as often as it is called. */
  hideOthers(session: Session): Promise<void>;
  /**
   * Bytes on disk of the project's database; null if it is unknown, or gone. @throws EngineError database_unavailable
   */
  sizeOf(project: Pick<ProjectRow, 'placement' | 'sizeBytes'>): Promise<number | null>;
  /** Names of the extensions that a new project has. */
  extensions(): Promise<string[]>;
  /**
   * Projects may create schemas besides `data`: the service can limit that right. @throws EngineError
   * database_unavailable
   */
  mayOwnSchemas(): Promise<boolean>;
  /** The major version of Postgres. @throws EngineError database_unavailable */
  major(): Promise<number>;
  close(): Promise<void>;
}

/** What each server has of its own: the service's connections, and what watches over them. */
export function connectionsTo(
  address: ServerAddress,
  poolSize: number,
  niceness: Niceness | null,
): Pick<Server, 'address' | 'pool' | 'breaker' | 'staleConnections' | 'watchdog'> {
  const breaker = new CircuitBreaker();
  const pool = servicePool(address, poolSize, { breaker });
  return {
    address,
    pool,
    breaker,
    staleConnections: new StaleConnections(pool, breaker, niceness !== null),
    watchdog: new Watchdog(pool, niceness),
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
