/** Creates a project, and removes what a crash has left half created or half deleted. */
import { randomUUID } from 'node:crypto';
import type { NewProject } from '../../backup/backup-services.js';
import type { MoveServices } from '../../moves/move-services.js';
import { EngineError } from '../../contract/errors.js';
import { isProjectName, PROJECT_NAME_IN_WORDS } from '../../contract/names.js';
import { PROJECT_STATUSES, type ProjectStatus } from '../../contract/projects.js';
import { type PlacementRequest, serverName } from '../../contract/servers.js';
import type { AuditRow } from '../../tenancy/control/audit-rows.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { tryWithProjectLock, withProjectLock } from '../../tenancy/control/project-lock.js';
import { noServer } from '../../tenancy/control/server-rows.js';
import { unavailable, serviceWork } from '../../tenancy/postgres-errors.js';
import type { Placement } from '../../tenancy/placement.js';
import { BY_ITSELF, type AuditOrigin } from '../../contract/audit.js';
import type { Audit } from '../audit/audit.js';
import { candidates, placementOn } from './choose-server.js';

/** What operations on projects need of the service. */
export interface ProjectServices extends Pick<
  MoveServices,
  'control' | 'moveRows' | 'servers' | 'databaseSetup' | 'log'
> {
  readonly audit: Audit;
}

/** Fills a new project, for instance from a backup. @returns its status afterward */
export type FillProject = (project: NewProject) => Promise<'active' | 'inactive'>;

export type MakeDatabase = (placement: Placement) => Promise<void>;

interface CreateRequest {
  readonly name: string;
  readonly by: AuditOrigin;
  readonly request: PlacementRequest;
  /** null: the project begins empty and active. */
  readonly fill: FillProject | null;
  /** Creates its database; default: an empty one. */
  readonly make?: MakeDatabase;
}

/**
 * @throws EngineError invalid_name, unique_violation, not_found, invalid_request, database_unavailable, outcome_unknown
 */
export async function createProject(
  services: ProjectServices,
  unfinished: UnfinishedProjects,
  options: CreateRequest,
): Promise<ProjectRow> {
  const { name, request } = options;
  requireName(name);
  await unfinished.clearNamed(name);
  const id = randomUUID();
  const created = await withProjectLock(services.control.address, { id, name }, async () => {
    await completeProject(services, unfinished, await storeProject(services, { id, name }, request), options);
    return services.control.projects.find('id', id);
  });
  if (created === null) throw deletedMeanwhile(name);
  return created;
}

/** Chooses the server, and stores the project as `creating`. */
async function storeProject(
  services: ProjectServices,
  project: Pick<ProjectRow, 'id' | 'name'>,
  request: PlacementRequest,
): Promise<NewProject> {
  const { schemaVersion } = services.databaseSetup;
  let unreachable: EngineError | null = null;
  for (const server of await candidates(services.control.servers, request)) {
    const placement = await placementOn(server, services).catch((error: unknown) => {
      if (!(error instanceof EngineError) || error.code !== 'database_unavailable') throw error;
      unreachable = error;
      return null;
    });
    if (placement === null) continue;
    const obstacle = await services.control.projects.insert({
      ...project,
      status: 'creating',
      placement,
      schemaVersion,
    });
    if (obstacle === 'name') throw projectExists(project.name);
    if (obstacle === null) return { ...project, placement };
  }
  throw unreachable ?? noServer(request);
}

/** Completes a project that is marked as `creating`, or removes it. */
async function completeProject(
  { control, servers, audit }: ProjectServices,
  unfinished: UnfinishedProjects,
  project: NewProject,
  { by, fill, make = (placement) => servers.tenancyOf(placement).create(placement) }: CreateRequest,
): Promise<void> {
  const { id, name, placement } = project;
  try {
    await serviceWork(() => make(placement));
    const status = fill === null ? 'active' : await fill(project);
    const entry = audit.entryOfChange(by, { operation: fill === null ? 'project.create' : 'project.restore' });
    if (!(await control.projects.setStatus(id, ['creating'], status, entry))) throw deletedMeanwhile(name);
  } catch (error) {
    // The unfinished project is removed now if possible, otherwise by the next check.
    const isGone = await unfinished.undoCreate(project).then(
      () => true,
      () => false,
    );
    if (!(error instanceof EngineError) || error.code !== 'outcome_unknown') throw error;
    throw isGone ? unavailable(error) : perhapsCreated(name, error);
  }
}

