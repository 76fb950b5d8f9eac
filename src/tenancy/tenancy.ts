/**
 * The interface of tenancies, the ways in which projects live on Postgres servers: each on its own embedded server
 * (`own-server-tenancy.ts`), several on one server by address (`own-database-tenancy.ts`), or one alone on a Citus cluster
 * (`citus-tenancy.ts`). An installation may have several tenancies (`servers.ts`). A tenancy answers what can be done
 * with its projects, so that nobody has to know which one it is.
 */
import type { ProjectRow } from './control/control-rows.js';
import type { Placement, ProjectRoleNames } from './placement.js';
import { withServiceSession } from './service-pool.js';
import type { Fleet, LackOfRoom } from '../embedded/fleet.js';
import type { Fragment, Session } from '../pg/index.js';
import { type PostgresServer, withServer } from './postgres-server.js';

/** The files of servers that have one project each, on this machine. `id` is {@link Placement.server}. */
export type ServerFiles = Pick<
  Fleet,
  | 'major'
  | 'version'
  | 'has'
  | 'folderOf'
  | 'controlFolder'
  | 'createEmpty'
  | 'isRunning'
  | 'stop'
  | 'takeAwakeMs'
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
  isRunning(placement: Placement): boolean;
  /** Why the project's server did not start when it was last needed; null: it did, or the operator starts it. */
  startFailure(placement: Placement): string | null;
  /** The number of projects' servers that run now. */
  readonly runningServers: number;
  /** How often a server that the service starts has ended unexpectedly, or did not start. */
  readonly failures: number;
  /** How many of these did not start when they were last needed. */
  readonly notStarting: number;
  /** Whether its projects can only be read, because their disk is nearly full. Never, where the operator has the disk. */
  readonly isReadOnly: boolean;
  /** What may not be written to the project then; null: there is room. */
  lackOfRoom(placement: Placement): LackOfRoom | null;
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
  /** Marks a new role that a project has made, where its name alone would not tell whose it is. */
  markRole(session: Session, role: string): Promise<void>;
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
