/** Assembles the engine on top of its Postgres servers. */
import { tmpdir } from 'node:os';
import type { Log } from '../log.js';
import type { Pool, ServerAddress } from '../pg/index.js';
import { AuditRows } from '../tenancy/control/audit-rows.js';
import { ProjectSessions } from '../tenancy/connections/project-session.js';
import { ControlPool } from '../tenancy/control/control-pool.js';
import { ControlDatabase } from '../tenancy/control/control.js';
import { Credentials } from '../tenancy/credentials.js';
import { readMigrations } from '../tenancy/migrations/migrate.js';
import type { Placement } from '../tenancy/placement.js';
import type { Embedded } from '../embedded/embedded.js';
import type { FleetEvents } from '../embedded/fleet.js';
import { OwnServerTenancy } from '../tenancy/own-server-tenancy.js';
import { ProjectDatabaseSetup } from '../tenancy/project-database-setup.js';
import { Servers } from '../tenancy/servers.js';
import { SERVICE_POOL_SIZE, servicePool } from '../tenancy/service-pool.js';
import { OwnDatabaseTenancy } from '../tenancy/own-database-tenancy.js';
import { Feeds } from '../feed/feeds.js';
import { Webhooks } from '../feed/webhooks/webhooks.js';
import { EventQueues } from './events/store-events.js';
import { AppendRates } from './access/append-rates.js';
import { Authenticator } from './access/authenticate.js';
import type { JwtSettings } from './access/jwt.js';
import { type Rate, TokenRateLimiter, WrongTokenLimiter } from './access/rate-limits.js';
import { Roles } from './access/roles.js';
import { Tokens } from './access/tokens.js';
import { BY_ITSELF } from '../contract/audit.js';
import { Audit, type AuditSettings } from './audit/audit.js';
import { DatabaseAccess } from '../db/database-access.js';
import { CorruptionLog } from '../db/corruption-log.js';
import { Engine } from './engine.js';
import { Spools } from './insert/stream/spool.js';
import { TableCache } from './insert/table-cache.js';
import { EventLoopThrottle } from './limits/event-loop-throttle.js';
import { type CapacitySettings, ServerCapacities } from '../db/server-capacities.js';
import { Moves } from '../moves/moves.js';
import { MoveRows } from '../moves/move-rows.js';
import { ArchiveWatch } from './projects/archive-watch.js';
import { isFull, serverNamed, sizesOf } from './projects/choose-server.js';
import type { ProjectServices } from './projects/create-project.js';
import { Projects, reportRepair } from './projects/projects.js';
import { Quotas } from '../db/quota.js';
import { ServerWatch } from '../tenancy/health/server-watch.js';
import { PortSessions, type SessionSettings } from './sessions/sessions.js';
import { Usage } from './usage/usage.js';
import { Splitter } from './parser/splitter.js';
import { saveLedger } from '../backup/folder/ledger-files.js';
import { Erasures } from './subjects/erasures.js';
import { SubjectKeys } from './subjects/subject-keys.js';

const MIB = 1024 * 1024;

interface EngineSettings extends AuditSettings, CapacitySettings {
  /** Maximum wait of one request, in milliseconds. */
  waitMs: number;
  address: ServerAddress;
  /** Embedded servers of projects; null: all projects are on the server of `address`. */
  embedded: Embedded | null;
  /** An embedded server is stopped after this idle time. */
  idleStopMs: number;
  /** The secret from which passwords of roles are derived. With embedded servers, the secret of the data folder. */
  secret: string;
  /** The previous secret, which other instances may still use; null: none. */
  secretPrevious: string | null;
  quarantineDays: number;
  /** The folder of the embedded servers. */
  dataDir: string;
  /** So much of the disk stays free. */
  diskReserveMib: number;
  /** How long archived write-ahead log is kept, in days. */
  archiveDays: number;
  /** Networks to which webhooks may send besides public addresses. */
  webhookNetworks: readonly string[];
  /** The folder for the service's own backups, and when it makes them; null: none. */
  backupTo: string | null;
  backupAt: string;
  /** The default disk quota of a project, in bytes; null: none. */
  projectQuota: number | null;
  /** Wrong tokens allowed per address and minute; 0: unlimited. */
  wrongTokens: number;
  /** Requests and logins allowed per token within a window; null: unlimited. */
  rateLimit: Rate | null;
  jwt: JwtSettings | null;
  /** Sessions of the Postgres port; null: the port is off. */
  sessions: SessionSettings | null;
  /** Extensions that every project may use. */
  extensions: readonly string[];
  /** Told, in words, what the start waits for. */
  waiting: (what: string) => void;
}