// Deletes projects that a crash has left half created or half deleted, as their status shows. Those that a live
// process is working on are left alone.

const UNFINISHED: readonly ProjectStatus[] = ['creating', 'deleting'];

type ProjectPlace = Pick<ProjectRow, 'id' | 'placement'>;

export class UnfinishedProjects {
  constructor(private readonly services: ProjectServices) {}

  /** Removes all of them. If that fails for a project, it keeps its status for the next check. */
  async clear(): Promise<void> {
    const unreachable = new Set<string>();
    for (const project of await this.services.control.projects.list()) {
      const { server } = project.placement;
      if (!UNFINISHED.includes(project.status) || unreachable.has(server)) continue;
      await this.clearOne(project).catch((error: unknown) => {
        // Other projects on this server would have to wait as long.
        if (error instanceof EngineError && error.code === 'database_unavailable') unreachable.add(server);
        this.report(project, error);
      });
    }
  }

  private report({ name, status }: ProjectRow, error: unknown): void {
    const cause = error instanceof EngineError ? (error.cause ?? error) : error;
    const fields = { project: name, status, error: String(cause) };
    this.services.log.error(fields, 'a project is incomplete and cannot be cleaned up');
  }

  /**
   * Removes an unfinished project of this name, so that the name can be used again.
   * @throws EngineError database_unavailable
   */
  async clearNamed(name: string): Promise<void> {
    const project = await this.services.control.projects.find('name', name);
    if (project !== null && UNFINISHED.includes(project.status)) await this.clearOne(project);
  }

  /**
   * Removes a project that this process was creating. It may already be active, if that change reached Postgres and
   * only the response was lost.
   */
  async undoCreate({ id, placement }: ProjectPlace): Promise<void> {
    await this.services.control.projects.setStatus(id, PROJECT_STATUSES, 'deleting', null);
    await this.remove({ id, placement }, null);
  }

  /**
   * Removes a project whose status is `deleting`: its database, its roles, the remains of moves and, last, its row.
   * @param lostServer a server that will not come back
   */
  async remove(
    { id, placement }: ProjectPlace,
    entry: AuditRow | null,
    lostServer: string | null = null,
  ): Promise<void> {
    const moves = await this.services.moveRows.listOpen(id);
    for (const place of [placement, ...moves.flatMap(({ source, target }) => [source, target])]) {
      if (serverName(place) !== lostServer) await serviceWork(() => this.services.servers.tenancyOf(place).drop(place));
    }
    await this.services.control.projects.delete(id, entry);
  }

  /**
   * Checks the status again under the lock: the previous holder may have finished. The status stops a holder that has
   * lost the lock with its connection and does not know it.
   */
  private async clearOne(project: ProjectPlace): Promise<void> {
    await tryWithProjectLock(this.services.control.address, project.id, async () => {
      if (!(await this.services.control.projects.setStatus(project.id, UNFINISHED, 'deleting', null))) return;
      await this.remove(project, this.services.audit.entryOfChange(BY_ITSELF, { operation: 'repair' }));
    });
  }
}

export const projectExists = (name: string) =>
  new EngineError('unique_violation', `A project "${name}" already exists`);

export const notReady = (name: string) => new EngineError('not_found', `Project "${name}" is not ready`);

/** Cuts the name, since a path may contain anything. */
export const projectNotFound = (name: string) =>
  new EngineError('not_found', `There is no project "${name.slice(0, 63)}"`);

export const needsSuperuser = () =>
  new EngineError('invalid_request', 'Projects on this server cannot have schemas of their own', {
    hint: 'A role that may create schemas may also install trusted extensions. Only a superuser can prevent that: make the role of DATABASE_URL a superuser.',
  });

/** The response to the last step was lost, and so was the connection that could undo it. */
const perhapsCreated = (name: string, cause: unknown) =>
  new EngineError(
    'outcome_unknown',
    `The connection to Postgres was lost in the last step: check whether project "${name}" exists before retrying`,
    { cause, retryAfter: null },
  );

const deletedMeanwhile = (name: string) =>
  new EngineError('not_found', `Project "${name}" was deleted while it was being created`);

/** @throws EngineError invalid_name */
export function requireName(name: string): void {
  if (isProjectName(name)) return;
  throw new EngineError('invalid_name', `A project's name must be ${PROJECT_NAME_IN_WORDS}`);
}
