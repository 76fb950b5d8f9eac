/**
 * Opens connections logged in as a role of a project. A changed password and lost grants of the service are detected
 * here and repaired once, so that the project cannot lock out the service or itself.
 */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { areInstalled, EXTENSIONS_SCHEMA } from '../extensions.js';
import { type Placement, postgresRole } from '../placement.js';
import { commitsAsServer, hasWriterDefaults, ownsSchemasAsSet } from '../project-rights.js';
import type { ProjectDatabaseSetup } from '../project-database-setup.js';
import { serviceWork } from '../postgres-errors.js';
import type { Servers } from '../servers.js';
import type { PostgresServer } from '../postgres-server.js';
import { type ClientSettings, type ConnectionKind, isReader, pinnedOn, sessionSettings } from './session-settings.js';
import type { Backend } from './backend-control.js';
import {
  BEGIN,
  ConnectionLost,
  fixed,
  type LoggedIn,
  type LoginOptions,
  PostgresError,
  ROLLBACK,
  Session,
  sql,
  SQLSTATE,
  type Statement,
  trusted,
} from '../../pg/index.js';

/**
 * SQLSTATEs of logins that a repair can fix. The project has changed its role's password, or lost its right to connect.
 * Or a move has left its fence, and the role may not log in.
 */
const REPAIRABLE = new Set<string>([
  SQLSTATE.INVALID_AUTHORIZATION,
  SQLSTATE.INVALID_PASSWORD,
  SQLSTATE.INSUFFICIENT_PRIVILEGE,
]);

/** How long opening a connection may take, including a repair. */
const OPEN_MS = 10_000;

/** Until the end of the transaction, no name can resolve to an object of the project. */
export const IN_PG_CATALOG = fixed('SET LOCAL search_path = pg_catalog, pg_temp');

/** Precedes a query of the service. A client may have set a statement_timeout of a few milliseconds. */
const BEFORE_EXAMINATION: readonly Statement[] = [BEGIN, fixed('SET LOCAL statement_timeout = 0'), IN_PG_CATALOG];

export interface ProjectSession {
  readonly session: Session;
  readonly backend: Backend;
}

/** A session for a client, with the client's settings. */
interface ClientConnection {
  readonly loggedIn: LoggedIn;
  readonly backend: Backend;
}

interface NewConnection {
  readonly placement: Placement;
  readonly kind: ConnectionKind;
  /** A role that the project has made; null: the kind decides between its writer and its reader. */
  readonly role: string | null;
  /** null: for the service itself. */
  readonly client?: ClientSettings | null;
  /** A replica, on which nothing can be repaired; null: the server where the project lives. */
  readonly replica?: PostgresServer | null;
}

/** A connection that is being opened. */
interface LoginAttempt {
  readonly placement: Placement;
  /** The server where the project lives, or a replica of it. */
  readonly server: PostgresServer;
  readonly kind: ConnectionKind;
  /** As in {@link NewConnection}. */
  readonly role: string | null;
  readonly client: ClientSettings | null;
  /** Aborted when the connection is no longer needed. */
  readonly signal: AbortSignal;
}

export class ProjectSessions {
  /** Repairs in progress in this process, by server and database. */
  private readonly repairs = new Map<string, Promise<void>>();

  constructor(
    private readonly servers: Servers,
    private readonly databaseSetup: ProjectDatabaseSetup,
  ) {}

