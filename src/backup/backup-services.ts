/** What backups and restores need of the service. The engine hands it in. */
import type { PlacementRequest } from '../contract/servers.js';
import type { RestoreDone } from '../contract/wire/admin-socket.js';
import type { Declaration } from '../contract/wire/subjects.js';
import type { ControlDatabase } from '../tenancy/control/control.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import type { Placement } from '../tenancy/placement.js';
import type { ProjectDatabaseSetup } from '../tenancy/project-database-setup.js';
import type { Servers } from '../tenancy/servers.js';
import type { Tenancy } from '../tenancy/tenancy.js';

export interface BackupServices {
  readonly control: ControlDatabase;
  readonly databaseSetup: ProjectDatabaseSetup;
  readonly servers: Servers;
  readonly projects: BackupProjects;
  readonly erasures: RestoredErasures;
  /** Logs and counts damaged data of a project. @param place nothing that a caller has chosen */
  readonly onCorruption: (projectName: string, place: object) => void;
  /** Adds an entry to the audit log. */
  readonly record: (operation: 'project.backup' | 'project.archive', project: Pick<ProjectRow, 'id' | 'name'>) => void;
}

interface RestoredErasures {
  /**
   * Erases again whoever was erased after the state that was restored.
   * @param origin lineage null: the backup is of an earlier version
   * @param declaration in the backup; null: none
   * @returns what was done, and what could not be, in words
   * @throws Error, EngineError: the project must not be used
   */
  eraseAgain(
    placement: Placement,
    origin: { readonly lineage: string | null; readonly name: string; readonly server: string | null },
    declaration: Declaration | null,
  ): Promise<string[]>;
}

/** A project that does not accept requests yet. */
export type NewProject = Pick<ProjectRow, 'id' | 'name' | 'placement'>;

/** A project's contents in a backup, and how to restore them. */
export interface ProjectContents {
  /** Creates the server or database; default: an empty one. */
  readonly make?: (placement: Placement) => Promise<void>;
  /** The end of the archived write-ahead log that is replayed; null: only the backup's own is, or up to a moment. */
  readonly reaches?: Date | null;
  /** Explains why the server did not start. */
  readonly explain?: (error: unknown) => unknown;
  /** @param placement on a running server */
  readonly fill: (
    placement: Placement,
  ) => Promise<Pick<RestoreDone['projects'][number], 'tables' | 'left_out' | 'damage'>>;
}

interface BackupProjects {
  list(): Promise<ProjectRow[]>;
  /** @throws EngineError not_found */
  get(name: string): Promise<ProjectRow>;
  /** Brings the project's database to the schema version of this program. */
  upgradeIfNeeded(row: ProjectRow): Promise<void> | undefined;
  /**
   * The servers that may accept a project.
   * @throws EngineError not_found; invalid_request if there is none; database_unavailable
   */
  tenanciesAt(place: PlacementRequest): Promise<Tenancy[]>;
  /**
   * Creates a project. After a failure, nothing of it remains.
   * @param fill restores its contents and returns its status
   * @param make creates its server or database; default: an empty one
   * @throws EngineError unique_violation; what `fill` and `make` throw
   */
  restore(
    name: string,
    place: PlacementRequest,
    fill: (project: NewProject) => Promise<'active' | 'inactive'>,
    make?: (placement: Placement) => Promise<void>,
  ): Promise<unknown>;
  delete(name: string): Promise<unknown>;
  /** Deactivating waits for running requests. @throws EngineError not_found, database_unavailable */
  setActive(name: string, active: boolean): Promise<unknown>;
  /**
   * Gives a restored project the name, the tokens, the status and the quota of another, which is kept.
   * @param kept the other's name from then on
   * @throws EngineError not_found, outcome_unknown
   */
  replace(old: ProjectRow, restoredId: string, kept: string): Promise<void>;
}
