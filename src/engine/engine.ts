/** Puts the engine together over its Postgres servers, in order; closing it goes the other way. */
import { AuditLog } from '../tenancy/audit-log.js';
import type { ProjectRow } from '../tenancy/control-rows.js';
import { CircuitBreaker } from '../tenancy/circuit-breaker.js';
import { ControlDatabase } from '../tenancy/control.js';
import { Credentials } from '../tenancy/credentials.js';
import { readMigrations } from '../tenancy/migrate.js';
import type { Embedded } from '../embedded/embedded.js';
import type { FleetEvents } from '../embedded/fleet.js';
import { OwnServers } from '../tenancy/own-servers.js';
import { ProjectSessions } from '../tenancy/connections/project-session.js';
import { ProjectDatabases } from '../tenancy/project-databases.js';
import type { Pool, ServerAddress } from '../pg/index.js';
import { servicePool } from '../tenancy/service-pool.js';
import { SharedServer } from '../tenancy/shared-server.js';
import { MoveRows } from '../tenancy/move-rows.js';
import { ServerRows } from '../tenancy/server-rows.js';
import { Servers } from '../tenancy/servers.js';
import { LiveRequests } from './limits/live-requests.js';
import { type CapacitySettings, ServerCapacities } from './limits/server-capacity.js';
import type { Load, WorkKind } from './limits/slots.js';
import type { StopReason } from './limits/deadline.js';
import { Audit, type AuditSettings, BY_ITSELF, type Origin } from './audit/audit.js';
import type { Installation } from '../backup/installation.js';
import { type Authenticate, authenticator } from './access/authenticate.js';
import type { JwtSettings } from './access/jwt.js';
import { DatabaseAccess } from './database-access.js';
import { EventLoopThrottle } from './limits/event-loop-throttle.js';
import { Project, type SharedServices } from './project.js';
import { Moves } from './moves/moves.js';
import { Projects } from './projects.js';
import { Quotas } from './quota.js';
import { sizesOf } from './sizes.js';
import { SchemaCache } from './insert/schema-cache.js';
import { type Judgement, judge, judgeAtOnce } from './sessions/reader-text.js';
import { Sessions, type SessionSettings } from './sessions/sessions.js';
import { type OnServerAway, ServerWatch } from './servers/server-watch.js';
import { Splitter } from './sql/splitter.js';
import { Tokens } from './access/tokens.js';
import type { RequestTrace } from './trace.js';
import { WrongTokens } from './access/wrong-tokens.js';

export interface EngineSettings extends AuditSettings, CapacitySettings {
  address: ServerAddress;
  /** Where the projects' own servers are; null: all projects are on the server of `address`. */
  embedded: Embedded | null;
  /** A project's own server that was not used for this time is stopped. */
  idleStopMs: number;
  /** The secret that passwords of roles are derived from. With embedded servers it is that of the data directory. */
  secret: string;
  /** The one that it replaces, which other instances may still use; null: none. */
  secretPrevious: string | null;
  quarantineDays: number;
  /** Bytes on disk of a project without a quota of its own; null: as many as there are. */
  projectQuota: number | null;
  /** Wrong tokens from one address within a minute; 0: any number. */
  wrongTokens: number;
  jwt: JwtSettings | null;
  /** Of the Postgres port; null: there is none. */
  sessions: SessionSettings | null;
  /** Extensions that every project may use. */
  extensions: readonly string[];
  /** Told of a project that a crash left half made or half deleted, and that cannot be cleared away now. */
  onUnclearedProject: (project: ProjectRow, error: unknown) => void;
  /** Told of a project whose server crashed, or was stopped since it filled the disk. */
  onServerTrouble: (project: string, trouble: string, details: object) => void;
  /** Told of an added server that stops answering, or answers again. */
  onServerAway: OnServerAway;
}

interface EngineLoad {
  requests: Record<WorkKind, Load>;
  /** Open to projects' databases of each server, and how many may be. */
  connections: ServerCapacities['connections'];
  overQuota: number;
  /** Postgres servers of projects that run. */
  servers: number;
  stops: ReadonlyMap<StopReason, number>;
}

