/**
 * The only way to a project's database: it starts the server, takes a slot and a connection logged in as the
 * project's role, sets a deadline, runs the work, and releases everything.
 */
import { EngineError, isOutage } from '../contract/errors.js';
import { ConnectionLost, isShutdown, PostgresError, SQLSTATE } from '../pg/index.js';
import type { ProjectConnectionPool, PooledConnection } from '../tenancy/connections/project-connection-pool.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import { type ConnectionKind, isReader, runsFreeSql } from '../tenancy/connections/session-settings.js';
import { fromPostgres, unavailable, projectMovingError } from '../tenancy/postgres-errors.js';
import type { Replica } from '../tenancy/replicas.js';
import type { Servers } from '../tenancy/servers.js';
import type { PostgresServer } from '../tenancy/postgres-server.js';
import { abortReason, type RequestTimer, type Deadline, BackendRequest, type StopReason } from './backend-request.js';
import type { CorruptionLog } from './corruption-log.js';
import { awaitPosition } from './position.js';
import type { ServerCapacities } from './server-capacities.js';
import { PeriodicChecks } from './periodic-checks.js';
import type { WaitBudget } from './wait-budget.js';
import { endsWithoutRoom, type Growth, type Quotas } from './quota.js';
import type { RequestTrace, ChildSpan } from './trace.js';

export type ConnectionWork<T> = (connection: PooledConnection, timer: RequestTimer) => Promise<T>;

/**
 * While a project is moved, only its reader may log in: `write-unless-fenced` is the reader's connection then. A role that
 * the project has made has to wait.
 */
export type RequestedConnection = Exclude<ConnectionKind, 'read'> | 'write-unless-fenced';

/** A use of a project's database. */
export interface ConnectionUse {
  readonly row: ProjectRow;
  /** A role that the project has made; null: the connection decides between its writer and its reader. */
  readonly role: string | null;
  /** How long it may still wait, in any queue. */
  readonly waitBudget: WaitBudget;
  /** The replica to read from, and the position that it must have reached; null: the server where the project lives. */
  readonly replica: { readonly at: Replica; readonly position: string | undefined } | null;
  readonly connection: RequestedConnection;
  readonly deadline: Deadline;
  /** Whether there is room has been checked before. */
  readonly growth: Growth;
  /** null: it is not traced. */
  readonly trace: RequestTrace | null;
}

/** A connection, and everything to release after its use. */
interface AcquiredConnection {
  readonly connection: PooledConnection;
  readonly server: PostgresServer;
  readonly pool: ProjectConnectionPool;
  readonly callSpan: ChildSpan | undefined;
  /** Releases the server and the slot. */
  readonly release: () => void;
}

/** What the life of projects means for their use. */
interface ProjectChecks {
  /** Migrates the project's database if an earlier version of the service has made it. */
  upgradeIfNeeded(row: ProjectRow): Promise<void> | undefined;
  /** @throws EngineError if it was deleted or deactivated */
  requireActive(row: ProjectRow): Promise<void>;
}

export class DatabaseAccess {
  /** Requests that were stopped from outside, by reason. */
  readonly stops = new Map<StopReason, number>();
  /** Requests that use a backend now. */
  private readonly running = new PeriodicChecks<BackendRequest>();

  constructor(
    readonly servers: Servers,
    readonly capacities: ServerCapacities,
    readonly quotas: Quotas,
    private readonly checks: ProjectChecks,
    readonly corruption: CorruptionLog,
    /** Maximum wait of one request, in milliseconds. */
    readonly waitMs: number,
  ) {}

  /**
   * Runs `work` on a connection. If the connection had died while idle and answered nothing, `work` runs once more.
   * @throws EngineError overloaded, database_unavailable, quota_exceeded, disk_full, the deadline's error, and what `work` throws
   */
  async run<T>(use: ConnectionUse, work: ConnectionWork<T>): Promise<T> {
    for (let isFirst = true; ; isFirst = false) {
      try {
        return await this.attempt(use, work);
      } catch (error) {
        if (!isFirst || !(error instanceof DiedWhileIdle)) throw await this.explained(use.row, error);
        // The cause may have ended the other idle connections too.
        this.capacities.closeProject(use.row.id);
      }
    }
  }

  /** Call this if the project may have changed the rights of its roles: its next connections check and repair them. */
  recheckRights(projectId: string): void {
    this.capacities.closeProject(projectId);
  }

  /** Forgets what is kept of a project that was deleted, or whose move has ended. */
  forget(projectId: string): void {
    this.capacities.closeProject(projectId);
    this.quotas.forget(projectId);
  }

  close(): void {
    this.capacities.close();
    this.quotas.close();
  }

