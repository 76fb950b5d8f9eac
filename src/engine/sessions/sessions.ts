/**
 * Sessions of the Postgres port. They have their own limits, per project and overall, separate from request slots.
 * While one is open, the project's server keeps running.
 */
import { randomUUID } from 'node:crypto';
import { Counts } from '../../counts.js';
import { EngineError } from '../../contract/errors.js';
import { runPeriodically } from '../../tasks.js';
import type { Log } from '../../log.js';
import type { PostgresError } from '../../pg/index.js';
import { actorOf, type Audit } from '../audit/audit.js';
import type { ProjectSessions } from '../../tenancy/connections/project-session.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { Servers } from '../../tenancy/servers.js';
import { projectMovingError } from '../../tenancy/postgres-errors.js';
import type { PostgresServer } from '../../tenancy/postgres-server.js';
import type { Authenticator } from '../access/authenticate.js';
import type { TokenRateLimiter } from '../access/rate-limits.js';
import { type Caller, usersOf } from '../access/tokens.js';
import { WaitBudget } from '../../db/wait-budget.js';
import { untilRunning } from '../../db/database-access.js';
import type { CorruptionLog } from '../../db/corruption-log.js';
import type { Projects } from '../projects/projects.js';
import type { Usage } from '../usage/usage.js';
import { noUsage } from '../../contract/usage.js';
import type { Quotas } from '../../db/quota.js';
import type { ProjectRole } from '../../tenancy/placement.js';
import { ClientSession, type SessionOwner } from './client-session.js';
import { loginError, SessionError, type SessionErrorCode, terminated } from './session-error.js';
import { overQuota, SessionLimitEnforcer, type SessionTimes } from './session-limits.js';

export interface SessionSettings extends SessionTimes {
  readonly perProject: number;
  readonly total: number;
  /** Maximum wait for the project's server. */
  readonly waitMs: number;
}

/** The login data of a client. */
interface ClientLogin {
  readonly user: string;
  readonly database: string;
  readonly token: string;
  readonly address: string;
  readonly applicationName: string;
  /** Postgres settings for the session. */
  readonly settings: Readonly<Record<string, string>>;
}

/** The services that sessions need. */
interface SessionServices {
  readonly servers: Servers;
  readonly projects: Projects;
  readonly quotas: Quotas;
  readonly audit: Audit;
  readonly log: Log;
  readonly projectSessions: ProjectSessions;
  readonly corruption: CorruptionLog;
  readonly authenticator: Authenticator;
  readonly usage: Usage;
  /** null: unlimited. */
  readonly tokenRate: TokenRateLimiter | null;
}

/** Before Postgres 16, a session can leave READ ONLY by resetting the setting, which Postgres does not check. */
const HOLDS_READ_ONLY = 16;

/** How often transactions are looked for that were prepared for two-phase commit, and not finished in time. */
const ROLL_BACK_EVERY_MS = 60_000;

export class PortSessions {
  /** Logins that were refused, by reason. */
  readonly refused = new Map<SessionErrorCode, number>();
  /** Sessions that their clients did not end, by reason. */
  readonly ended = new Map<SessionErrorCode, number>();
  /** Bytes of ended sessions. */
  private readonly before = { received: 0, sent: 0 };
  private readonly open = new Set<ClientSession>();
  /** Sessions open or being opened, by project. */
  private readonly counts = new Counts();
  private readonly limits: SessionLimitEnforcer;
  private readonly stopRollingBack: () => void;
  private closing = false;

  constructor(
    private readonly services: SessionServices,
    private readonly settings: SessionSettings,
  ) {
    this.limits = new SessionLimitEnforcer(this.open, services.authenticator, services.quotas, settings, services.log);
    const rollBack = () => services.projects.rollBackPrepared(settings.transactionMs);
    const ms = Math.min(ROLL_BACK_EVERY_MS, settings.transactionMs);
    this.stopRollingBack = runPeriodically(ms, 'clear_prepared_transactions', rollBack, services.log);
  }

