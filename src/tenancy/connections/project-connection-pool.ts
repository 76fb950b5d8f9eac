/**
 * Connections logged in as projects' roles: a few per project, closed after some idle time, or earlier
 * if the limit is reached. A connection serves only the project and the kind of work for which it was opened.
 */
import type { Placement } from '../placement.js';
import { type ConnectionKind, runsFreeSql } from './session-settings.js';
import type { ProjectSession, ProjectSessions } from './project-session.js';
import type { Backend } from './backend-control.js';
import { readProc } from '../../embedded/proc.js';
import { ConnectionLost, PostgresError, ROLLBACK, type Session, SQLSTATE } from '../../pg/index.js';
import { Counts } from '../../counts.js';
import { EngineError } from '../../contract/errors.js';
import { runPeriodically } from '../../tasks.js';
import type { Log } from '../../log.js';

interface PoolLimits {
  /** Maximum number of connections to projects' databases, and therefore of running requests. */
  total: number;
  /** Maximum number of connections of one project as its writer and reader, and again of its other roles together. */
  perProject: number;
  /** Milliseconds after which an idle connection is closed. */
  idleMs: number;
  /** The server runs on this machine, so that the memory of its processes can be read. */
  isLocal: boolean;
}

/** A connection to a project's database, either idle or used by one request. */
export class PooledConnection {
  readonly session: Session;
  readonly backend: Backend;
  idleSince = 0;
  /** Whether the connection has served earlier requests: the server may have closed it since. */
  reused = false;
  /** Whether to reset or close it after the request. */
  mustReset: boolean;
  mustClose = false;

  constructor(
    readonly owner: ConnectionOwner,
    readonly kind: ConnectionKind,
    { session, backend }: ProjectSession,
  ) {
    this.session = session;
    this.backend = backend;
    this.mustReset = runsFreeSql(kind);
  }

  /** Call this if the connection was canceled, its state is uncertain, or its project is gone. */
  closeAfterUse(): void {
    this.mustClose = true;
  }

  /** The request may have run the project's code: reset the session before the next one. */
  resetAfterUse(): void {
    this.mustReset = true;
  }
}

/** Who may use a connection. */
export interface ConnectionOwner {
  readonly projectId: string;
  /** A role that the project has made; null: its writer or reader. */
  readonly role: string | null;
}

/**
 * By what connections are counted: those of roles that a project has made never take the place of its writer's and
 * reader's.
 */
const shareOf = ({ projectId, role }: ConnectionOwner): string => (role === null ? projectId : `${projectId} roles`);

/** A connection that logs in. */
interface PendingLogin {
  readonly owner: ConnectionOwner;
  /** As in {@link PooledConnection}. */
  mustClose: boolean;
}

/** Idle processes use 2 to 30 MiB. No reset frees memory such as `temp_buffers`. */
const MAX_IDLE_MIB = 64;

/** If a reset takes longer, the connection is closed instead. */
const RESET_MS = 5_000;

/** After Postgres has run out of connections, an instance keeps below its number at that moment, for this time. */
const SCARCE_MS = 60_000;

/** The instance keeps this far below that number, so that the service's own commands can log in. */
const LEFT_FREE = 3;

/** Retries of a login if Postgres has no connection left. */
const RETRIES = 3;

export class ProjectConnectionPool {
  /** Idle connections by share, the most recently used last. */
  private readonly idle = new Map<string, PooledConnection[]>();
  private readonly lent = new Set<PooledConnection>();
  private readonly pendingLogins = new Set<PendingLogin>();
  /** Connections open or being opened, by share. */
  private readonly counts = new Counts();
  /** The limit after Postgres ran out of connections, and when it ends. */
  private scarce = { max: Infinity, until: 0 };
  private readonly stopClosingIdle: () => void;
  private lastIdleCheck = 0;
  private closing = false;

  constructor(
    private readonly sessions: Pick<ProjectSessions, 'open'>,
    private readonly limits: PoolLimits,
    log: Log,
  ) {
    const interval = Math.max(50, Math.min(limits.idleMs / 4, 5_000));
    this.stopClosingIdle = runPeriodically(interval, 'clear_connections', () => this.closeIdle(), log);
  }

  /** Open connections, for the metrics. */
  get open(): number {
    return this.counts.total;
  }

  /** Maximum number of connections that may be open now. */
  get max(): number {
    return performance.now() < this.scarce.until ? Math.min(this.scarce.max, this.limits.total) : this.limits.total;
  }

  /** Lends a connection that has served the project before. */
  lendIdle(owner: ConnectionOwner, kind: ConnectionKind): PooledConnection | null {
    const isFor = (one: PooledConnection) => one.kind === kind && one.owner.role === owner.role;
    const connection = this.idle.get(shareOf(owner))?.findLast(isFor);
    if (connection === undefined) return null;
    this.removeIdle(connection);
    connection.reused = true;
    connection.mustReset = runsFreeSql(kind);
    this.lent.add(connection);
    return connection;
  }

  /** Lends a new connection. @throws EngineError database_unavailable */
  async lendNew(owner: ConnectionOwner, placement: Placement, kind: ConnectionKind): Promise<PooledConnection> {
    const share = shareOf(owner);
    this.makeRoom(share);
    this.counts.add(share, 1);
    const login = { owner, mustClose: false };
    this.pendingLogins.add(login);
    try {
      const connection = new PooledConnection(owner, kind, await this.login(placement, kind, owner.role));
      connection.mustClose = login.mustClose;
      connection.session.onClose(() => {
        this.counts.add(share, -1);
        this.removeIdle(connection);
      });
      // The session may have closed before the listener was added.
      if (connection.session.closed) throw new ConnectionLost('The connection to Postgres was lost');
      this.lent.add(connection);
      return connection;
    } catch (error) {
      this.counts.add(share, -1);
      throw error;
    } finally {
      this.pendingLogins.delete(login);
    }
  }

