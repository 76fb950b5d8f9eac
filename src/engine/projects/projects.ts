/**
 * The life of projects (contract C3). Creating and deleting each have a status, so that after a crash at any
 * step the next start, or the next attempt, can clean up.
 */
import { EngineError } from '../../contract/errors.js';
import { runPeriodically } from '../../tasks.js';
import { allDone } from '../../promises.js';
import { PROJECT_STATUSES, READY_STATUSES } from '../../contract/projects.js';
import { DEFAULT_SERVER, type PlacementRequest, serverName } from '../../contract/servers.js';
import { drain } from '../../tenancy/drain.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { Placement } from '../../tenancy/placement.js';
import type { RequestedRights } from '../../tenancy/project-database-setup.js';
import { serviceWork } from '../../tenancy/postgres-errors.js';
import { inUseElsewhere, withProjectLock } from '../../tenancy/control/project-lock.js';
import { noServer, serverRefOf } from '../../tenancy/control/server-rows.js';
import { NEVER_ABORTED } from '../../db/backend-request.js';
import { FairQueue } from '../../db/fair-queue.js';
import { WaitBudget } from '../../db/wait-budget.js';
import type { Tenancy } from '../../tenancy/tenancy.js';
import { BY_ITSELF, type AuditOrigin } from '../../contract/audit.js';
import { candidates } from './choose-server.js';
import {
  createProject,
  type FillProject,
  type MakeDatabase,
  needsSuperuser,
  notReady,
  projectExists,
  projectNotFound,
  type ProjectServices,
  requireName,
  UnfinishedProjects,
} from './create-project.js';
import { isProjectName } from '../../contract/names.js';

/** Maximum number of projects created, repaired or deleted at once: each takes several connections. */
const AT_ONCE = 4;

/** How often to check for projects that a crash has left half created or half deleted. */
const CLEAR_EVERY_MS = 60_000;

/** How long to wait for a turn. */
const TURN_MS = 5_000;

/** The parts of a project that come from a backup. */
interface RestoreOptions {
  readonly place: PlacementRequest;
  /** Restores its contents and its status. */
  readonly fill: FillProject;
  /** Creates its database; default: an empty one. */
  readonly make?: MakeDatabase;
}

/** The default is the server on which backups of files can be restored, too. */
const placeOfRestore = ({ server, labels }: PlacementRequest): PlacementRequest =>
  server === undefined && labels === undefined ? { server: DEFAULT_SERVER } : { server, labels };

export class Projects {
  /** Upgrades of project databases that this process has begun, by project. */
  private readonly upgrades = new Map<string, Promise<void>>();
  /** Projects that are half created or half deleted. */
  readonly unfinished: UnfinishedProjects;
  private stopClearing = () => {};
  private underWay = 0;
  private readonly queue = new FairQueue<null>({
    tryTake: () => this.tryTakeTurn(),
    order: 'first',
    late: 'Too many projects are being created, repaired or deleted',
  });

  constructor(
    private readonly services: ProjectServices,
    /** Called with the id of each deleted project. */
    private readonly onDeleted: (projectId: string) => void,
  ) {
    this.unfinished = new UnfinishedProjects(services);
  }

  /**
   * Creates a project. Nobody can use it before it is complete. If that fails, nothing of it remains.
   * @param request its server or labels; default: the least loaded server
   * @throws EngineError invalid_name, unique_violation, not_found, invalid_request, overloaded, database_unavailable,
   * outcome_unknown
   */
  create(name: string, by: AuditOrigin = BY_ITSELF, request: PlacementRequest = {}): Promise<ProjectRow> {
    return this.inTurn(() => createProject(this.services, this.unfinished, { name, by, request, fill: null }));
  }

  /**
   * Creates a project from a backup.
   * @throws EngineError as {@link create}; what `fill` and `make` throw
   */
  restore(name: string, by: AuditOrigin, { place, ...contents }: RestoreOptions): Promise<ProjectRow> {
    const request = placeOfRestore(place);
    return this.inTurn(() => createProject(this.services, this.unfinished, { name, by, request, ...contents }));
  }

  /**
   * Servers that can take a project from a backup.
   * @throws EngineError not_found, invalid_request, database_unavailable
   */
  async tenanciesAt(place: PlacementRequest): Promise<Tenancy[]> {
    const request = placeOfRestore(place);
    const servers = await candidates(this.services.control.servers, request);
    if (servers.length === 0) throw noServer(request);
    return servers.map((server) => {
      const at = serverRefOf(server);
      this.services.servers.requireUp(at);
      return this.services.servers.tenancyOf(at);
    });
  }