  /** Open sessions by what they may do, and bytes since the start. */
  get load(): { readonly sessions: Record<ProjectRole, number>; readonly received: number; readonly sent: number } {
    const sessions = { writer: 0, reader: 0 };
    let { received, sent } = this.before;
    for (const session of this.open) {
      sessions[session.owner.isReadOnly ? 'reader' : 'writer']++;
      received += session.received;
      sent += session.sent;
    }
    return { sessions, received, sent };
  }

  /** Adds what open sessions have used since the last call. */
  countUsage(): void {
    for (const session of this.open) this.countUsageOf(session);
  }

  private countUsageOf(session: ClientSession): void {
    const { used, owner } = session;
    session.used = { postgres: noUsage(), copy: noUsage() };
    this.services.usage.add(owner.project, 'postgres', used.postgres);
    if (used.copy.bytes_in + used.copy.bytes_out + used.copy.requests > 0)
      this.services.usage.add(owner.project, 'copy', used.copy);
  }

  /** Counts a login that the port refused before calling {@link login}. */
  countRefusal(code: SessionErrorCode): void {
    add(this.refused, code);
  }

  /** @throws SessionError */
  async login(login: ClientLogin): Promise<ClientSession> {
    const origin = { requestId: randomUUID(), address: login.address, status: null, startedAt: performance.now() };
    let authenticated: { caller: Caller; project: ProjectRow | null } | null = null;
    try {
      const caller = await this.services.authenticator.authenticate(login.token, login.address);
      authenticated = { caller, project: caller.project };
      const tooOften = this.services.tokenRate?.count(caller).refusal ?? null;
      if (tooOften !== null) throw tooOften;
      const { project, isReadOnly } = entitled(caller, login);
      const owner = {
        ...login,
        caller,
        project,
        role: caller.role,
        isReadOnly,
        origin: { ...actorOf(caller), ...origin },
      };
      const session = await this.start(owner, login);
      this.services.audit.record(owner.origin, {
        operation: 'session.open',
        outcome: 'ok',
        project,
        object: owner.user,
      });
      return session;
    } catch (error) {
      if (error instanceof EngineError)
        this.services.corruption.noteError(authenticated?.project?.name ?? null, error.cause);
      const refusal = loginError(error);
      this.countRefusal(refusal.code);
      const isStranger = refusal.code === 'unauthorized' || refusal.code === 'token_expired';
      this.services.audit.record(
        { ...actorOf(authenticated?.caller ?? null), ...origin },
        {
          operation: isStranger ? 'authentication' : 'session.open',
          outcome: refusal.code,
          project: authenticated?.project ?? null,
          object: isStranger ? null : login.user,
        },
      );
      throw refusal;
    }
  }

  /** Ends all sessions, and accepts no more. @returns when their backends are gone */
  async close(): Promise<void> {
    this.closing = true;
    this.limits.close();
    this.stopRollingBack();
    await Promise.all(
      [...this.open].map((session) => {
        session.end(shutDown());
        return session.release();
      }),
    );
  }

  /** Takes a session slot before any other work. */
  private async start(owner: SessionOwner, login: ClientLogin): Promise<ClientSession> {
    const { project, role, isReadOnly } = owner;
    if (project.isFenced && (role !== null || !isReadOnly)) throw projectMovingError();
    if (this.closing) throw new SessionError('57P03', 'the service is shutting down', 'overloaded');
    const count = this.counts.of(project.id);
    if (count >= this.settings.perProject || this.counts.total >= this.settings.total)
      throw tooMany(count, this.settings);
    const server = this.services.servers.serverOf(project.placement);
    this.counts.add(project.id, 1);
    let release = () => void this.counts.add(project.id, -1);
    try {
      const over = isReadOnly ? null : await this.services.quotas.overQuota(project);
      if (over !== null) throw overQuota(over.error);
      const starting = server.acquire();
      if (starting !== undefined) await untilRunning(server, starting, new WaitBudget(this.settings.waitMs));
      release = () => {
        server.release();
        this.counts.add(project.id, -1);
      };
      await this.services.projects.upgradeIfNeeded(project);
      return await this.connect(owner, login, server, release);
    } catch (error) {
      release();
      throw error;
    }
  }

