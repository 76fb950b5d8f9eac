/** The parts of a running engine. Operations are functions that take the `Project` from `admit`. */
import type { Installation } from '../backup/installation.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import type { ControlDatabase } from '../tenancy/control/control.js';
import type { ProjectDatabases } from '../tenancy/project-databases.js';
import type { Servers } from '../tenancy/servers.js';
import type { Authenticator } from './access/authenticate.js';
import type { TokenRate } from './access/token-rate.js';
import type { Tokens } from './access/tokens.js';
import type { Audit, Origin } from './audit/audit.js';
import type { StopReason } from './limits/deadline.js';
import { LiveRequests } from './database/live-requests.js';
import type { ServerCapacities } from './database/server-capacities.js';
import type { Load, WorkKind } from './limits/slots.js';
import type { Moves } from './moves/moves.js';
import { Project, type SharedServices } from './project.js';
import type { Projects } from './projects/projects.js';
import type { ServerWatch } from '../tenancy/health/server-watch.js';
import type { Sessions } from './sessions/sessions.js';
import type { RequestTrace } from './database/trace.js';

interface EngineLoad {
  requests: Record<WorkKind, Load>;
  /** Connections to projects' databases by server: open now, and the limit. */
  connections: ServerCapacities['connections'];
  overQuota: number;
  /** Running Postgres servers of projects. */
  servers: number;
  stops: ReadonlyMap<StopReason, number>;
}

export class Engine {
  readonly live: LiveRequests;

  /** See `openEngine`. */
  constructor(
    readonly control: ControlDatabase,
    readonly servers: Servers,
    readonly serverWatch: ServerWatch,
    readonly databases: ProjectDatabases,
    readonly audit: Audit,
    readonly projects: Projects,
    readonly moves: Moves,
    readonly tokens: Tokens,
    readonly authenticator: Authenticator,
    /** null: unlimited. */
    readonly tokenRate: TokenRate | null,
    /** Sessions of the Postgres port; null: the port is off. */
    readonly sessions: Sessions | null,
    /** The folder of the embedded servers; null: the operator runs Postgres. */
    readonly folder: string | null,
    readonly shared: SharedServices,
  ) {
    this.live = new LiveRequests(authenticator);
  }

  /**
   * A caller's project for the operations of one request. Call this before reading the request's body.
   * @param work null: the request does not use the project's database
   * @throws EngineError database_unavailable if the project's server is known not to answer; overloaded
   */
  admit(row: ProjectRow, work: WorkKind | null, trace: RequestTrace | null = null): Project {
    const { database, throttle } = this.shared;
    if (work !== null) {
      this.servers.requireUp(row.placement);
      database.capacities.of(row.placement).slots.rejectIfFull(row.id, work);
    }
    throttle.noteRequest(row.id);
    return new Project(row, this.shared, trace);
  }

  /**
   * The current load: requests by kind, connections to projects' databases, projects over their disk quota. Also the
   * requests that were stopped from outside since the start.
   */
  get load(): EngineLoad {
    const { database, quotas } = this.shared;
    const { capacities, stops } = database;
    return {
      requests: capacities.load(),
      connections: capacities.connections,
      overQuota: quotas.projectsOver,
      servers: this.servers.running,
      stops,
    };
  }

  /** The parts that a backup or restore needs. @param by for the audit log */
  installation(by: Origin): Installation {
    const { audit, control, databases, projects, servers } = this;
    return {
      control,
      databases,
      servers,
      projects: {
        list: () => projects.list(),
        get: (name) => projects.get(name),
        upgradeIfNeeded: (project) => projects.upgradeIfNeeded(project),
        tenanciesAt: (place) => projects.tenanciesAt(place),
        restore: (name, place, fill, make) => projects.restore(name, by, { place, fill, ...(make && { make }) }),
        delete: (name) => this.deleteProject(name, by),
      },
      record: (operation, project) => audit.record(by, { operation, outcome: 'ok', project }),
    };
  }

  /** Deletes a project, and everything this instance keeps for it. @param lost a server that will not come back */
  async deleteProject(name: string, by: Origin, lost?: string): Promise<ProjectRow> {
    const project = await this.projects.delete(name, by, lost);
    this.shared.database.forget(project.id);
    return project;
  }

  async close(): Promise<void> {
    this.projects.close();
    this.serverWatch.close();
    await this.moves.close();
    await this.sessions?.close();
    this.shared.database.capacities.close();
    this.shared.quotas.close();
    await this.audit.close();
    await this.shared.splitter.close();
    await this.servers.close();
    await this.control.close();
  }
}
