/** Puts the engine together over its Postgres servers, in order. */
import type { Pool, ServerAddress } from '../pg/index.js';
import { AuditLog } from '../tenancy/audit-log.js';
import { CircuitBreaker } from '../tenancy/health/circuit-breaker.js';
import { ProjectSessions } from '../tenancy/connections/project-session.js';
import { ControlDatabase } from '../tenancy/control.js';
import type { ProjectRow } from '../tenancy/control-rows.js';
import { Credentials } from '../tenancy/credentials.js';
import { readMigrations } from '../tenancy/migrate.js';
import { MoveRows } from '../tenancy/move-rows.js';
import type { Placement } from '../tenancy/placement.js';
import { type Embedded, type FleetEvents, OwnServerTenancy } from '../tenancy/own-server-tenancy.js';
import { ProjectDatabases } from '../tenancy/project-databases.js';
import { ServerRows } from '../tenancy/server-rows.js';
import { Servers } from '../tenancy/servers.js';
import { servicePool } from '../tenancy/service-pool.js';
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
import { type PoolSettings, ServerPools } from './database/server-pools.js';
import { type MoveEvents, Moves } from './moves/moves.js';
import type { SharedServices } from './project.js';
import { Projects } from './projects/projects.js';
import { Quotas } from './limits/quota.js';
import { type OnServerUnreachable, ServerWatch } from '../tenancy/health/server-watch.js';
import { Sessions, type SessionSettings } from './sessions/sessions.js';
import { Splitter } from './parser/splitter.js';

export interface EngineSettings extends AuditSettings, PoolSettings {
  /** Longest wait of one request, in milliseconds. */
  waitMs: number;
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
  /** Requests and logins of one token within a window; null: any number. */
  rateLimit: Rate | null;
  jwt: JwtSettings | null;
  /** Of the Postgres port; null: there is none. */
  sessions: SessionSettings | null;
  /** Extensions that every project may use. */
  extensions: readonly string[];
  /** Told of a project that a crash left half made or half deleted, and that cannot be cleared away now. */
  onUnclearedProject: (project: ProjectRow, error: unknown) => void;
  /** Told of a project whose server crashed, or was stopped since it filled the disk. */
  onServerTrouble: (project: string, trouble: string, details: object) => void;
  /** Told of a move whose rest cannot be cleared away now. */
  onStuckMove: MoveEvents['onStuck'];
  /** Told of an added server that stops answering, or answers again. */
  onServerUnreachable: OnServerUnreachable;
}

/** Connections of the service's own role: tokens, projects, watchdog. */
const SERVICE_CONNECTIONS = 6;

/**
 * Prepares the control database and the template, and removes what a crash left incomplete.
 * @throws Error if the server cannot be reached or used; the message says what to do
 */
export async function openEngine(settings: EngineSettings): Promise<Engine> {
  const { address, waitMs, quarantineDays } = settings;
  const breaker = new CircuitBreaker();
  const pool = servicePool(address, SERVICE_CONNECTIONS, { breaker });
  try {
    const audit = new Audit(new AuditLog(pool), settings);
    const moveRows = new MoveRows(pool);
    const isAtRest = (placement: Placement) => moveRows.isAtRest(placement);
    const databases = new ProjectDatabases(readMigrations('project'), settings.extensions, isAtRest);
    const { control, servers } = await openControl(settings, pool, databases, audit);
    const rows = new ServerRows(pool);
    const projectParts = { control, rows, moves: moveRows, servers, databases, audit };
    const projects = new Projects(projectParts, settings.onUnclearedProject);
    await projects.unfinished.clear();
    // Its library is most of what the engine reads, and few ask for it.
    const jwt = settings.jwt === null ? null : new (await import('./access/jwt.js')).JwtVerifier(settings.jwt, control);
    const connections = new ProjectSessions(servers, databases);
    const quotas = new Quotas((project) => servers.tenancyOf(project.placement).sizeOf(project), settings.projectQuota);
    const database = new DatabaseAccess(servers, new ServerPools(servers, connections, settings), quotas, projects);
    const shared: SharedServices = {
      database,
      quotas,
      throttle: new EventLoopThrottle(),
      schemaCache: new SchemaCache(settings.projectWaiting),
      splitter: new Splitter(),
      waitMs,
      quarantineDays,
    };
    const onEnd = (id: string) => {
      database.serverPools.closeProject(id);
      quotas.forget(id);
    };
    const moves = new Moves(projectParts, projects, { onEnd, onStuck: settings.onStuckMove });
    const tokens = new Tokens(control, audit);
    const authenticator = new Authenticator(control, new WrongTokens(settings.wrongTokens), jwt);
    const tokenRate = settings.rateLimit === null ? null : new TokenRate(settings.rateLimit);
    const parts = { servers, projects, quotas, audit, connections, authenticator, tokenRate };
    const sessions = settings.sessions === null ? null : new Sessions(parts, settings.sessions);
    return new Engine({
      control,
      servers,
      serverRows: rows,
      serverWatch: new ServerWatch(rows, servers, settings.onServerUnreachable),
      databases,
      audit,
      projects,
      moves,
      tokens,
      authenticator,
      tokenRate,
      sessions,
      folder: settings.embedded?.folder ?? null,
      shared,
    });
  } catch (error) {
    await pool.close();
    throw error;
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
    const parts = { databases, credentials, previous, template: `cdp_template_${control.instanceId}` };
    if (embedded !== null) {
      const events = serverEvents(control, audit, settings.onServerTrouble);
      return new Servers(await OwnServerTenancy.open(embedded, databases, control, idleStopMs, events), parts);
    }
    const home = new SharedTenancy(address, parts);
    await home.prepare();
    return new Servers(home, parts);
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
  const log = (server: string, trouble: string, details: object) => {
    const known = control.projectBy('server', server).catch(() => null);
    void known.then((project) => {
      onTrouble(project?.name ?? server, trouble, details);
      audit.record(BY_ITSELF, { operation: 'project.crash', outcome: 'database_unavailable', project });
    });
  };
  return {
    failed: (server, reason, pauseMs) =>
      log(server, 'the Postgres server of a project has ended unexpectedly', { reason, pauseMs }),
    grew: (server, bytes) =>
      log(server, 'the Postgres server of a project was stopped: it grew while the disk was nearly full', { bytes }),
  };
}