/**
 * Prepares the control database and the template, and removes projects that a crash left incomplete.
 * @param signal if aborted, a wait for other instances ends with its reason
 * @throws Error with advice if the server cannot be reached or used; LockHeld, StandbyMissing
 */
export async function openEngine(settings: EngineSettings, signal?: AbortSignal): Promise<Engine> {
  const pool = servicePool(settings.address, SERVICE_POOL_SIZE);
  let servers: Servers | undefined;
  try {
    const services = await openControl(settings, pool, signal);
    const { control, databaseSetup, audit, feeds } = services;
    servers = services.servers;
    const projects = new Projects(services, (projectId) => database.forget(projectId));
    await projects.unfinished.clear();
    const access = await openAccess(settings, services);
    const projectSessions = new ProjectSessions(servers, databaseSetup);
    const database = databaseAccess(settings, services, projects, projectSessions);
    const { corruption, quotas } = database;
    const { log } = settings;
    const throttle = new EventLoopThrottle();
    const backupPlan = await openBackupPlan(settings, control);
    const subjectKeys = new SubjectKeys(control.subjects, settings.secret, settings.secretPrevious);
    const { archiveDays } = settings;
    const erasures = new Erasures({
      ...{ control, servers, feeds, keys: subjectKeys, log, archiveDays, database },
      nextBackup: () => backupPlan?.next ?? null,
      saveLedger: async () => {
        if (backupPlan !== null) await saveLedger({ control }, backupPlan.folder);
      },
    });
    const usage = new Usage(control.usage, log);
    const ofSessions = { servers, projects, quotas, audit, log, projectSessions, corruption, usage, ...access };
    const sessions = settings.sessions === null ? null : new PortSessions(ofSessions, settings.sessions);
    usage.connect({
      collect: () => sessions?.countUsage(),
      projects: () => projects.list(),
      takeAwakeMs: () => services.servers.defaultTenancy.files?.takeAwakeMs() ?? new Map<string, number>(),
      sizeOf: (project) => services.servers.tenancyOf(project.placement).sizeOf(project),
    });
    feeds.open(servers);
    return new Engine({
      usage,
      control,
      servers,
      feeds,
      webhooks: new Webhooks({
        control,
        feeds,
        credentials: services.credentials,
        log,
        networks: settings.webhookNetworks,
        turn: (projectId) => throttle.turn(projectId),
      }),
      serverWatch: new ServerWatch(control.servers, servers, settings.log, (names) =>
        database.capacities.retain(names),
      ),
      databaseSetup,
      audit,
      projects,
      moves: new Moves({
        ...services,
        projectNamed: (name) => projects.get(name),
        serverNamed: (name) => serverNamed(control.servers, name),
        isFull: (server) => isFull(server, services),
        sizesOf: (some) => sizesOf(services.servers, some),
        onEnd: (id) => database.forget(id),
      }),
      tokens: new Tokens(control, audit),
      roles: new Roles(services),
      appendRates: new AppendRates(control),
      ...access,
      sessions,
      serversFolder: settings.embedded?.folder ?? null,
      databaseAccess: database,
      services: {
        throttle,
        tableCache: new TableCache(settings.projectWaiting),
        // With a database URL there is no data folder.
        spools: new Spools(settings.embedded === null ? tmpdir() : settings.dataDir, settings.diskReserveMib * MIB),
        eventQueues: new EventQueues(settings.projectWaiting, throttle),
        splitter: new Splitter(),
        quarantineDays: settings.quarantineDays,
      },
      archiveWatch: new ArchiveWatch(servers, () => projects.list(), settings.log),
      log,
      backupPlan,
      erasures,
      subjectKeys,
    });
  } catch (error) {
    // The first failure tells more than that of the cleanup.
    await servers?.close().catch(() => {});
    await pool.close();
    throw error;
  }
}