/** Connections of the service's own role: tokens, projects, watchdog. */
const SERVICE_CONNECTIONS = 6;

export class Engine {
  readonly live: LiveRequests;

  private constructor(
    readonly control: ControlDatabase,
    readonly servers: Servers,
    readonly serverRows: ServerRows,
    readonly serverWatch: ServerWatch,
    readonly databases: ProjectDatabases,
    readonly audit: Audit,
    readonly projects: Projects,
    readonly moves: Moves,
    readonly tokens: Tokens,
    readonly authenticate: Authenticate,
    /** Of the Postgres port; null: there is none. */
    readonly sessions: Sessions | null,
    /** Of the embedded servers; null: Postgres is the operator's. */
    readonly folder: string | null,
    private readonly shared: SharedServices,
  ) {
    this.live = new LiveRequests(tokens);
  }

  /**
   * Prepares the control database and the template, and removes what a crash left incomplete.
   * @throws Error where the server cannot be reached or used; the message says what to do
   */
  static async open(settings: EngineSettings): Promise<Engine> {
    const { address, waitMs, quarantineDays } = settings;
    const breaker = new CircuitBreaker();
    const pool = servicePool(address, SERVICE_CONNECTIONS, { breaker });
    try {
      const audit = new Audit(new AuditLog(pool), settings);
      const databases = new ProjectDatabases(readMigrations('project'), settings.extensions);
      const { control, servers } = await openControl(settings, pool, databases, audit);
      const rows = new ServerRows(pool);
      const projectParts = { control, rows, moves: new MoveRows(pool), servers, databases, audit };
      const projects = new Projects(projectParts, settings.onUnclearedProject);
      await projects.unfinished.clear();
      // Its library is most of what the engine reads, and few ask for it.
      const jwt =
        settings.jwt === null ? null : new (await import('./access/jwt.js')).JwtVerifier(settings.jwt, control);
      const connections = new ProjectSessions(servers, databases);
      const quotas = new Quotas(
        (project) => servers.tenancyOf(project.placement).sizeOf(project),
        settings.projectQuota,
      );
      const database = new DatabaseAccess(
        servers,
        new ServerCapacities(servers, connections, settings),
        quotas,
        projects,
      );
      const shared: SharedServices = {
        database,
        quotas,
        throttle: new EventLoopThrottle(),
        schemas: new SchemaCache(settings.projectWaiting),
        splitter: new Splitter(),
        waitMs,
        quarantineDays,
      };
      const moves = new Moves(projectParts, projects, (id) => {
        database.capacities.closeProject(id);
        quotas.forget(id);
      });
      const tokens = new Tokens(control, audit);
      const authenticate = authenticator(tokens, new WrongTokens(settings.wrongTokens), jwt);
      const parts = { servers, projects, quotas, audit, connections, authenticate };
      const sessions = settings.sessions === null ? null : new Sessions(parts, settings.sessions);
      const folder = settings.embedded?.folder ?? null;
      return new Engine(
        control,
        servers,
        rows,
        new ServerWatch(rows, servers, settings.onServerAway),
        databases,
        audit,
        projects,
        moves,
        tokens,
        authenticate,
        sessions,
        folder,
        shared,
      );
    } catch (error) {
      await pool.close();
      throw error;
    }
  }

  /** Whether a request of a kind that came now would be refused, so that nothing of it needs to be read. */
  isFull({ id, placement }: ProjectRow, kind: WorkKind): boolean {
    return this.shared.database.capacities.of(placement).slots.isFull(id, kind);
  }

  /** @throws EngineError database_unavailable, at once, while it is known that its server does not answer */
  requireServer({ placement }: ProjectRow): void {
    this.servers.requireUp(placement);
  }

  /** The project of a caller, ready for the operations of one request. */
  project(row: ProjectRow, trace: RequestTrace | null = null): Project {
    this.shared.throttle.noteRequest(row.id);
    return new Project(row, this.shared, trace);
  }