  /** @throws EngineError overloaded; what `work` throws */
  private async inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (!this.tryTakeTurn()) await this.queue.wait('', null, new WaitBudget(TURN_MS), NEVER_ABORTED);
    try {
      return await work();
    } finally {
      this.underWay--;
      this.queue.admitNext();
    }
  }

  private tryTakeTurn(): boolean {
    if (this.underWay >= AT_ONCE) return false;
    this.underWay++;
    return true;
  }

  list(): Promise<ProjectRow[]> {
    return this.services.control.projects.list();
  }

  /** @throws EngineError not_found */
  async get(name: string): Promise<ProjectRow> {
    const project = isProjectName(name) ? await this.services.control.projects.find('name', name) : null;
    if (project === null || project.status === 'deleting') throw projectNotFound(name);
    return project;
  }

  /**
   * @throws EngineError unauthorized, cdp_inactive if the project was deleted or deactivated after the look-up of its
   * token
   */
  async requireActive({ id }: ProjectRow): Promise<void> {
    const project = await this.services.control.projects.find('id', id);
    if (project === null) throw new EngineError('unauthorized', 'The project of this token was deleted');
    if (project.status !== 'active') throw new EngineError('cdp_inactive', 'The CDP is inactive for this project');
  }

  /**
   * Renames a project. Its id, tokens, data and running requests stay as they are.
   * @throws EngineError invalid_name, not_found, unique_violation, database_unavailable, outcome_unknown
   */
  async rename(name: string, newName: string, by: AuditOrigin): Promise<ProjectRow> {
    requireName(newName);
    const { id } = await this.get(name);
    await this.unfinished.clearNamed(newName);
    const entry = this.services.audit.entryOfChange(by, { operation: 'project.rename', object: newName });
    const project = await this.services.control.projects.rename(id, newName, entry);
    if (project !== null) return project;
    if ((await this.services.control.projects.find('name', newName)) !== null) throw projectExists(newName);
    throw notReady(name);
  }

  /**
   * Gives a restored project the name, the tokens, the status and the quota of another, which is kept, inactive.
   * @param old as it was before it was deactivated
   * @param kept its name from then on
   * @throws EngineError not_found, outcome_unknown
   */
  async replace(old: ProjectRow, restoredId: string, kept: string, by: AuditOrigin): Promise<void> {
    const entry = this.services.audit.entryOfChange(by, { operation: 'project.restore', object: `kept as ${kept}` });
    if (!(await this.services.control.projects.replace(old, restoredId, kept, entry))) throw notReady(old.name);
    if (old.feed === null) return;
    // The next start decodes changes, and begins a new log before the first request.
    const restored = await this.services.control.projects.find('id', restoredId);
    if (restored !== null) {
      const { placement } = restored;
      await this.services.servers.tenancyOf(placement).files?.stop(placement.server);
    }
  }

  /**
   * Deactivating waits for running requests, for about 70 s at most, so that a later backup contains all acknowledged
   * writes.
   * @param now cancel them instead
   * @throws EngineError not_found
   */
  async setActive(name: string, active: boolean, by: AuditOrigin, now = false): Promise<ProjectRow> {
    const project = await this.get(name);
    const status = active ? 'active' : 'inactive';
    const operation = active ? 'project.activate' : 'project.deactivate';
    const entry = this.services.audit.entryOfChange(by, { operation });
    if (!(await this.services.control.projects.setStatus(project.id, READY_STATUSES, status, entry))) {
      throw notReady(name);
    }
    if (!active) {
      const tenancy = this.services.servers.tenancyOf(project.placement);
      await drain(tenancy, project.placement, now ? { maxMs: 0 } : {});
      await tenancy.rollBackPrepared([project.placement], 0);
    }
    return { ...project, status };
  }

  /**
   * Repairs the project's roles, rights and schema after changes by the project or a half restored backup. The audit
   * entry follows a moment later, because the log is in another database.
   * @param requested rights to give again although the project has revoked them
   * @returns the repaired faults, and the rights given again, as text
   * @throws EngineError not_found, request_in_flight, database_unavailable
   */
  async repair(
    name: string,
    by: AuditOrigin,
    requested?: RequestedRights,
  ): Promise<{ project: ProjectRow; repaired: string[] }> {
    const { id } = await this.get(name);
    const restored = await this.inTurn(() =>
      withProjectLock(this.services.control.address, { id, name }, async () => {
        // A move may have just ended, or have been interrupted; it has to be cleaned up first.
        if ((await this.services.moveRows.listOpen(id)).length > 0) throw inUseElsewhere(name);
        const project = await this.get(name);
        const tenancy = this.services.servers.tenancyOf(project.placement);
        const repaired = await serviceWork(() =>
          this.services.databaseSetup.repair(tenancy, project.placement, requested),
        );
        return { project, repaired };
      }),
    );
    reportRepair(this.services, by, restored.project, restored.repaired);
    return restored;
  }

  isRunning({ placement }: ProjectRow): boolean {
    return this.services.servers.tenancyOf(placement).isRunning(placement);
  }

  /** The faults that {@link repair} would repair, as text. @throws EngineError database_unavailable */
  examine({ placement }: ProjectRow): Promise<string[]> {
    return serviceWork(() =>
      this.services.databaseSetup.examine(this.services.servers.tenancyOf(placement), placement),
    );
  }

  /**
   * @param bytes its own disk quota; 0: none; null: the setting
   * @throws EngineError not_found
   */
  async setQuota(name: string, bytes: number | null, by: AuditOrigin): Promise<ProjectRow> {
    const { id } = await this.get(name);
    const entry = this.services.audit.entryOfChange(by, { operation: 'project.quota' });
    const project = await this.services.control.projects.setQuota(id, bytes, entry);
    if (project === null) throw notReady(name);
    return project;
  }

  /**
   * Whether a project may create schemas besides `data`. Existing ones stay.
   * @throws EngineError not_found, invalid_request, database_unavailable
   */
  async setOwnSchemas(name: string, allowed: boolean, by: AuditOrigin): Promise<ProjectRow> {
    const { id, placement } = await this.get(name);
    const tenancy = this.services.servers.tenancyOf(placement);
    if (allowed && !(await tenancy.allowsOwnSchemas())) throw needsSuperuser();
    const entry = this.services.audit.entryOfChange(by, { operation: 'project.own_schemas' });
    const project = await this.services.control.projects.setOwnSchemas(id, allowed, entry);
    if (project === null) throw notReady(name);
    await serviceWork(() => this.services.databaseSetup.applyOwnSchemas(tenancy, project.placement));
    return project;
  }

  /**
   * Deletes a project and everything in it, permanently. Waits until its creation has ended, and also deletes what a
   * crash has left of a project.
   * @param lostServer a server that will not come back and is not contacted
   * @throws EngineError not_found, request_in_flight, overloaded, database_unavailable
   */
  async delete(name: string, by: AuditOrigin, lostServer: string | null = null): Promise<ProjectRow> {
    const project = isProjectName(name) ? await this.services.control.projects.find('name', name) : null;
    if (project === null) throw projectNotFound(name);
    return this.inTurn(() =>
      withProjectLock(this.services.control.address, project, async () => {
        // From here on the deletion is final: after a crash, the next start completes it.
        const entry = this.services.audit.entryOfChange(by, { operation: 'project.delete' });
        if (!(await this.services.control.projects.setStatus(project.id, PROJECT_STATUSES, 'deleting', entry)))
          throw projectNotFound(name);
        await this.unfinished.remove(project, null, lostServer);
        this.onDeleted(project.id);
        return project;
      }),
    );
  }

  /**
   * Rolls back transactions that sessions have prepared for two-phase commit, and not finished in this time. A server
   * that does not answer, or whose URL this instance does not have, is asked again by the next call.
   * @throws EngineError database_unavailable, after all other servers
   */
  async rollBackPrepared(olderThanMs: number): Promise<void> {
    const byServer = new Map<string, [Placement, ...Placement[]]>();
    for (const { placement } of await this.list()) {
      const server = serverName(placement);
      byServer.set(server, [placement, ...(byServer.get(server) ?? [])]);
    }
    const rollBack = async (placements: readonly [Placement, ...Placement[]]): Promise<void> =>
      this.services.servers.tenancyOf(placements[0]).rollBackPrepared(placements, olderThanMs);
    await allDone(Array.from(byServer.values(), rollBack));
  }

  /** See {@link Tenancy.startFailure}. */
  startFailure({ placement }: ProjectRow): string | null {
    return this.services.servers.tenancyOf(placement).startFailure(placement);
  }

  /** From now on, removes every minute the projects that another process, or a lost Postgres, has left incomplete. */
  startClearing(): void {
    this.stopClearing = runPeriodically(
      CLEAR_EVERY_MS,
      'clear_projects',
      () => this.unfinished.clear(),
      this.services.log,
    );
  }

  close(): void {
    this.stopClearing();
  }

  /**
   * Migrates a project's database to this program's version, once per process.
   * @returns undefined if it is up to date, as it nearly always is
   */
  upgradeIfNeeded(row: ProjectRow): Promise<void> | undefined {
    const { schemaVersion } = this.services.databaseSetup;
    if (row.schemaVersion >= schemaVersion) return undefined;
    let upgrade = this.upgrades.get(row.id);
    if (upgrade === undefined) {
      upgrade = serviceWork(() =>
        this.services.databaseSetup.upgrade(this.services.servers.tenancyOf(row.placement), row.placement),
      ).then(() => this.services.control.projects.setVersion(row.id, schemaVersion));
      this.upgrades.set(row.id, upgrade);
      upgrade.catch(() => this.upgrades.delete(row.id));
    }
    return upgrade;
  }
}

/**
 * Names what a repair has restored, in the log and in the audit log.
 * @param project null: it is unknown, since the control database does not answer
 * @param repaired as text
 */
export function reportRepair(
  { audit, log }: Pick<ProjectServices, 'audit' | 'log'>,
  by: AuditOrigin,
  project: Pick<ProjectRow, 'id' | 'name'> | null,
  repaired: readonly string[],
): void {
  if (repaired.length > 0)
    log.warn({ project: project?.name ?? null, repaired }, 'rights or roles of a project were restored');
  const object = repaired.length > 0 ? repaired.join('; ') : null;
  audit.record(by, { operation: 'project.repair', outcome: 'ok', project, object });
}