/** The control database and the projects' servers: one instance at a time prepares them. */
async function openControl(
  settings: EngineSettings,
  pool: Pool,
  signal?: AbortSignal,
): Promise<ProjectServices & { feeds: Feeds; credentials: Credentials }> {
  const { address, embedded, idleStopMs, secret, secretPrevious, waiting } = settings;
  const moveRows = new MoveRows(new ControlPool(pool));
  // Roles of embedded servers have no passwords, so no setting is needed.
  const setting = new Credentials(embedded === null ? secret : '');
  const previous = secretPrevious === null ? null : new Credentials(secretPrevious);
  const credentials = new Credentials(secret);
  const audit = new Audit(new AuditRows(pool), settings, credentials.auditKey());
  const feeds = new Feeds(settings.diskReserveMib * MIB, settings.log);
  const prepare = async (control: ControlDatabase): Promise<Pick<ProjectServices, 'servers' | 'databaseSetup'>> => {
    feeds.control = control;
    const isAtRest = (placement: Placement) => moveRows.isAtRest(placement);
    const onRestored = (placement: Placement, restored: readonly string[]): void => {
      // If the lookup fails, the report names no project.
      const lookUp = control.projects.at(placement).catch(() => null);
      void lookUp.then((project) => reportRepair({ audit, log: settings.log }, BY_ITSELF, project, restored));
    };
    const databaseSetup = new ProjectDatabaseSetup(
      readMigrations('project'),
      settings.extensions,
      isAtRest,
      onRestored,
    );
    const provisioning = { databaseSetup, credentials, previous, template: `cdp_template_${control.instanceId}` };
    if (embedded !== null) {
      const events = serverEvents(control, audit, feeds, settings.log);
      const tenancy = await OwnServerTenancy.open(embedded, databaseSetup, control, idleStopMs, events);
      return { servers: new Servers(tenancy, provisioning), databaseSetup };
    }
    const defaultTenancy = new OwnDatabaseTenancy(address, provisioning);
    await defaultTenancy.prepare();
    return { servers: new Servers(defaultTenancy, provisioning), databaseSetup };
  };
  const fingerprints = [setting.fingerprint(), previous?.fingerprint() ?? null] as const;
  const { control, prepared } = await ControlDatabase.open(address, pool, fingerprints, prepare, waiting, signal);
  return { control, moveRows, ...prepared, audit, log: settings.log, feeds, credentials };
}

async function openBackupPlan({ backupTo, backupAt }: EngineSettings, control: ControlDatabase) {
  if (backupTo === null) return null;
  const { BackupPlan } = await import('./backup-plan.js');
  return new BackupPlan(control, backupTo, backupAt);
}

/** Who may do what, and how often. */
async function openAccess(
  { jwt: settings, wrongTokens, rateLimit }: EngineSettings,
  { control }: ProjectServices,
): Promise<{ authenticator: Authenticator; tokenRate: TokenRateLimiter | null }> {
  // Imported on demand: the JWT library is most of the code that the engine loads, and few operators need it.
  const jwt = settings === null ? null : new (await import('./access/jwt.js')).JwtVerifier(settings, control);
  return {
    authenticator: new Authenticator(control, new WrongTokenLimiter(wrongTokens), jwt),
    tokenRate: rateLimit === null ? null : new TokenRateLimiter(rateLimit),
  };
}

/** The way to the projects' databases. */
function databaseAccess(
  settings: EngineSettings,
  { servers }: ProjectServices,
  projects: Projects,
  projectSessions: ProjectSessions,
): DatabaseAccess {
  const quotas = new Quotas(
    (project) => servers.tenancyOf(project.placement).sizeOf(project),
    settings.projectQuota,
    ({ placement }) => servers.tenancyOf(placement).lackOfRoom(placement),
  );
  const capacities = new ServerCapacities(servers, projectSessions, settings);
  return new DatabaseAccess(servers, capacities, quotas, projects, new CorruptionLog(settings.log), settings.waitMs);
}

/** Reports events of a project's server under the project's name, in the log and in the audit log. */
function serverEvents(
  control: ControlDatabase,
  audit: Audit,
  feeds: Feeds,
  log: Log,
): Omit<FleetEvents, 'beforeStop' | 'inUse'> {
  const report = async (server: string, trouble: string, details: object, isCrash = true) => {
    // If the lookup fails, the report names no project.
    const project = await control.projects.find('server', server).catch(() => null);
    // Whoever creates or restores it is told, and it is removed again.
    if (project?.status === 'creating') return;
    log.error({ project: project?.name ?? server, ...details }, trouble);
    if (isCrash) audit.record(BY_ITSELF, { operation: 'project.crash', outcome: 'database_unavailable', project });
  };
  return {
    beforeStart: (server, folder) => feeds.beforeStart(server, folder),
    started: (server) => feeds.started(server),
    stopping: (server, isUnused) => feeds.stopping(server, isUnused),
    removed: (server) => feeds.forget(server),
    failed: (server, reason, pauseMs) => {
      feeds.failed(server);
      void report(server, 'the Postgres server of a project has ended unexpectedly', { reason, pauseMs });
    },
    grew: (server, bytes) =>
      void report(
        server,
        'the Postgres server of a project was stopped: it grew while half of disk-reserve-mib was used up',
        { bytes },
      ),
    unreadable: (server, error) =>
      void report(server, "a project's files cannot be read", { error: String(error) }, false),
  };
}