  private async connect(
    owner: SessionOwner,
    { applicationName, settings }: ClientLogin,
    server: PostgresServer,
    release: () => void,
  ): Promise<ClientSession> {
    const { role, isReadOnly } = owner;
    const kind = isReadOnly ? 'sql-read' : 'sql-write';
    const client = { applicationName, settings };
    const { placement } = owner.project;
    const connection = { placement, kind, role } as const;
    const { loggedIn, backend } = await this.services.projectSessions.openForClient(connection, client);
    if (isReadOnly && parseInt(loggedIn.parameters.get('server_version') ?? '', 10) < HOLDS_READ_ONLY) {
      loggedIn.socket.destroy();
      throw notHeld(owner.user);
    }
    const noted = (error: PostgresError) => this.services.corruption.noteError(owner.project.name, error);
    const session = new ClientSession(owner, loggedIn, backend, server.backendControl, noted, (over) => {
      this.open.delete(over);
      release();
      this.before.received += over.received;
      this.before.sent += over.sent;
      this.countUsageOf(over);
      if (over.ending !== null) add(this.ended, over.ending.code);
      this.record(over);
    });
    this.open.add(session);
    // Shutdown may have begun during the login.
    if (this.closing) session.end(shutDown());
    return session;
  }

  private record({ owner, ending, received, sent }: ClientSession): void {
    this.services.audit.record(owner.origin, {
      operation: 'session.close',
      outcome: ending?.sqlstate ?? 'ok',
      project: owner.project,
      object: `${owner.user}, ${received} bytes received, ${sent} bytes sent`,
    });
  }
}

const shutDown = () => terminated('the service is shutting down', 'overloaded');

const add = (counts: Map<SessionErrorCode, number>, code: SessionErrorCode) =>
  counts.set(code, (counts.get(code) ?? 0) + 1);

/** Checks the user and the database against the token. @throws SessionError */
function entitled(caller: Caller, { user, database }: ClientLogin): { project: ProjectRow; isReadOnly: boolean } {
  const { project, scopes, role } = caller;
  if (project === null) {
    throw new SessionError('28000', 'an admin token gives no access to project data', 'insufficient_scope');
  }
  const users = usersOf(caller);
  if (!users.includes(user)) {
    const hint = `Use ${users.toReversed().join(' or ')} as the user, the project as the database, and the token as the password.`;
    throw new SessionError('28000', `role "${user.slice(0, 63)}" does not exist`, 'insufficient_scope', hint);
  }
  if (database !== project.name && database !== project.placement.database) {
    const hint = `The token belongs to the project "${project.name}".`;
    throw new SessionError('3D000', `database "${database.slice(0, 63)}" does not exist`, 'not_found', hint);
  }
  const isReadOnly = role === null ? user === 'reader' : !scopes.has('sql:write');
  const scope = isReadOnly ? 'sql:read' : 'sql:write';
  if (!scopes.has(scope)) {
    throw new SessionError(
      '28000',
      `the token lacks the scope ${scope}, which the user ${user} needs`,
      'insufficient_scope',
    );
  }
  if (project.status !== 'active') {
    throw new SessionError('28000', 'the CDP is inactive for this project', 'cdp_inactive');
  }
  return { project, isReadOnly };
}

const tooMany = (count: number, { perProject, total }: SessionSettings): SessionError =>
  new SessionError(
    '53300',
    count >= perProject
      ? `the project has reached its limit of ${perProject} sessions`
      : `the service has reached its limit of ${total} sessions`,
    'too_many_sessions',
    `The operator can raise the setting ${count >= perProject ? 'pg-sessions' : 'pg-sessions-total'}.`,
  );

const notHeld = (user: string): SessionError =>
  new SessionError(
    '0A000',
    `the user ${user} needs Postgres 16 or later to only read: in earlier versions a session can end its own READ ONLY`,
    'method_not_allowed',
    'Use POST /api/cdp/sql with "read_only": true.',
  );
