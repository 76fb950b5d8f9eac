/** Puts the engine together over one Postgres server, in order; closing it goes the other way. */
import { Absence } from '../postgres/absence.js';
import { AutovacuumWatch, type OnAutovacuumKept } from '../postgres/autovacuum-watch.js';
import { AuditLog } from '../postgres/audit-log.js';
import type { ProjectRow } from '../postgres/control-rows.js';
import { ControlDatabase } from '../postgres/control.js';
import { Connections } from '../postgres/connections/connections.js';
import { Credentials } from '../postgres/credentials.js';
import { DatabaseSizes } from '../postgres/projects/database-size.js';
import { newestVersion, readMigrations } from '../postgres/migrate.js';
import { Niceness } from '../postgres/embedded/niceness.js';
import { parentOf } from '../postgres/embedded/processes.js';
import { LockHolders } from '../postgres/lock-holders.js';
import { ProjectSessions } from '../postgres/connections/project-session.js';
import { Provisioning } from '../postgres/projects/provisioning.js';
import type { ServerAddress } from '../postgres/server.js';
import { servicePool } from '../postgres/service-pool.js';
import { SilenceWatch } from '../postgres/connections/silence-watch.js';
import { Watchdog } from '../postgres/connections/watchdog.js';
import { Admission, type WorkKind } from './admission/admission.js';
import type { StopReason } from './admission/deadline.js';
import { STAYS } from './admission/departure.js';
import { Audit, type AuditSettings, type Origin } from './audit/audit.js';
import type { Installation } from './backup/backup.js';
import { Callers } from './access/callers.js';
import type { JwtSettings } from './access/jwt.js';
import { CopyInserts } from './insert/copy-inserts.js';
import { LockGuard } from './admission/lock-guard.js';
import { Pace } from './admission/pace.js';
import { Patience } from './admission/patience.js';
import { Project, type ProjectAccess } from './project.js';
import { Projects } from './projects.js';
import { Quotas } from './quota.js';
import { Rounds } from './admission/rounds.js';
import type { RunningRequest } from './admission/running-request.js';
import { ShapeCache } from './insert/shape-cache.js';
import { KnownStatements } from './sql/known-statements.js';
import { Splitter } from './sql/split.js';
import { Tokens } from './access/tokens.js';
import type { RequestTrace } from './trace.js';
import { WrongTokens } from './access/wrong-tokens.js';

export interface EngineSettings extends AuditSettings {
  address: ServerAddress;
  /** The process id of our own server's postmaster now; null where the server is the operator's. */
  postmaster: (() => number) | null;
  /** The instance secret that role passwords are derived from. */
  secret: string;
  /** Connections to projects' databases, all together, the idle ones included. */
  maxConnections: number;
  /** Processes that share one service, and this is one of them. Its limits are its part of what is set already. */
  workers: number;
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
  /** Go on where the service's role may not close what Postgres shows to everybody. */
  allowUnhardened: boolean;
  /** Extensions that every project may use. */
  extensions: readonly string[];
  /** Told of what the server shows to every project, where `allowUnhardened` accepts it. */
  onExposed: (objects: readonly string[]) => void;
  /** Told of a project that a crash left half made or half deleted, and that cannot be cleared away now. */
  onUnclearedProject: (project: ProjectRow, error: unknown) => void;
  onAutovacuumKept: OnAutovacuumKept;
}

interface EngineLoad {
  requests: Admission['load'];
  connections: number;
  /** As many of them as there may be. */
  maxConnections: number;
  overQuota: number;
  stops: ReadonlyMap<StopReason, number>;
}

type ServicePool = ReturnType<typeof servicePool>;

/** Connections of the service's own role: tokens, projects, watchdog. */
const SERVICE_CONNECTIONS = 6;

interface EngineParts {
  readonly tokens: Tokens;
  readonly callers: Callers;
  readonly access: ProjectAccess;
  readonly watches: readonly { close(): void }[];
  readonly sizes: DatabaseSizes;
  readonly installation: Installation;
}

export class Engine {
  readonly control: ControlDatabase;
  readonly projects: Projects;
  readonly audit: Audit;
  readonly tokens: Tokens;
  readonly callers: Callers;
  /** What backups are made of. */
  readonly installation: Installation;
  private readonly access: ProjectAccess;
  private readonly watches: readonly { close(): void }[];
  private readonly sizes: DatabaseSizes;

  private constructor({ tokens, callers, access, watches, sizes, installation }: EngineParts) {
    this.control = installation.control;
    this.projects = installation.projects;
    this.audit = installation.audit;
    this.tokens = tokens;
    this.callers = callers;
    this.installation = installation;
    this.access = access;
    this.watches = watches;
    this.sizes = sizes;
  }

