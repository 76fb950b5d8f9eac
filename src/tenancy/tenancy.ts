/**
 * The interface of tenancies, the ways in which projects live on Postgres servers: each on its own embedded server
 * (`own-server-tenancy.ts`), several on one server by address (`shared-tenancy.ts`), or one alone on a Citus cluster
 * (`citus-tenancy.ts`). An installation may have several tenancies (`servers.ts`). A tenancy answers what can be done
 * with its projects, so that nobody has to know which one it is.
 */
import type { EngineError } from '../contract/errors.js';
import { memoized } from '../promises.js';
import type { ProjectRow } from './control/control-rows.js';
import { CircuitBreaker } from './health/circuit-breaker.js';
import { StaleConnections } from './health/stale-connections.js';
import { BackendControl } from './connections/watchdog.js';
import type { Placement, ProjectRoleNames } from './placement.js';
import { serverMajor } from './server-facts.js';
import { servicePool, withServiceSession } from './service-pool.js';
import type { Fleet } from '../embedded/fleet.js';
import type { Fragment, Pool, ServerAddress, Session } from '../pg/index.js';

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
  readonly watchdog: BackendControl;
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

/** The files of servers that have one project each, on this machine. `id` is {@link Placement.server}. */
export type ServerFiles = Pick<
  Fleet,
  | 'major'
  | 'version'
  | 'has'
  | 'folderOf'
  | 'createEmpty'
  | 'isRunning'
  | 'stopIfUnused'
  | 'archives'
  | 'archivesWal'
  | 'setArchiving'
>;

/** A database or role on a server, with the mark of the installation that has created it. */
export interface CreatedObject {
  readonly kind: 'database' | 'role';
  readonly name: string;
  /** The number of its sessions, if it is a database. */
  readonly sessions: number;
  readonly drop: () => Promise<void>;
}

interface Placements {
  /** Names for a new project. @throws EngineError database_unavailable */
  newPlacement(): Promise<Placement>;
  /** Creates everything of a placement, empty. After a failure or a crash, {@link drop} removes what is there. */
  create(placement: Placement): Promise<void>;
  /** Removes everything of a placement. Every step may have been done before. */
  drop(placement: Placement): Promise<void>;
  /**
   * The databases and roles that this installation has created on the server, databases first; null: a project there
   * leaves none, whatever happens to it.
   * @throws EngineError database_unavailable
   */
  createdObjects(): Promise<CreatedObject[] | null>;
}

interface ProjectServers {
  serverOf(ref: Pick<Placement, 'server'>): PostgresServer;
  /** Whether the project's server runs, or the operator is responsible for it. */
  runs(placement: Placement): boolean;
  /** Why the project's server did not start when it was last needed; null: it did, or the operator starts it. */
  startFailure(placement: Placement): string | null;
  /** The number of projects' servers that run now. */
  readonly running: number;
  /** How often a server that the service starts has ended unexpectedly, or did not start. */
  readonly failures: number;
  /** How many of these did not start when they were last needed. */
  readonly notStarting: number;
  /** The error for writes while the disk of the projects is nearly full; null: it is not, or the operator's. */
  readonly diskFullError: EngineError | null;
  /** What can be saved as files, restored from them and archived; null: the operator has the server's files. */
  readonly files: ServerFiles | null;
  /** The major version of Postgres. @throws EngineError database_unavailable */
  major(): Promise<number>;
  /**
   * Bytes on disk of the project's database; null if it is unknown, or gone. @throws EngineError database_unavailable
   */
  sizeOf(project: Pick<ProjectRow, 'placement' | 'sizeBytes'>): Promise<number | null>;
}

interface RoleRules {
  /** The options of a login role in CREATE ROLE and ALTER ROLE. */
  roleOptions(role: string): Fragment;
  password(role: string): string;
  /** The role's password under the previous secret; null: there is none. */
  previousPassword(role: string): string | null;
  /** Hides information about other projects that Postgres shows in a project's database. Can be repeated. */
  hideOthers(session: Session): Promise<void>;
  /** Whether a project that comes from this place keeps the names of its roles. */
  keepsRoleNames(from: ProjectRoleNames): boolean;
  /**
   * Those of the roles that exist there, besides those of projects.
   * @param names and result: as quote_ident writes them
   * @throws EngineError database_unavailable
   */
  otherRoles(names: readonly string[]): Promise<string[]>;
}

interface Capabilities {
  /** Names of the extensions that a new project has. */
  extensions(): Promise<string[]>;
  /**
   * Whether projects may create schemas besides `data`, because the service can limit that right.
   * @throws EngineError database_unavailable
   */
  allowsOwnSchemas(): Promise<boolean>;
  /** Whether the rows of tables may be distributed over several machines. */
  readonly distributesTables: boolean;
  /**
   * Rolls back transactions of the projects that were prepared for two-phase commit, and not finished in this time.
   * @throws EngineError database_unavailable
   */
  rollBackPrepared(placements: readonly Placement[], olderThanMs: number): Promise<void>;
  /** Finishes what the server has prepared itself, so that committed rows are visible on all machines. */
  recoverPrepared(session: Session): Promise<void>;
  /** Whether the service can restart a project's server with other settings. */
  readonly canRestart: boolean;
  /**
   * Lets the changes of a project be decoded (setting `wal_level`): the project's own server restarts for that, and
   * requests wait. Undone, it returns to its settings at the next start. Does nothing where the operator sets this.
   */
  setLogicalDecoding(placement: Placement, on: boolean): Promise<void>;
  /** Why changes cannot be streamed into a project there; null: they can. */
  readonly obstacleToStream: string | null;
  /**
   * Whether the service's role may set a parameter that is not for every role.
   * @throws PostgresError, ConnectionLost
   */
  maySet(parameter: string): Promise<boolean>;
}

export interface Tenancy extends Placements, ProjectServers, RoleRules, Capabilities {
  close(): Promise<void>;
}

/** Where a project lives, or lived, or will. */
export interface ProjectDatabase {
  readonly tenancy: Tenancy;
  readonly placement: Placement;
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
    watchdog: new BackendControl(pool, started?.niceness),
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
