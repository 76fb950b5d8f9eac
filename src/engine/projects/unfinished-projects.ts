/**
 * Deletes projects that a crash has left half created or half deleted, as their status shows. Those that a live process
 * is working on are left alone.
 */
import { PROJECT_STATUSES, type ProjectStatus } from '../../contract/projects.js';
import { EngineError } from '../../contract/errors.js';
import type { AuditRow } from '../../tenancy/control/audit-log.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { tryWithProjectLock } from '../../tenancy/control/project-lock.js';
import { serverName } from '../../contract/servers.js';
import { serviceWork } from '../../tenancy/service-work.js';
import { BY_ITSELF } from '../audit/audit.js';
import type { ProjectParts } from './project-parts.js';

const UNFINISHED: readonly ProjectStatus[] = ['creating', 'deleting'];

type Identified = Pick<ProjectRow, 'id' | 'placement'>;

export class UnfinishedProjects {
  constructor(private readonly parts: ProjectParts) {}

  /** Removes all of them. If that fails for a project, it keeps its status for the next check. */
  async clear(): Promise<void> {
    const unreachable = new Set<string>();
    for (const project of await this.parts.control.projects.list()) {
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
    this.parts.log.error(fields, 'a project is incomplete and cannot be cleaned up');
  }

  /**
   * Removes an unfinished project of this name, so that the name can be used again.
   * @throws EngineError database_unavailable
   */
  async clearNamed(name: string): Promise<void> {
    const project = await this.parts.control.projects.find('name', name);
    if (project !== null && UNFINISHED.includes(project.status)) await this.clearOne(project);
  }

  /**
   * Removes a project that this process was creating. It may already be active, if that change reached Postgres and
   * only the response was lost.
   */
  async undoCreate({ id, placement }: Identified): Promise<void> {
    await this.parts.control.projects.setStatus(id, PROJECT_STATUSES, 'deleting', null);
    await this.remove({ id, placement }, null);
  }

  /**
   * Removes a project whose status is `deleting`: its database, its roles, the remains of moves and, last, its row.
   * @param lost a server that will not come back
   */
  async remove({ id, placement }: Identified, entry: AuditRow | null, lost: string | null = null): Promise<void> {
    const moves = await this.parts.control.moves.open(id);
    for (const place of [placement, ...moves.flatMap(({ source, target }) => [source, target])]) {
      if (serverName(place) !== lost) await serviceWork(() => this.parts.servers.tenancyOf(place).drop(place));
    }
    await this.parts.control.projects.delete(id, entry);
  }

  /**
   * Checks the status again under the lock: the previous holder may have finished. The status stops a holder that has
   * lost the lock with its connection and does not know it.
   */
  private async clearOne(project: Identified): Promise<void> {
    await tryWithProjectLock(this.parts.control.address, project.id, async () => {
      if (!(await this.parts.control.projects.setStatus(project.id, UNFINISHED, 'deleting', null))) return;
      await this.remove(project, this.parts.audit.entryOfChange(BY_ITSELF, { operation: 'repair' }));
    });
  }
}