  /**
   * Prepares the control database and the template, and clears away what a crash left half done.
   * @throws Error where the server cannot be reached or used; the message says what to do
   */
  static async open(settings: EngineSettings): Promise<Engine> {
    const { address, waitMs, postmaster } = settings;
    const credentials = new Credentials(settings.secret);
    const absence = new Absence();
    const pool = servicePool(address, SERVICE_CONNECTIONS, { absence });
    const holders = new LockHolders(address, absence);
    const silence = new SilenceWatch(address, pool);
    const niceness = postmaster === null ? null : new Niceness(async (pid) => (await parentOf(pid)) === postmaster());
    try {
      const { control, provisioning } = await openControl(settings, pool, credentials);
      const audit = new Audit(new AuditLog(pool), settings);
      const projects = new Projects(control, provisioning, audit, settings.onUnclearedProject);
      await projects.unfinished.clear();
      // Its library is most of what the engine reads, and few ask for it.
      const jwt =
        settings.jwt === null ? null : new (await import('./access/jwt.js')).JwtVerifier(settings.jwt, control);
      const sessions = new ProjectSessions(address, credentials, provisioning, silence, absence);
      const running = new Rounds<RunningRequest>();
      const sizes = new DatabaseSizes(pool);
      const access: ProjectAccess = {
        admission: admissionOf(settings),
        connections: connectionsOf(settings, sessions),
        watchdog: new Watchdog(address, pool, niceness),
        locks: new LockGuard(holders, await holders.open(), running, settings.workers),
        running,
        stops: new Map(),
        shapes: new ShapeCache(),
        statements: new KnownStatements(),
        splitter: new Splitter(),
        copies: new CopyInserts({ waiting: settings.projectWaiting }),
        pace: new Pace(),
        waitMs,
        upgraded: (project) => projects.upgraded(project),
        quotas: new Quotas((database) => sizes.of(database), settings.projectQuota),
        requireActive: (project) => projects.requireActive(project),
      };
      const tokens = new Tokens(control, audit);
      const relieve = () => access.locks.relieve(STAYS, new Patience(waitMs));
      const callers = new Callers(tokens, new WrongTokens(settings.wrongTokens), jwt, relieve);
      const autovacuum = new AutovacuumWatch(pool, sizes, niceness, settings.onAutovacuumKept);
      const watches = [silence, autovacuum];
      const installation = { control, projects, provisioning, audit, address, credentials };
      return new Engine({ tokens, callers, access, watches, sizes, installation });
    } catch (error) {
      silence.close();
      await Promise.all([pool.end(), holders.close()]);
      throw error;
    }
  }

  /** Whether the operator has not yet been shown a first project. @throws EngineError database_unavailable */
  isFirstStart(): Promise<boolean> {
    return this.control.isFirstStart();
  }

  /** Whether a request of a kind that came now would be refused, so that nothing of it needs to be read. */
  isFull({ id }: ProjectRow, kind: WorkKind): boolean {
    return this.access.admission.isFull(id, kind);
  }

  /** The project of a caller, ready for the operations of one request. */
  project(row: ProjectRow, trace: RequestTrace | null = null): Project {
    this.access.pace.saw(row.id);
    return new Project(row, this.access, trace);
  }

  /**
   * Requests by kind, connections to projects' databases and projects over their disk quota, now; how many requests were
   * ended from outside since the start.
   */
  get load(): EngineLoad {
    const { admission, connections, quotas, stops } = this.access;
    return {
      requests: admission.load,
      connections: connections.open,
      maxConnections: connections.most,
      overQuota: quotas.projectsOver,
      stops,
    };
  }

  /** Requests of one project by kind, now. */
  loadOf(project: string): EngineLoad['requests'] {
    return this.access.admission.loadOf(project);
  }

  /** Bytes on disk by project; one whose database is not there is left out. @throws EngineError database_unavailable */
  async sizesOf(projects: readonly ProjectRow[]): Promise<Map<string, number>> {
    const sizes = new Map<string, number>();
    for (const { id, placement } of projects) {
      const bytes = await this.sizes.of(placement.database);
      if (bytes !== null) sizes.set(id, bytes);
    }
    return sizes;
  }

  /** Deletes a project and everything this instance holds of it. */
  async deleteProject(name: string, by?: Origin): Promise<ProjectRow> {
    const project = await this.projects.delete(name, by);
    this.access.connections.closeProject(project.id);
    this.access.quotas.forget(project.id);
    return project;
  }

  async close(): Promise<void> {
    this.projects.close();
    this.access.connections.close();
    this.access.quotas.close();
    await this.audit.close();
    await this.access.splitter.close();
    await this.access.locks.close();
    for (const watch of this.watches) watch.close();
    await this.control.close();
  }
}

/** The control database, and the template behind what makes projects: one instance at a time prepares both. */
async function openControl(
  { address, allowUnhardened, extensions, onExposed }: EngineSettings,
  pool: ServicePool,
  credentials: Credentials,
): Promise<{ control: ControlDatabase; provisioning: Provisioning }> {
  const migrations = readMigrations('project');
  const preparation = { allowUnhardened, extensions };
  const provisioningOf = (instanceId: string) =>
    new Provisioning(address, credentials, `cdp_template_${instanceId}`, migrations, preparation);
  const control = await ControlDatabase.open(address, pool, credentials, {
    version: newestVersion(migrations),
    ensure: async (instanceId, version) => {
      const exposed = await provisioningOf(instanceId).ensureTemplate(version);
      if (exposed.length > 0) onExposed(exposed);
    },
  });
  return { control, provisioning: provisioningOf(control.instanceId) };
}

const admissionOf = (settings: EngineSettings): Admission =>
  new Admission({
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