  private async attempt<T>(use: ConnectionUse, work: ConnectionWork<T>): Promise<T> {
    const { row, growth } = use;
    // Looked up now: a server can be removed while work runs there.
    const tenancy = this.servers.tenancyOf(row.placement);
    const { connection, server, pool, callSpan, release } = await this.acquire(use);
    const { session } = connection;
    const answeredBefore = session.answeredCount;
    const isWriter = !isReader(connection.kind);
    const lackOfRoom = () =>
      isWriter && endsWithoutRoom(growth) ? (tenancy.lackOfRoom(row.placement)?.error ?? null) : null;
    const request = new BackendRequest(connection, use.deadline, server.backendControl, this.stops, lackOfRoom);
    const unwatch = isWriter ? this.quotas.watch(row, growth, request) : null;
    this.running.add(request);
    try {
      if (use.deadline.signal.aborted) throw abortReason(use.deadline.signal)[0];
      if (use.replica !== null) await awaitPosition(connection, request, use.replica.position);
      const result = await work(connection, request);
      callSpan?.end();
      return result;
    } catch (cause) {
      const error = request.reasonOf(cause);
      callSpan?.end(error);
      // The project may have revoked rights of its own roles, which the next connection checks and repairs as it opens.
      if (isDenied(error)) connection.closeAfterUse();
      const unanswered = session.answeredCount === answeredBefore;
      throw isConnectionEnd(error) && connection.reused && unanswered ? new DiedWhileIdle(error) : error;
    } finally {
      this.running.delete(request);
      request.finish();
      unwatch?.();
      const { ending } = request;
      const cleaning = pool.release(connection);
      if (cleaning !== null) await cleaning;
      if (ending === null) release();
      else void ending.then(release);
    }
  }

  /** Acquires the server first, so that its start occupies no slot, then a slot, then a connection. */
  private async acquire(use: ConnectionUse): Promise<AcquiredConnection> {
    const { row, role, waitBudget, replica, deadline, trace } = use;
    const { id, placement, isFenced } = row;
    const kind = use.connection !== 'write-unless-fenced' ? use.connection : isFenced ? 'read' : 'write';
    if (isFenced && (role !== null || !isReader(kind))) throw projectMovingError();
    const at = replica?.at ?? null;
    const server = at?.server ?? this.servers.serverOf(placement);
    const { slots, pool } = this.capacities.forPlacement(placement, at);
    const starting = server.acquire();
    if (starting !== undefined) await untilRunning(server, starting, waitBudget);
    let releaseSlot = () => {};
    const release = () => {
      server.release();
      releaseSlot();
    };
    let callSpan: ChildSpan | undefined;
    try {
      const slot = slots.acquire(id, runsFreeSql(kind) ? 'sql' : 'typed', waitBudget, deadline.signal);
      releaseSlot = slot instanceof Promise ? await traced(slot, trace?.startWait()) : slot;
      // The server may have stopped answering during the wait.
      this.servers.requireUp(placement);
      callSpan = trace?.startCall();
      await this.checks.upgradeIfNeeded(row);
      const owner = { projectId: id, role };
      const connection = pool.lendIdle(owner, kind) ?? (await pool.lendNew(owner, placement, kind));
      if (server.backendControl.niceness?.shouldRecycle(connection.backend)) connection.closeAfterUse();
      return { connection, server, pool, callSpan, release };
    } catch (error) {
      callSpan?.end(error);
      release();
      throw error;
    }
  }

  /** If Postgres answers but refuses or ends the connection, the project may have been deleted. */
  private async explained(row: ProjectRow, error: unknown): Promise<unknown> {
    const response = fromPostgres(error);
    if (response instanceof EngineError) this.corruption.noteError(row.name, response.cause);
    if (!(response instanceof EngineError) || !isOutage(response)) return response;
    if (response.cause instanceof PostgresError) await this.checks.requireActive(row);
    const { server, added } = row.placement;
    if (added !== null && response.dependency !== null) response.dependency = `server ${server}`;
    return response;
  }
}

/** @param span ends when the promise settles */
async function traced<T>(promise: Promise<T>, span: ChildSpan | undefined): Promise<T> {
  try {
    const value = await promise;
    span?.end();
    return value;
  } catch (error) {
    span?.end(error);
    throw error;
  }
}

/**
 * Waits until the server runs, within the request's budget. If that takes longer, for instance after a crash, the start
 * continues for later requests.
 */
export async function untilRunning(
  server: PostgresServer,
  starting: Promise<void>,
  waitBudget: WaitBudget,
): Promise<void> {
  const stopWaiting = waitBudget.start();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'late'>((resolve) => (timer = setTimeout(resolve, waitBudget.ms, 'late').unref()));
  try {
    if ((await Promise.race([starting, late])) !== 'late') return;
  } finally {
    stopWaiting();
    clearTimeout(timer);
  }
  starting.then(
    () => server.release(),
    // A failed start has no user to release; the next request reports it.
    () => {},
  );
  throw unavailable(new Error("The project's Postgres server is still starting"));
}

/** "permission denied", from Postgres or already translated. */
function isDenied(error: unknown): boolean {
  const translated = fromPostgres(error);
  return translated instanceof EngineError && translated.postgres?.sqlstate === SQLSTATE.INSUFFICIENT_PRIVILEGE;
}

/** The connection was lost, or Postgres announced that it ends it. */
const isConnectionEnd = (error: unknown): error is ConnectionLost | PostgresError =>
  error instanceof ConnectionLost || isShutdown(error);

/** The connection had died while it was idle; at most the beginning of a transaction was sent on it. */
class DiedWhileIdle extends ConnectionLost {
  constructor(cause: ConnectionLost | PostgresError) {
    super(cause.message, { cause });
  }
}