  /**
   * Takes a connection back.
   * @returns when it is free again or closed: the project's code may have left a lock or a LISTEN in the session; null:
   * at once. Never rejects.
   */
  release(connection: PooledConnection): Promise<void> | null {
    const { session, mustReset } = connection;
    session.onWarning = null;
    if (connection.mustClose) this.discard(connection);
    // Successful work has usually sent the reset with its last messages.
    if (session.closed || (!session.inTransaction && (!mustReset || session.isClean))) {
      this.putBack(connection);
      return null;
    }
    return this.clean(connection);
  }

  /** Closes the connections of a project; busy ones, and those being opened, after their request. */
  closeProject(projectId: string): void {
    const isOf = ({ owner }: { readonly owner: ConnectionOwner }) => owner.projectId === projectId;
    for (const connection of this.lent) if (isOf(connection)) connection.closeAfterUse();
    for (const login of this.pendingLogins) if (isOf(login)) login.mustClose = true;
    for (const connection of this.allIdle()) if (isOf(connection)) this.discard(connection);
  }

  /** Closes all idle connections at once, and busy ones after use. */
  close(): void {
    this.closing = true;
    this.stopClosingIdle();
    for (const connection of this.allIdle()) this.discard(connection);
  }

  /** Logs in. If Postgres has no connection left, closes idle ones and retries. */
  private async login(placement: Placement, kind: ConnectionKind, role: string | null): Promise<ProjectSession> {
    for (let retries = 0; ; retries++) {
      try {
        return await this.sessions.open({ placement, kind, role });
      } catch (error) {
        // `total` includes the failed login.
        if (!isTooMany(error)) throw error;
        this.scarce = { max: Math.max(1, this.counts.total - 1 - LEFT_FREE), until: performance.now() + SCARCE_MS };
        const connection = this.leastNeeded();
        if (connection === undefined || retries === RETRIES) throw error;
        this.removeIdle(connection);
        await connection.session.close();
      }
    }
  }

  private async clean(connection: PooledConnection): Promise<void> {
    const { session, mustReset } = connection;
    const timer = setTimeout(() => this.discard(connection), RESET_MS);
    try {
      await (mustReset ? session.reset() : session.run([ROLLBACK]));
    } catch {
      // A connection that cannot be reset is not kept.
      this.discard(connection);
    } finally {
      clearTimeout(timer);
      this.putBack(connection);
    }
  }

  private putBack(connection: PooledConnection): void {
    this.lent.delete(connection);
    if (connection.session.closed) return;
    if (this.closing || connection.mustClose) return this.discard(connection);
    connection.idleSince = performance.now();
    const share = shareOf(connection.owner);
    const others = this.idle.get(share);
    if (others === undefined) this.idle.set(share, [connection]);
    else others.push(connection);
  }

  /** Closes an idle connection of this share, or of any, if the limit is reached. */
  private makeRoom(share: string): void {
    if (this.counts.of(share) >= this.limits.perProject) {
      const [longest] = this.idle.get(share) ?? [];
      if (longest !== undefined) this.discard(longest);
    }
    for (let excess = this.counts.total - this.max; excess >= 0; excess--) {
      const connection = this.leastNeeded();
      if (connection === undefined) return;
      this.discard(connection);
    }
  }

  /**
   * Of the shares with the most idle connections, the one idle for longest: so projects that keep several cannot take
   * another's only one.
   */
  private leastNeeded(): PooledConnection | undefined {
    const shares = [...this.idle.values()];
    const most = Math.max(...shares.map((connections) => connections.length));
    const longest = shares.flatMap((connections) => (connections.length === most ? connections.slice(0, 1) : []));
    return longest.sort((a, b) => a.idleSince - b.idleSince)[0];
  }

  private closeIdle(): void {
    const now = performance.now();
    for (const connection of this.allIdle()) {
      if (connection.idleSince <= now - this.limits.idleMs) this.discard(connection);
      // Checked here and not on release: no request has to wait, and a burst of requests causes only one check.
      else if (this.limits.isLocal && connection.idleSince >= this.lastIdleCheck) void this.closeIfLarge(connection);
    }
    this.lastIdleCheck = now;
  }

  private async closeIfLarge(connection: PooledConnection): Promise<void> {
    const mib = await privateMemoryMib(connection.backend.processId);
    if (mib === null || mib <= MAX_IDLE_MIB) return;
    if (this.lent.has(connection)) connection.closeAfterUse();
    else this.discard(connection);
  }

  private discard(connection: PooledConnection): void {
    this.removeIdle(connection);
    void connection.session.close();
  }

  private removeIdle(connection: PooledConnection): void {
    const share = shareOf(connection.owner);
    const others = this.idle.get(share)?.filter((one) => one !== connection);
    if (others === undefined) return;
    if (others.length === 0) this.idle.delete(share);
    else this.idle.set(share, others);
  }

  private allIdle(): PooledConnection[] {
    return [...this.idle.values()].flat();
  }
}

const isTooMany = (error: unknown): boolean =>
  error instanceof EngineError &&
  error.cause instanceof PostgresError &&
  error.cause.sqlstate === SQLSTATE.TOO_MANY_CONNECTIONS;

/**
 * @returns the private memory of a Postgres process in MiB (RssAnon, proc_pid_status(5)); null if it is not on this
 * machine
 */
async function privateMemoryMib(pid: number): Promise<number | null> {
  const status = await readProc(`${pid}/status`);
  const [, kib] = /^Name:\tpostgres\n[^]*^RssAnon:\s+(\d+) kB$/m.exec(status) ?? [];
  return kib === undefined ? null : Number(kib) / 1024;
}