  /** What a text may do to the session of a reader. @param isPlain the server reads it as the parser does */
  judgeReader({ name }: ProjectRow, text: string, isPlain: boolean): Judgement | Promise<Judgement> {
    return judgeAtOnce(text) ?? judge(this.shared.splitter, name, text, isPlain);
  }

  /**
   * Requests by kind, connections to projects' databases and projects over their disk quota, now; how many requests were
   * ended from outside since the start.
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

  /** Connections to the projects of a server that has no bound of its own. */
  get maxConnections(): number {
    return this.shared.database.capacities.maxConnections;
  }

  /** Requests of one project by kind, now. */
  loadOf(project: string): EngineLoad['requests'] {
    return this.shared.database.capacities.load(project);
  }

  /** Bytes on disk by project, see `sizesOf`. */
  sizesOf(projects: readonly ProjectRow[]): Promise<Map<string, number>> {
    return sizesOf(this.servers, projects);
  }

  /** What a backup or a restore works on. @param by for the audit log */
  installation(by: Origin): Installation {
    const { audit, control, databases, projects, servers } = this;
    return {
      control,
      databases,
      servers,
      projects: {
        list: () => projects.list(),
        get: (name) => projects.get(name),
        upgraded: (project) => projects.upgraded(project),
        restore: (name, fill, make) => projects.restore(name, by, fill, make),
      },
      record: (operation, project) => audit.record(by, { operation, outcome: 'ok', project }),
    };
  }

  /** Deletes a project and everything this instance holds of it. */
  async deleteProject(name: string, by?: Origin): Promise<ProjectRow> {
    const project = await this.projects.delete(name, by);
    this.shared.database.capacities.closeProject(project.id);
    this.shared.quotas.forget(project.id);
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

/** The control database, and where projects live: one instance at a time prepares both. */
async function openControl(
  settings: EngineSettings,
  pool: Pool,
  databases: ProjectDatabases,
  audit: Audit,
): Promise<{ control: ControlDatabase; servers: Servers }> {
  const { address, embedded, idleStopMs, secret, secretPrevious } = settings;
  // Roles of embedded servers have no passwords, so that no setting is asked for there.
  const setting = new Credentials(embedded === null ? secret : '');
  const previous = secretPrevious === null ? null : new Credentials(secretPrevious);
  const credentials = new Credentials(secret);
  const prepare = async (control: ControlDatabase): Promise<Servers> => {
    const common = { databases, credentials, previous, template: `cdp_template_${control.instanceId}` };
    if (embedded !== null) {
      const events = serverEvents(control, audit, settings.onServerTrouble);
      return new Servers(await OwnServers.open(embedded, databases, control, idleStopMs, events), common);
    }
    const home = new SharedServer(address, common);
    await home.prepare();
    return new Servers(home, common);
  };
  const fingerprints = [setting.fingerprint(), previous?.fingerprint() ?? null] as const;
  const { control, prepared } = await ControlDatabase.open(address, pool, fingerprints, prepare);
  return { control, servers: prepared };
}

/** What happens to a project's server is said by the project's name, in the log and in the audit log. */
function serverEvents(
  control: ControlDatabase,
  audit: Audit,
  onTrouble: EngineSettings['onServerTrouble'],
): Omit<FleetEvents, 'beforeStop'> {
  const tell = (server: string, trouble: string, details: object) => {
    const known = control.projectBy('server', server).catch(() => null);
    void known.then((project) => {
      onTrouble(project?.name ?? server, trouble, details);
      audit.record(BY_ITSELF, { operation: 'project.crash', outcome: 'database_unavailable', project });
    });
  };
  return {
    failed: (server, reason, pauseMs) =>
      tell(server, 'the Postgres server of a project has ended unexpectedly', { reason, pauseMs }),
    grew: (server, bytes) =>
      tell(server, 'the Postgres server of a project was stopped: it grew while the disk was nearly full', { bytes }),
  };
}