  /**
   * Opens a connection of a kind, in a clean session and with intact rights.
   * @throws EngineError database_unavailable if this fails or takes too long; unauthorized if the role was dropped
   */
  async open({ placement, kind, role, client = null, replica = null }: NewConnection): Promise<ProjectSession> {
    const server = replica ?? this.servers.serverOf(placement);
    const expiry = new AbortController();
    const timer = setTimeout(() => expiry.abort(tooSlow()), OPEN_MS);
    const attempt = { placement, server, kind, role, client, signal: expiry.signal };
    const open = async (signal: AbortSignal) => {
      signal.addEventListener('abort', () => expiry.abort(signal.reason));
      const opened = await this.loginIfHealthy(attempt);
      if (opened !== null) return opened;
      if (replica !== null) throw new ConnectionLost('The replica does not have the current state of the project');
      // If only the client's settings fail, there is nothing to repair.
      if (client !== null && (await this.isHealthy({ ...attempt, client: null })))
        return (await this.login(attempt)).opened;
      return this.loginRepaired(attempt);
    };
    try {
      return await serviceWork(() =>
        server.breaker.runLogin((signal) => Promise.race([open(signal), aborted(expiry.signal)])),
      );
    } catch (error) {
      // Closes connections that were opened on the way.
      expiry.abort();
      throw role !== null && isNoLogin(error) ? roleDropped(role, error) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * The same for a client, which then owns the connection.
   * @throws EngineError database_unavailable; its cause is a PostgresError if Postgres refuses a setting of the client
   */
  async openForClient(
    connection: Pick<NewConnection, 'placement' | 'kind' | 'role'>,
    client: ClientSettings,
  ): Promise<ClientConnection> {
    const { session, backend } = await this.open({ ...connection, client });
    return { loggedIn: session.handOver(), backend };
  }

  /** null if a fresh connection shows that the project has changed its roles. */
  private async loginIfHealthy(attempt: LoginAttempt): Promise<ProjectSession | null> {
    try {
      const { opened, isHealthy } = await this.login(attempt);
      if (isHealthy) return opened;
      void opened.session.close();
    } catch (error) {
      if (!(error instanceof PostgresError && REPAIRABLE.has(error.sqlstate))) throw error;
    }
    return null;
  }

  private async isHealthy(attempt: LoginAttempt): Promise<boolean> {
    const opened = await this.loginIfHealthy(attempt);
    void opened?.session.close();
    return opened !== null;
  }

  private async loginRepaired(attempt: LoginAttempt): Promise<ProjectSession> {
    const { placement } = attempt;
    const key = `${placement.server} ${placement.database}`;
    let repair = this.repairs.get(key);
    if (repair === undefined) {
      repair = this.databaseSetup
        .restoreRights(this.servers.tenancyOf(placement), placement, () => this.isHealthy(attempt), attempt.role)
        .finally(() => this.repairs.delete(key));
      this.repairs.set(key, repair);
    }
    await repair;
    return (await this.login(attempt)).opened;
  }

  private async login(attempt: LoginAttempt): Promise<{ opened: ProjectSession; isHealthy: boolean }> {
    const { placement, server, kind, client, signal } = attempt;
    const tenancy = this.servers.tenancyOf(placement);
    const { address, staleConnections } = server;
    const role = roleOf(attempt);
    const extensionsSchema = this.databaseSetup.extensions.length === 0 ? [] : [EXTENSIONS_SCHEMA];
    const options: LoginOptions = {
      ...address,
      database: placement.database,
      user: role,
      password: tenancy.password(role),
      ...sessionSettings(kind, [placement.schema, ...extensionsSchema], await pinnedOn(server), client),
    };
    const connect = (password: string) =>
      Session.connect({ ...options, password, maxRowBytes: LIMITS.resultBytes }, signal);
    const previous = tenancy.previousPassword(role);
    const session = await connect(options.password).catch((error: unknown) => {
      // An instance with the previous secret may have set the password.
      const isWrong = error instanceof PostgresError && error.sqlstate === SQLSTATE.INVALID_PASSWORD;
      if (previous === null || !isWrong) throw error;
      return connect(previous);
    });
    signal.addEventListener('abort', () => session.destroy(tooSlow()), { once: true });
    try {
      const { isHealthy, seenAt } = await this.examine(session, attempt);
      const backend = { processId: session.processId, role, seenAt };
      if (client === null) staleConnections.watch(session, backend);
      return { opened: { session, backend }, isHealthy };
    } catch (error) {
      void session.close();
      throw error;
    }
  }

  /**
   * Examines a fresh connection in one query. It is not healthy if an extension is missing, its rights are wrong, or
   * the role does not wait for its commits as others do.
   */
  private async examine(
    session: Session,
    { placement, server, kind, role }: LoginAttempt,
  ): Promise<{ isHealthy: boolean; seenAt: string }> {
    const { schema } = placement;
    // A promoted replica no longer counts as one.
    const isReplica = trusted(String(server.address.needsPrimary === false));
    const privilege = isReader(kind) || role !== null ? 'USAGE' : 'CREATE';
    const results = await session.run([
      ...BEFORE_EXAMINATION,
      sql`SELECT pg_catalog.now(), pg_catalog.has_schema_privilege(${schema}, 'USAGE')
        AND pg_catalog.has_schema_privilege(${schema}, ${privilege})
        AND ${ownsSchemasAsSet(placement)} AND ${hasWriterDefaults(placement)}
        AND ${areInstalled(this.databaseSetup.extensions)}
        AND (NOT ${isReplica} OR pg_catalog.pg_is_in_recovery())
        AND ${commitsAsServer}`,
      ROLLBACK,
    ]);
    const [seenAt, isHealthy] = results[BEFORE_EXAMINATION.length]?.rows[0] ?? [];
    return { isHealthy: isHealthy === 't', seenAt: seenAt ?? '' };
  }
}

/** The name on the server of the role that logs in. */
const roleOf = ({ placement, kind, role }: Pick<LoginAttempt, 'placement' | 'kind' | 'role'>): string =>
  role !== null ? postgresRole(placement, role) : isReader(kind) ? placement.reader : placement.writer;

/** Postgres has no such role, which it does not tell from a wrong password. */
const isNoLogin = (error: unknown): boolean =>
  error instanceof EngineError &&
  error.cause instanceof PostgresError &&
  (error.cause.sqlstate === SQLSTATE.INVALID_AUTHORIZATION || error.cause.sqlstate === SQLSTATE.INVALID_PASSWORD);

const roleDropped = (role: string, cause: unknown) =>
  new EngineError('unauthorized', `The role "${role}", as which the token acts, was dropped`, { cause });

const tooSlow = () => new ConnectionLost('A connection of the project could not be opened in time');

/** Rejects on abort; never resolves. */
const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }));
