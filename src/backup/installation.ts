/** The parts of the service that a backup reads and a restore changes. */
import type { RestoreDone } from '../contract/wire/operator.js';
import type { ControlDatabase } from '../tenancy/control.js';
import type { ProjectRow } from '../tenancy/control-rows.js';
import type { Placement } from '../tenancy/placement.js';
import type { ProjectDatabases } from '../tenancy/project-databases.js';
import type { Servers } from '../tenancy/servers.js';
import type { Tenancy } from '../tenancy/tenancy.js';

export interface Installation {
  readonly control: ControlDatabase;
  readonly databases: ProjectDatabases;
  readonly servers: Servers;
  readonly projects: ProjectsOfInstallation;
  /** Adds an entry to the audit log. */
  readonly record: (operation: 'project.backup' | 'project.archive', project: Pick<ProjectRow, 'id' | 'name'>) => void;
}

/** A project that nobody can use yet. */
export type NewProject = Pick<ProjectRow, 'id' | 'name' | 'placement'>;

/** What a backup has of a project: how a new project gets it. */
export interface Contents {
  /** Makes its server or database; default: an empty one. */
  readonly make?: (placement: Placement) => Promise<void>;
  /** @param placement its server runs */
  readonly fill: (placement: Placement) => Promise<Pick<RestoreDone['projects'][number], 'tables' | 'left_out'>>;
}

/** Where projects are restored; neither: on the server `default`. */
export interface RestorePlace {
  readonly server?: string | undefined;
  /** On the least loaded of those that have them. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

interface ProjectsOfInstallation {
  list(): Promise<ProjectRow[]>;
  /** @throws EngineError not_found */
  get(name: string): Promise<ProjectRow>;
  /** Brings the project's database up to the schema of this program. */
  upgraded(project: ProjectRow): Promise<void> | undefined;
  /**
   * Servers that may take a project.
   * @throws EngineError not_found; invalid_request if there is none; database_unavailable
   */
  tenanciesAt(place: RestorePlace): Promise<Tenancy[]>;
  /**
   * Makes a project. After a failure nothing of it stays.
   * @param fill puts its contents into it. @returns its status
   * @param make makes its server or database; default: an empty one
   * @throws EngineError unique_violation; what `fill` and `make` throw
   */
  restore(
    name: string,
    place: RestorePlace,
    fill: (project: NewProject) => Promise<'active' | 'inactive'>,
    make?: (placement: Placement) => Promise<void>,
  ): Promise<unknown>;
  delete(name: string): Promise<unknown>;
}

/** Projects that a crash left half made or half deleted have nothing to save, and do not exist for a restore. */
export const isReady = ({ status }: Pick<ProjectRow, 'status'>): boolean =>
  status === 'active' || status === 'inactive';
