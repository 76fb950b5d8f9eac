/**
 * The life of projects (contract section 2). Creating and deleting pass through a status of their own, so that a crash
 * at any step leaves a mark that the next start, or the next attempt, clears away.
 */
import { randomUUID } from 'node:crypto';
import type { NewProject } from '../backup/installation.js';
import { EngineError } from '../contract/errors.js';
import { PROJECT_NAME_PATTERN } from '../contract/names.js';
import { PROJECT_STATUSES } from '../contract/projects.js';
import type { ControlDatabase } from '../tenancy/control.js';
import { drain } from '../tenancy/drain.js';
import { unavailable } from '../tenancy/engine-error.js';
import type { ProjectRow } from '../tenancy/control-rows.js';
import type { Placement } from '../tenancy/placement.js';
import type { ProjectDatabases } from '../tenancy/project-databases.js';
import { serviceWork } from '../tenancy/service-work.js';
import type { Tenancy } from '../tenancy/tenancy.js';
import { Slots } from './limits/slots.js';
import { type Audit, BY_ITSELF, type Origin } from './audit/audit.js';
import { type OnUncleared, UnfinishedProjects } from './unfinished-projects.js';

/** Projects created, repaired or deleted at once: each takes several connections and makes Postgres copy or delete files. */
const AT_ONCE = 4;

/** How often the service checks for projects that a crash has left half created or half deleted. */
const CLEAR_EVERY_MS = 60_000;

/** How long to wait for a slot, or for another process that is creating or deleting the same project. */
const WAIT_MS = 5_000;

const NAME = new RegExp(PROJECT_NAME_PATTERN);

/** False for what cannot be a project's name; Postgres could not even be asked for a name with U+0000. */
export const isProjectName = (name: string): boolean => NAME.test(name);

/** Fills a new project, for instance from a backup. @returns the status that it gets */
type Fill = (project: NewProject) => Promise<'active' | 'inactive'>;

type Make = (placement: Placement) => Promise<void>;

export class Projects {
  /** Upgrades of project databases under way or done in this process, by project. */
  private readonly upgrades = new Map<string, Promise<void>>();
  /** Those that are half created or half deleted. */
  readonly unfinished: UnfinishedProjects;
  private clearing: NodeJS.Timeout | undefined;
  private readonly slots = new Slots({
    total: AT_ONCE,
    running: AT_ONCE,
    reservedForTyped: 0,
    waiting: Infinity,
    waitMs: WAIT_MS,
  });

  constructor(
    private readonly control: ControlDatabase,
    private readonly tenancy: Tenancy,
    private readonly databases: ProjectDatabases,
    private readonly audit: Audit,
    onUncleared: OnUncleared,
  ) {
    this.unfinished = new UnfinishedProjects(control, tenancy, audit, onUncleared);
  }

  /**
   * Creates a project, which nobody can use before it is complete. If that fails, nothing of it stays.
   * @param fill restores its contents and its status; null: it is empty and active
   * @param make creates its database; default: an empty one
   * @throws EngineError invalid_name, unique_violation, overloaded, database_unavailable, outcome_unknown; what `fill` throws
   */
  async create(
    name: string,
    by: Origin = BY_ITSELF,
    fill: Fill | null = null,
    make: Make = (placement) => this.tenancy.create(placement),
  ): Promise<ProjectRow> {
    if (!isProjectName(name)) {
      throw new EngineError('invalid_name', `A project's name must match ${PROJECT_NAME_PATTERN}`);
    }
    const project = {
      id: randomUUID(),
      name,
      status: 'creating' as const,
      placement: this.tenancy.newPlacement(),
      schemaVersion: this.databases.schemaVersion,
    };
    const created = await this.inSlot(async () => {
      await this.unfinished.clearNamed(name);
      return this.control.withProjectLock(project.id, async () => {
        if (!(await this.control.insertProject(project))) {
          throw new EngineError('unique_violation', `A project "${name}" already exists`);
        }
        await this.build(project, by, fill, make);
        return this.control.projectByName(name);
      });
    });
    if (created === null) throw deletedMeanwhile(name);
    return created;
  }

  /** @throws EngineError overloaded; what `work` throws */
  private async inSlot<T>(work: () => Promise<T>): Promise<T> {
    const release = await this.slots.acquire('', 'typed');
    try {
      return await work();
    } finally {
      release();
    }
  }

  /** Completes a project that is marked as `creating`, or takes it away. */
  private async build(project: NewProject, by: Origin, fill: Fill | null, make: Make): Promise<void> {
    const { id, name, placement } = project;
    try {
      await serviceWork(() => make(placement));
      const status = fill === null ? 'active' : await fill(project);
      const entry = this.audit.entryOfChange(by, { operation: fill === null ? 'project.create' : 'project.restore' });
      if (!(await this.control.setProjectStatus(id, ['creating'], status, entry))) throw deletedMeanwhile(name);
    } catch (error) {
      // What is there so far goes away now if possible, else with the next check.
      const isGone = await this.unfinished.takeBack(project).then(
        () => true,
        () => false,
      );
      if (!(error instanceof EngineError) || error.code !== 'outcome_unknown') throw error;
      throw isGone ? unavailable(error) : perhapsCreated(name, error);
    }
  }

  list(): Promise<ProjectRow[]> {
    return this.control.projects();
  }

  /** @throws EngineError not_found */
  async get(name: string): Promise<ProjectRow> {
    const project = isProjectName(name) ? await this.control.projectByName(name) : null;
    if (project === null || project.status === 'deleting') throw notFound(name);
    return project;
  }

