/** Assembles the engine on top of its Postgres servers. */
import type { Log } from '../log.js';
import type { Pool, ServerAddress } from '../pg/index.js';
import { AuditLog } from '../tenancy/control/audit-log.js';
import { ProjectSessions } from '../tenancy/connections/project-session.js';
import { ControlDatabase } from '../tenancy/control/control.js';
import { Credentials } from '../tenancy/credentials.js';
import { readMigrations } from '../tenancy/migrations/migrate.js';
import type { Placement } from '../tenancy/placement.js';
import { type Embedded, type FleetEvents, OwnServerTenancy } from '../tenancy/own-server-tenancy.js';
import { ProjectDatabases } from '../tenancy/project-databases.js';
import { Servers } from '../tenancy/servers.js';
import { SERVICE_POOL_SIZE, servicePool } from '../tenancy/service-pool.js';
import { SharedTenancy } from '../tenancy/shared-tenancy.js';
import { Authenticator } from './access/authenticate.js';
import type { JwtSettings } from './access/jwt.js';
import { type Rate, TokenRate } from './access/token-rate.js';
import { Tokens } from './access/tokens.js';
import { WrongTokens } from './access/wrong-tokens.js';
import { Audit, type AuditSettings, BY_ITSELF } from './audit/audit.js';
import { DatabaseAccess } from './database/database-access.js';
import { Engine } from './engine.js';
import { SchemaCache } from './insert/schema-cache.js';
import { EventLoopThrottle } from './limits/event-loop-throttle.js';
import { type CapacitySettings, ServerCapacities } from './database/server-capacities.js';
import { Moves } from './moves/moves.js';
import type { SharedServices } from './project.js';
import type { ProjectParts } from './projects/project-parts.js';
import { Projects } from './projects/projects.js';
import { Quotas } from './limits/quota.js';
import { ServerWatch } from '../tenancy/health/server-watch.js';
import { Sessions, type SessionSettings } from './sessions/sessions.js';
import { Splitter } from './parser/splitter.js';

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
}

/**
 * Prepares the control database and the template, and removes projects that a crash left incomplete.
 * @throws Error with advice if the server cannot be reached or used
 */
export async function openEngine(settings: EngineSettings): Promise<Engine> {
  const pool = servicePool(settings.address, SERVICE_POOL_SIZE);
  let servers: Servers | undefined;
  try {
    const parts = await openControl(settings, pool);
    const { control, databases, audit } = parts;
    servers = parts.servers;
    const projects = new Projects(parts);
    await projects.unfinished.clear();
    const access = await openAccess(settings, parts);
    const projectSessions = new ProjectSessions(servers, databases);
    const shared = sharedServices(settings, parts, projects, projectSessions);
    const { database, quotas } = shared;
    const ofSessions = { servers, projects, quotas, audit, projectSessions, ...access };
    return new Engine(
      control,
      servers,
      new ServerWatch(control.servers, servers, settings.log, (names) => database.capacities.retain(names)),
      databases,
      audit,
      projects,
      new Moves(parts, projects, (id) => database.forget(id)),
      new Tokens(control, audit),
      access.authenticator,
      access.tokenRate,
      settings.sessions === null ? null : new Sessions(ofSessions, settings.sessions),
      settings.embedded?.folder ?? null,
      shared,
    );
  } catch (error) {
    // The first failure tells more than that of the cleanup.
    await servers?.close().catch(() => {});
    await pool.close();
    throw error;
  }
}

/** The control database and the projects' servers: one instance at a time prepares them. */
async function openControl(settings: EngineSettings, pool: Pool): Promise<ProjectParts> {
  const { address, embedded, idleStopMs, secret, secretPrevious } = settings;
  const audit = new Audit(new AuditLog(pool), settings);
  // Roles of embedded servers have no passwords, so no setting is needed.
  const setting = new Credentials(embedded === null ? secret : '');
  const previous = secretPrevious === null ? null : new Credentials(secretPrevious);
  const credentials = new Credentials(secret);
  const prepare = async (control: ControlDatabase): Promise<Pick<ProjectParts, 'servers' | 'databases'>> => {
    const isAtRest = (placement: Placement) => control.moves.isAtRest(placement);
    const databases = new ProjectDatabases(readMigrations('project'), settings.extensions, isAtRest);
    const parts = { databases, credentials, previous, template: `cdp_template_${control.instanceId}` };
    if (embedded !== null) {
      const events = serverEvents(control, audit, settings.log);
      const tenancy = await OwnServerTenancy.open(embedded, databases, control, idleStopMs, events);
      return { servers: new Servers(tenancy, parts), databases };
    }
    const defaultTenancy = new SharedTenancy(address, parts);
    await defaultTenancy.prepare();
    return { servers: new Servers(defaultTenancy, parts), databases };
  };
  const fingerprints = [setting.fingerprint(), previous?.fingerprint() ?? null] as const;
  const { control, prepared } = await ControlDatabase.open(address, pool, fingerprints, prepare);
  return { control, ...prepared, audit, log: settings.log };
}

/** Who may do what, and how often. */
async function openAccess(
  { jwt: settings, wrongTokens, rateLimit }: EngineSettings,
  { control }: ProjectParts,
): Promise<{ authenticator: Authenticator; tokenRate: TokenRate | null }> {
  // Imported on demand: the JWT library is most of the code that the engine loads, and few operators need it.
  const jwt = settings === null ? null : new (await import('./access/jwt.js')).JwtVerifier(settings, control);
  return {
    authenticator: new Authenticator(control, new WrongTokens(wrongTokens), jwt),
    tokenRate: rateLimit === null ? null : new TokenRate(rateLimit),
  };
}

/** What the operations on a project's data share. */
function sharedServices(
  settings: EngineSettings,
  { servers }: ProjectParts,
  projects: Projects,
  projectSessions: ProjectSessions,
): SharedServices {
  const quotas = new Quotas((project) => servers.tenancyOf(project.placement).sizeOf(project), settings.projectQuota);
  const database = new DatabaseAccess(
    servers,
    new ServerCapacities(servers, projectSessions, settings),
    quotas,
    projects,
  );
  return {
    database,
    quotas,
    throttle: new EventLoopThrottle(),
    schemaCache: new SchemaCache(settings.projectWaiting),
    splitter: new Splitter(),
    waitMs: settings.waitMs,
    quarantineDays: settings.quarantineDays,
  };
}

/** Reports events of a project's server under the project's name, in the log and in the audit log. */
function serverEvents(control: ControlDatabase, audit: Audit, log: Log): Omit<FleetEvents, 'beforeStop'> {
  const report = (server: string, trouble: string, details: object) => {
    const known = control.projects.find('server', server).catch(() => null);
    void known.then((project) => {
      log.error({ project: project?.name ?? server, ...details }, trouble);
      audit.record(BY_ITSELF, { operation: 'project.crash', outcome: 'database_unavailable', project });
    });
  };
  return {
    failed: (server, reason, pauseMs) =>
      report(server, 'the Postgres server of a project has ended unexpectedly', { reason, pauseMs }),
    grew: (server, bytes) =>
      report(
        server,
        'the Postgres server of a project was stopped: it grew while the disk was nearly full (setting disk-reserve-mib)',
        { bytes },
      ),
  };
}
