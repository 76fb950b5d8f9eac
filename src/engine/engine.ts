/** The parts of a running engine. Operations are functions that take the `Project` from `admit`. */
import type { BackupServices } from '../backup/backup-services.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import type { ControlDatabase } from '../tenancy/control/control.js';
import type { ProjectDatabaseSetup } from '../tenancy/project-database-setup.js';
import type { Servers } from '../tenancy/servers.js';
import type { AppendRates } from './access/append-rates.js';
import type { Authenticator } from './access/authenticate.js';
import type { TokenRateLimiter } from './access/rate-limits.js';
import type { Roles } from './access/roles.js';
import type { Tokens } from './access/tokens.js';
import type { Erasures } from './subjects/erasures.js';
import { eraseAgain } from './subjects/restored.js';
import type { SubjectKeys } from './subjects/subject-keys.js';
import type { AuditOrigin } from '../contract/audit.js';
import type { Audit } from './audit/audit.js';
import type { BackupPlan } from './backup-plan.js';
import type { StopReason } from '../db/backend-request.js';
import type { CorruptionLog } from '../db/corruption-log.js';
import { LiveRequests } from './live-requests.js';
import type { ServerCapacities } from '../db/server-capacities.js';
import type { Load, SlotClass } from '../db/slots.js';
import type { DatabaseAccess } from '../db/database-access.js';
import type { Spools } from './insert/stream/spool.js';
import type { Feeds } from '../feed/feeds.js';
import type { Webhooks } from '../feed/webhooks/webhooks.js';
import type { EventQueues } from './events/store-events.js';
import { EventCounts } from './events/track.js';
import type { TableCache } from './insert/table-cache.js';
import type { Moves } from '../moves/moves.js';
import { Project } from '../db/project.js';
import type { Log } from '../log.js';
import type { ArchiveWatch } from './projects/archive-watch.js';
import type { Projects } from './projects/projects.js';
import { Queries } from './queries/queries.js';
import { Scheduler } from './schedules/scheduler.js';
import { Schedules } from './schedules/schedules.js';
import { Segments } from './segments/segments.js';
import type { ServerWatch } from '../tenancy/health/server-watch.js';
import type { PortSessions } from './sessions/sessions.js';
import type { Usage } from './usage/usage.js';
import type { SqlServices } from './sql/run-sql.js';
import type { RequestTrace } from '../db/trace.js';

/** What operations on data need besides a project. Each gets its part from its handler. */
interface OperationServices extends SqlServices {
  readonly tableCache: TableCache;
  /** Where atomic streams are kept until they are complete. */
  readonly spools: Spools;
  readonly eventQueues: EventQueues;
  /** How long refused records are kept. */
  readonly quarantineDays: number;
}

interface EngineLoad {
  requests: Record<SlotClass, Load>;
  /** Connections to projects' databases by server: open now, and the limit. */
  connections: ServerCapacities['connections'];
  overQuota: number;
  /** Running Postgres servers of projects. */
  runningServers: number;
  /** How often one of them ended unexpectedly or did not start, and how many did not start when last needed. */
  failures: number;
  notStarting: number;
  stops: ReadonlyMap<StopReason, number>;
}

/** What an engine is made of, see `openEngine`. */
export interface EngineParts {
  readonly control: ControlDatabase;
  readonly servers: Servers;
  readonly feeds: Feeds;
  readonly webhooks: Webhooks;
  readonly serverWatch: ServerWatch;
  readonly databaseSetup: ProjectDatabaseSetup;
  readonly audit: Audit;
  readonly projects: Projects;
  readonly moves: Moves;
  readonly tokens: Tokens;
  readonly roles: Roles;
  readonly authenticator: Authenticator;
  /** null: unlimited. */
  readonly tokenRate: TokenRateLimiter | null;
  /** Rates of tokens that have limits of their own. */
  readonly appendRates: AppendRates;
  /** Sessions of the Postgres port; null: the port is off. */
  readonly sessions: PortSessions | null;
  /** The folder of the embedded servers; null: the operator runs Postgres. */
  readonly serversFolder: string | null;
  readonly databaseAccess: DatabaseAccess;
  /** What the operations on projects' data share. */
  readonly services: OperationServices;
  /** What projects use, by day. */
  readonly usage: Usage;
  readonly archiveWatch: ArchiveWatch;
  readonly erasures: Erasures;
  readonly subjectKeys: SubjectKeys;
  /** null: the service makes no backups. */
  readonly backupPlan: BackupPlan | null;
  readonly log: Log;
}