  /**
   * @throws EngineError unauthorized, cdp_inactive if the project was deleted or deactivated after its token had been looked up
   */
  async requireActive({ id, name }: ProjectRow): Promise<void> {
    const project = await this.control.projectByName(name);
    if (project?.id !== id) throw new EngineError('unauthorized', 'The project of the token was deleted');
    if (project.status !== 'active') throw new EngineError('cdp_inactive', 'The CDP is inactive for this project');
  }

  /**
   * Deactivating waits for the requests that still run, for some 70 s at most: a backup made after it has all that was acknowledged.
   * @throws EngineError not_found
   */
  async setActive(name: string, active: boolean, by: Origin = BY_ITSELF): Promise<ProjectRow> {
    const project = await this.get(name);
    const status = active ? 'active' : 'inactive';
    const operation = active ? 'project.activate' : 'project.deactivate';
    const entry = this.audit.entryOfChange(by, { operation });
    if (!(await this.control.setProjectStatus(project.id, ['active', 'inactive'], status, entry))) {
      throw new EngineError('not_found', `Project "${name}" is not ready`);
    }
    if (!active) await drain(this.tenancy, project.placement);
    return { ...project, status };
  }

  /**
   * Repairs what a project, or a half restored backup, did to the project's roles, rights and schema. The audit entry follows
   * a moment later, because the log is in another database.
   * @returns what was wrong, in words
   * @throws EngineError not_found, request_in_flight, database_unavailable
   */
  async repair(name: string, by: Origin = BY_ITSELF): Promise<{ project: ProjectRow; repaired: string[] }> {
    const project = await this.get(name);
    const repaired = await this.inSlot(() =>
      this.control.withProjectLock(
        project.id,
        () => serviceWork(() => this.databases.repair(this.tenancy, project.placement)),
        WAIT_MS,
      ),
    );
    if (repaired === null) throw inUseElsewhere(name);
    this.audit.record(by, { operation: 'project.repair', outcome: 'ok', project });
    return { project, repaired };
  }

  /** Whether its server runs. */
  runs({ placement }: ProjectRow): boolean {
    return this.tenancy.runs(placement);
  }

  /** What {@link repair} would repair, in words. @throws EngineError database_unavailable */
  examine({ placement }: ProjectRow): Promise<string[]> {
    return serviceWork(() => this.databases.examine(this.tenancy, placement));
  }

  /**
   * @param bytes its own disk quota; 0: none; null: what the setting says
   * @throws EngineError not_found
   */
  async setQuota(name: string, bytes: number | null, by: Origin = BY_ITSELF): Promise<ProjectRow> {
    const { id } = await this.get(name);
    const entry = this.audit.entryOfChange(by, { operation: 'project.quota' });
    const project = await this.control.setProjectQuota(id, bytes, entry);
    if (project === null) throw new EngineError('not_found', `Project "${name}" is not ready`);
    return project;
  }

  /**
   * Deletes a project with everything in it, permanently. Waits until its creation has ended; what a crash has left of one is
   * deleted too.
   * @throws EngineError not_found, request_in_flight, overloaded, database_unavailable
   */
  async delete(name: string, by: Origin = BY_ITSELF): Promise<ProjectRow> {
    const project = isProjectName(name) ? await this.control.projectByName(name) : null;
    if (project === null) throw notFound(name);
    const { id } = project;
    const deleted = await this.inSlot(() =>
      this.control.withProjectLock(
        id,
        async () => {
          // From here on there is no way back: the next start deletes what a crash leaves.
          const entry = this.audit.entryOfChange(by, { operation: 'project.delete' });
          if (!(await this.control.setProjectStatus(id, PROJECT_STATUSES, 'deleting', entry))) throw notFound(name);
          await this.unfinished.remove(project, null);
          return project;
        },
        WAIT_MS,
      ),
    );
    if (deleted === null) throw inUseElsewhere(name);
    return deleted;
  }

  /** From now on, every minute removes what another process, or a lost Postgres, has left incomplete. */
  keepClearing(): void {
    // A failure is not reported: the next attempt comes soon.
    const clear = () => void this.unfinished.clear().catch(() => {});
    this.clearing = setInterval(clear, CLEAR_EVERY_MS).unref();
  }

  close(): void {
    clearInterval(this.clearing);
  }

  /**
   * Brings a project's database up to date with this program, once per process.
   * @returns undefined if it is, as nearly always
   */
  upgraded(project: ProjectRow): Promise<void> | undefined {
    const { schemaVersion } = this.databases;
    if (project.schemaVersion >= schemaVersion) return undefined;
    let upgrade = this.upgrades.get(project.id);
    if (upgrade === undefined) {
      upgrade = serviceWork(() => this.databases.upgrade(this.tenancy, project.placement)).then(() =>
        this.control.setProjectVersion(project.id, schemaVersion),
      );
      this.upgrades.set(project.id, upgrade);
      upgrade.catch(() => this.upgrades.delete(project.id));
    }
    return upgrade;
  }
}

/** A path may contain anything instead of a name. */
const notFound = (name: string) => new EngineError('not_found', `There is no project "${name.slice(0, 63)}"`);

const inUseElsewhere = (name: string) =>
  new EngineError(
    'request_in_flight',
    `Project "${name}" is still being created, repaired or deleted by another request`,
  );

/** The answer to the last step was lost, and there is no connection now to undo it. */
const perhapsCreated = (name: string, cause: unknown) =>
  new EngineError(
    'outcome_unknown',
    `The connection to Postgres was lost in the last step: check whether project "${name}" exists before retrying`,
    { cause, retryAfter: null },
  );

const deletedMeanwhile = (name: string) =>
  new EngineError('not_found', `Project "${name}" was deleted while it was being created`);
