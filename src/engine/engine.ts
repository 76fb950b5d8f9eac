/** Puts the engine together over one Postgres server, in order; closing it goes the other way. */
import { AuditLog } from '../tenancy/audit-log.js';
import type { ProjectRow } from '../tenancy/control-rows.js';
import { CircuitBreaker } from '../tenancy/circuit-breaker.js';
import { ControlDatabase } from '../tenancy/control.js';
import { Connections } from '../tenancy/connections/connections.js';
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
import type { Tenancy } from '../tenancy/tenancy.js';
import { Slots, type WorkKind } from './limits/slots.js';
import type { StopReason } from './limits/deadline.js';
import { Audit, type AuditSettings, BY_ITSELF, type Origin } from './audit/audit.js';
import type { Installation } from '../backup/installation.js';
import { type Authenticate, authenticator } from './access/authenticate.js';
import type { JwtSettings } from './access/jwt.js';
import { DatabaseAccess } from './database-access.js';
import { EventLoopThrottle } from './limits/event-loop-throttle.js';
import { Project, type SharedServices } from './project.js';
import { Projects } from './projects.js';
import { Quotas } from './quota.js';
import { SchemaCache } from './insert/schema-cache.js';
import { Splitter } from './sql/splitter.js';
import { Tokens } from './access/tokens.js';
import type { RequestTrace } from './trace.js';
import { WrongTokens } from './access/wrong-tokens.js';

export interface EngineSettings extends AuditSettings {
  address: ServerAddress;
  /** Where the projects' own servers are; null: all projects are on the server of `address`. */
  embedded: Embedded | null;
  /** A project's own server that was not used for this time is stopped. */
  idleStopMs: number;
  /** The instance secret that role passwords are derived from; null with servers of our own, whose roles have none. */
  secret: string | null;
  /** Connections to projects' databases, all together, the idle ones included. */
  maxConnections: number;
  /** Running over all projects; no more than there may be connections. */
  running: number;
  idleConnectionMs: number;
  /** Running per project; of those, kept for inserts and schema calls; waiting per project; longest wait. */
  projectRunning: number;
  projectReserved: number;
  projectWaiting: number;
  waitMs: number;
  /** Bytes on disk of a project without a quota of its own; null: as many as there are. */
  projectQuota: number | null;
  /** Wrong tokens from one address within a minute; 0: any number. */
  wrongTokens: number;
  jwt: JwtSettings | null;
  /** Extensions that every project may use. */
  extensions: readonly string[];
  /** Told of a project that a crash left half made or half deleted, and that cannot be cleared away now. */
  onUnclearedProject: (project: ProjectRow, error: unknown) => void;
  /** Told of a project whose server crashed, or was stopped since it filled the disk. */
  onServerTrouble: (project: string, trouble: string, details: object) => void;
}

interface EngineLoad {
  requests: Slots['load'];
  connections: number;
  /** As many of them as there may be. */
  maxConnections: number;
  overQuota: number;
  /** Postgres servers of projects that run. */
  servers: number;
  stops: ReadonlyMap<StopReason, number>;
}

/** Connections of the service's own role: tokens, projects, watchdog. */
const SERVICE_CONNECTIONS = 6;

export class Engine {
  private constructor(
    readonly control: ControlDatabase,
    readonly tenancy: Tenancy,
    readonly databases: ProjectDatabases,
    readonly audit: Audit,
    readonly projects: Projects,
    readonly tokens: Tokens,
    readonly authenticate: Authenticate,
    private readonly shared: SharedServices,
  ) {}

  /**
   * Prepares the control database and the template, and removes what a crash left incomplete.
   * @throws Error where the server cannot be reached or used; the message says what to do
   */
  static async open(settings: EngineSettings): Promise<Engine> {
    const { address, waitMs } = settings;
    const breaker = new CircuitBreaker();
    const pool = servicePool(address, SERVICE_CONNECTIONS, { breaker });
    try {
      const audit = new Audit(new AuditLog(pool), settings);
      const databases = new ProjectDatabases(readMigrations('project'), settings.extensions);
      const { control, tenancy } = await openControl(settings, pool, databases, audit);
      const projects = new Projects(control, tenancy, databases, audit, settings.onUnclearedProject);
      await projects.unfinished.clear();
      // Its library is most of what the engine reads, and few ask for it.
      const jwt =
        settings.jwt === null ? null : new (await import('./access/jwt.js')).JwtVerifier(settings.jwt, control);
      const sessions = new ProjectSessions(tenancy, databases);
      const quotas = new Quotas((project) => tenancy.sizeOf(project), settings.projectQuota);
      const database = new DatabaseAccess(
        tenancy,
        slotsOf(settings),
        connectionsOf(settings, sessions),
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
      };
      const tokens = new Tokens(control, audit);
      const authenticate = authenticator(tokens, new WrongTokens(settings.wrongTokens), jwt);
      return new Engine(control, tenancy, databases, audit, projects, tokens, authenticate, shared);
    } catch (error) {
      await pool.close();
      throw error;
    }
  }