/** Makes each part a field. */
const Parts = class {
  constructor(parts: EngineParts) {
    Object.assign(this, parts);
  }
} as new (parts: EngineParts) => EngineParts;

export class Engine extends Parts {
  readonly liveRequests = new LiveRequests(this.authenticator);
  readonly eventCounts = new EventCounts();
  readonly queries = new Queries(this.savedServices);
  readonly schedules = new Schedules(this.savedServices, 'schedule');
  readonly segments = new Segments(this.savedServices);
  readonly scheduler = new Scheduler({
    ...{ control: this.control, audit: this.audit, log: this.log, sql: this.services },
    admit: (row, role) => this.admit(row, 'sql', null, role),
  });

  /** What a project saves by name. */
  private get savedServices() {
    return { control: this.control, audit: this.audit, splitter: this.services.splitter };
  }

  /**
   * A caller's project for the operations of one request. Call this before reading the request's body.
   * @param slot null: the request does not use the project's database
   * @param role the role as which it acts, one that the project has made; null: its writer or reader
   * @throws EngineError database_unavailable if the project's server is known not to answer; overloaded
   */
  admit(
    row: ProjectRow,
    slot: SlotClass | null,
    trace: RequestTrace | null = null,
    role: string | null = null,
  ): Project {
    const { databaseAccess } = this;
    if (slot !== null) {
      this.servers.requireUp(row.placement);
      databaseAccess.capacities.forPlacement(row.placement).slots.rejectIfFull(row.id, slot);
    }
    this.services.throttle.noteRequest(row.id);
    return new Project({ row, database: databaseAccess, trace, role });
  }

  /**
   * The current load: requests by kind, connections to projects' databases, projects over their disk quota. Also the
   * requests that were stopped from outside since the start.
   */
  get load(): EngineLoad {
    const { capacities, quotas, stops } = this.databaseAccess;
    return {
      requests: capacities.load(),
      connections: capacities.connections,
      overQuota: quotas.projectsOver,
      runningServers: this.servers.runningServers,
      failures: this.servers.failures,
      notStarting: this.servers.notStarting,
      stops,
    };
  }

  get corruption(): CorruptionLog {
    return this.databaseAccess.corruption;
  }

  /** @param by for the audit log */
  backupServices(by: AuditOrigin): BackupServices {
    const { audit, control, databaseSetup, projects, servers } = this;
    return {
      control,
      databaseSetup,
      servers,
      projects: {
        list: () => projects.list(),
        get: (name) => projects.get(name),
        upgradeIfNeeded: (project) => projects.upgradeIfNeeded(project),
        tenanciesAt: (place) => projects.tenanciesAt(place),
        restore: (name, place, fill, make) => projects.restore(name, by, { place, fill, ...(make && { make }) }),
        delete: (name) => projects.delete(name, by),
        setActive: (name, active) => projects.setActive(name, active, by),
        replace: (old, restoredId, kept) => projects.replace(old, restoredId, kept, by),
      },
      erasures: {
        eraseAgain: (placement, origin, declaration) =>
          eraseAgain({ control, servers, databaseSetup, keys: this.subjectKeys }, placement, origin, declaration),
      },
      onCorruption: (projectName, place) => this.corruption.note(projectName, place),
      record: (operation, project) => audit.record(by, { operation, outcome: 'ok', project }),
    };
  }

  async close(): Promise<void> {
    await this.scheduler.close();
    this.projects.close();
    this.serverWatch.close();
    this.archiveWatch.close();
    await this.webhooks.close();
    this.feeds.close();
    await this.erasures.close();
    await this.moves.close();
    await this.sessions?.close();
    await this.usage.close();
    this.databaseAccess.close();
    await this.audit.close();
    await this.services.splitter.close();
    await this.servers.close();
    await this.control.close();
  }
}
