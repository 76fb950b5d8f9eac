/** Creates a project: chooses and stores its place, then creates and fills its database; only then can it be used. */
import { randomUUID } from 'node:crypto';
import type { NewProject } from '../../backup/installation.js';
import { EngineError } from '../../contract/errors.js';
import type { PlacementRequest } from '../../contract/servers.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { tryWithProjectLock } from '../../tenancy/control/project-lock.js';
import { unavailable } from '../../tenancy/engine-error.js';
import type { Placement } from '../../tenancy/placement.js';
import { serviceWork } from '../../tenancy/service-work.js';
import type { Origin } from '../audit/audit.js';
import { candidates, noServer, placementOn } from './choose-server.js';
import { deletedMeanwhile, projectExists, perhapsCreated } from './project-errors.js';
import { requireName } from './project-name.js';
import type { ProjectParts } from './project-parts.js';
import type { UnfinishedProjects } from './unfinished-projects.js';

/** Fills a new project, for instance from a backup. @returns its status afterward */
export type Fill = (project: NewProject) => Promise<'active' | 'inactive'>;

export type Make = (placement: Placement) => Promise<void>;

interface CreateRequest {
  readonly name: string;
  readonly by: Origin;
  readonly request: PlacementRequest;
  /** null: the project begins empty and active. */
  readonly fill: Fill | null;
  /** Creates its database; default: an empty one. */
  readonly make?: Make;
}

/**
 * @throws EngineError invalid_name, unique_violation, not_found, invalid_request, database_unavailable, outcome_unknown
 */
export async function createProject(
  parts: ProjectParts,
  unfinished: UnfinishedProjects,
  wanted: CreateRequest,
): Promise<ProjectRow> {
  const { name, request } = wanted;
  requireName(name);
  await unfinished.clearNamed(name);
  const id = randomUUID();
  const created = await tryWithProjectLock(parts.control.address, id, async () => {
    await build(parts, unfinished, await insert(parts, { id, name }, request), wanted);
    return parts.control.projects.find('id', id);
  });
  if (created === null) throw deletedMeanwhile(name);
  return created;
}

/** Chooses the server, and stores the project as `creating`. */
async function insert(
  parts: ProjectParts,
  project: Pick<ProjectRow, 'id' | 'name'>,
  request: PlacementRequest,
): Promise<NewProject> {
  const { schemaVersion } = parts.databases;
  let unreachable: EngineError | null = null;
  for (const server of await candidates(parts.control.servers, request)) {
    const placement = await placementOn(server, parts).catch((error: unknown) => {
      if (!(error instanceof EngineError) || error.code !== 'database_unavailable') throw error;
      unreachable = error;
      return null;
    });
    if (placement === null) continue;
    const obstacle = await parts.control.projects.insert({ ...project, status: 'creating', placement, schemaVersion });
    if (obstacle === 'name') throw projectExists(project.name);
    if (obstacle === null) return { ...project, placement };
  }
  throw unreachable ?? noServer(request);
}

/** Completes a project that is marked as `creating`, or removes it. */
async function build(
  { control, servers, audit }: ProjectParts,
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
