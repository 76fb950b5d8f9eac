/**
 * The life of projects (contract section 2). Creating and deleting pass through a status of their own, so that a crash
 * at any step leaves a mark that the next start, or the next attempt, clears away.
 */
import { randomUUID } from 'node:crypto';
import { EngineError } from '../contract/errors.js';
import { PROJECT_NAME_PATTERN } from '../contract/names.js';
import type { ProjectStatus } from '../contract/projects.js';
import type { ControlDatabase, ProjectRow } from '../postgres/control.js';
import { newPlacement, type Provisioning } from '../postgres/provisioning.js';

const UNFINISHED: ReadonlySet<ProjectStatus> = new Set(['creating', 'deleting']);

const NAME = new RegExp(PROJECT_NAME_PATTERN);

/** False for what no project can be called; a name with U+0000 could not even be asked for. */
export const isProjectName = (name: string): boolean => NAME.test(name);

export class Projects {
  /** Upgrades of project databases under way or done in this process, by project. */
  private readonly upgrades = new Map<string, Promise<void>>();

  constructor(
    private readonly control: ControlDatabase,
    private readonly provisioning: Provisioning,
  ) {}

  /** @throws EngineError invalid_name, unique_violation */
  async create(name: string): Promise<ProjectRow> {
    if (!isProjectName(name)) {
      throw new EngineError('invalid_name', `A project's name must match ${PROJECT_NAME_PATTERN}`);
    }
    await this.clearFailed(name);
    const project = {
      id: randomUUID(),
      name,
      status: 'creating' as const,
      placement: newPlacement(),
      schemaVersion: this.provisioning.schemaVersion,
    };
    const created = await this.control.withProjectLock(project.id, async () => {
      if (!(await this.control.insertProject(project))) {
        throw new EngineError('unique_violation', `A project "${name}" exists already`);
      }
      try {
        await this.provisioning.create(project.placement);
      } catch (error) {
        // What is there so far goes away now if it can, else at the next start.
        await this.unmake(project.id, project.placement).catch(() => {});
        throw error;
      }
      await this.control.setProjectStatus(project.id, ['creating'], 'active');
      return this.control.projectByName(name);
    });
    if (created === null) throw new Error(`Project "${name}" was deleted while it was being created`);
    return created;
  }

  list(): Promise<ProjectRow[]> {
    return this.control.projects();
  }

  /** @throws EngineError not_found */
  async get(name: string): Promise<ProjectRow> {
    const project = isProjectName(name) ? await this.control.projectByName(name) : null;
    if (project === null || project.status === 'deleting') {
      throw new EngineError('not_found', `There is no project "${name.slice(0, 63)}"`);
    }
    return project;
  }

  /** @throws EngineError not_found */
  async setActive(name: string, active: boolean): Promise<ProjectRow> {
    const project = await this.get(name);
    const status = active ? 'active' : 'inactive';
    if (!(await this.control.setProjectStatus(project.id, ['active', 'inactive'], status))) {
      throw new EngineError('not_found', `Project "${name}" is not ready`);
    }
    return { ...project, status };
  }

  /**
   * Takes a project away with everything in it. There is no way back.
   * @throws EngineError not_found
   */
  async delete(name: string): Promise<ProjectRow> {
    const project = await this.get(name);
    await this.control.setProjectStatus(project.id, ['creating', 'active', 'inactive'], 'deleting');
    const done = await this.control.withProjectLock(project.id, async () => {
      await this.unmake(project.id, project.placement);
      return true;
    });
    if (done === null) throw new EngineError('not_found', `Project "${name}" is being created or deleted by another`);
    return project;
  }

  /**
   * Finishes what a crash left half done. Projects that a living process is at work on are left alone; one that cannot
   * be cleared away now keeps its mark for the next start.
   */
  async reconcile(onFailure: (project: ProjectRow, error: unknown) => void): Promise<void> {
    for (const project of await this.control.projects()) {
      if (!UNFINISHED.has(project.status)) continue;
      await this.clear(project).catch((error: unknown) => onFailure(project, error));
    }
  }

  /** Brings a project's database up to date with this program, once per process. */
  async upgraded(project: ProjectRow): Promise<void> {
    const { schemaVersion } = this.provisioning;
    if (project.schemaVersion >= schemaVersion) return;
    let upgrade = this.upgrades.get(project.id);
    if (upgrade === undefined) {
      upgrade = this.provisioning
        .upgrade(project.placement.database)
        .then(() => this.control.setProjectVersion(project.id, schemaVersion));
      this.upgrades.set(project.id, upgrade);
      upgrade.catch(() => this.upgrades.delete(project.id));
    }
    await upgrade;
  }

  private async clearFailed(name: string): Promise<void> {
    const project = await this.control.projectByName(name);
    if (project !== null && UNFINISHED.has(project.status)) await this.clear(project);
  }

  /** Looks again once it holds the lock: whoever held it before may have come to its end. */
  private async clear({ id, name }: ProjectRow): Promise<void> {
    await this.control.withProjectLock(id, async () => {
      const project = await this.control.projectByName(name);
      if (project?.id !== id || !UNFINISHED.has(project.status)) return;
      await this.unmake(id, project.placement);
    });
  }

  private async unmake(id: string, placement: ProjectRow['placement']): Promise<void> {
    await this.provisioning.drop(placement);
    await this.control.deleteProject(id);
  }
}