  /** Whether a request of a kind that came now would be refused, so that nothing of it needs to be read. */
  isFull({ id }: ProjectRow, kind: WorkKind): boolean {
    return this.shared.database.slots.isFull(id, kind);
  }

  /** The project of a caller, ready for the operations of one request. */
  project(row: ProjectRow, trace: RequestTrace | null = null): Project {
    this.shared.throttle.noteRequest(row.id);
    return new Project(row, this.shared, trace);
  }

  /**
   * Requests by kind, connections to projects' databases and projects over their disk quota, now; how many requests were
   * ended from outside since the start.
   */
  get load(): EngineLoad {
    const { database, quotas } = this.shared;
    const { slots, connections, stops } = database;
    return {
      requests: slots.load,
      connections: connections.open,
      maxConnections: connections.most,
      overQuota: quotas.projectsOver,
      servers: this.tenancy.running,
      stops,
    };
  }

  /** Requests of one project by kind, now. */
  loadOf(project: string): EngineLoad['requests'] {
    return this.shared.database.slots.loadOf(project);
  }

  /** Bytes on disk by project; one whose database is not there is left out. @throws EngineError database_unavailable */
  async sizesOf(projects: readonly ProjectRow[]): Promise<Map<string, number>> {
    // A server that does not answer has the size that was noted last.
    const sizeOf = (project: ProjectRow) => this.tenancy.sizeOf(project).catch(() => project.sizeBytes);
    const found = await Promise.all(projects.map(async (project) => [project.id, await sizeOf(project)] as const));
    return new Map(found.filter((entry): entry is [string, number] => entry[1] !== null));
  }

  /** What a backup or a restore works on. @param by for the audit log */
  installation(by: Origin): Installation {
    const { audit, control, databases, projects, tenancy } = this;
    return {
      control,
      databases,
      tenancy,
      projects: {
        list: () => projects.list(),
        get: (name) => projects.get(name),
        upgraded: (project) => projects.upgraded(project),
        restore: (name, fill, make) => projects.create(name, by, fill, make),
      },
      record: (operation, project) => audit.record(by, { operation, outcome: 'ok', project }),
    };
  }

  /** Deletes a project and everything this instance holds of it. */
  async deleteProject(name: string, by?: Origin): Promise<ProjectRow> {
    const project = await this.projects.delete(name, by);
    this.shared.database.closeProject(project.id);
    this.shared.quotas.forget(project.id);
    return project;
  }

  async close(): Promise<void> {
    this.projects.close();
    this.shared.database.connections.close();
    this.shared.quotas.close();
    await this.audit.close();
    await this.shared.splitter.close();
    await this.tenancy.close();
    await this.control.close();
  }
}

/** The control database, and where projects live: one instance at a time prepares both. */
async function openControl(
  settings: EngineSettings,
  pool: Pool,
  databases: ProjectDatabases,
  audit: Audit,
): Promise<{ control: ControlDatabase; tenancy: Tenancy }> {
  const { address, embedded, idleStopMs, secret } = settings;
  const credentials = new Credentials(secret ?? '');
  const prepare = async (control: ControlDatabase, isCurrent: boolean): Promise<Tenancy> => {
    if (embedded !== null) {
      const events = serverEvents(control, audit, settings.onServerTrouble);
      return OwnServers.open(embedded, databases, control, idleStopMs, events);
    }
    const shared = new SharedServer(address, credentials, `cdp_template_${control.instanceId}`, databases);
    await shared.prepareTemplate(isCurrent);
    return shared;
  };
  const { schemaVersion } = databases;
  const opened = await ControlDatabase.open(address, pool, credentials.fingerprint(), schemaVersion, prepare);
  return { control: opened.control, tenancy: opened.prepared };
}

/** What happens to a project's server is said by the project's name, in the log and in the audit log. */
function serverEvents(
  control: ControlDatabase,
  audit: Audit,
  onTrouble: EngineSettings['onServerTrouble'],
): Omit<FleetEvents, 'beforeStop'> {
  const tell = (server: string, trouble: string, details: object) => {
    const known = control.projectOnServer(server).catch(() => null);
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

const slotsOf = (settings: EngineSettings): Slots =>
  new Slots({
    total: Math.min(settings.running, settings.maxConnections),
    running: settings.projectRunning,
    reservedForTyped: settings.projectReserved,
    waiting: settings.projectWaiting,
    waitMs: settings.waitMs,
  });

const connectionsOf = (settings: EngineSettings, sessions: ProjectSessions): Connections =>
  new Connections(sessions, {
    total: settings.maxConnections,
    // As many of each kind as may run: else each change of what runs would close connections and log others in.
    perProject: 2 * settings.projectRunning - settings.projectReserved,
    idleMs: settings.idleConnectionMs,
    isLocal: settings.address.host.startsWith('/'),
  });
