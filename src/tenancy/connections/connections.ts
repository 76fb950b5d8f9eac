/**
 * The connections that are logged in as projects' roles: a few per project, closed when idle, the least useful ones
 * first if the server's share is full. A connection only ever serves the project and the pool that it was opened for.
 */
import type { Placement } from '../placement.js';
import { type PoolName, type ProjectSession, type ProjectSessions, runsFreeSql } from './project-session.js';
import type { Backend } from './watchdog.js';
import { readProc } from '../../embedded/proc.js';
import { ConnectionLost, PostgresError, ROLLBACK, type Session, SQLSTATE } from '../../pg/index.js';
import { Counts } from '../../contract/counts.js';
import { EngineError } from '../../contract/errors.js';

interface ConnectionLimits {
  /** Maximum number of connections to projects' databases. No more requests may run at once. */
  total: number;
  /** Connections of one project. */
  perProject: number;
  /** Milliseconds after which an idle connection is closed. */
  idleMs: number;
  /** The server runs on this machine, so that the memory of its processes can be looked at. */
  isLocal: boolean;
}

/** A connection to a project's database, which is idle or in the hands of one request. */
export class Lease {
  readonly session: Session;
  readonly backend: Backend;
  idleSince = 0;
  /** Milliseconds that it has been idle at most before it was used again; null: it was not. */
  longestPause: number | null = null;
  /** What is to become of it after its request. */
  mustReset: boolean;
  mustClose = false;

  constructor(
    readonly project: string,
    readonly pool: PoolName,
    { session, backend }: ProjectSession,
  ) {
    this.session = session;
    this.backend = backend;
    this.mustReset = runsFreeSql(pool);
  }

  /** It has served requests before: its server may have gone in the meantime. */
  get reused(): boolean {
    return this.longestPause !== null;
  }

  /** It must not be used again (it was canceled, its state is in doubt, or its project is gone). */
  closeAfterUse(): void {
    this.mustClose = true;
  }

  /** The request ran code of the project, as free SQL always may: reset the session before the next one. */
  resetAfterUse(): void {
    this.mustReset = true;
  }
}

/** Idle processes have 2 to 30 MiB. What a statement made its session keep (`temp_buffers`) no reset frees. */
const MAX_IDLE_MIB = 64;

/** A reset that takes longer has met something strange; the connection is closed instead. */
const RESET_MS = 5_000;

/** Once Postgres had no connection left, an instance opens fewer than it had then, for this time. */
const SCARCE_MS = 60_000;

/** It leaves this many of them free, so that the service's own commands can log in. */
const LEFT_FREE = 3;

/** Logins that are tried again for want of a connection. */
const RETRIES = 3;

export class Connections {
  /** Idle ones by project, the most recently used last. */
  private readonly idle = new Map<string, Lease[]>();
  private readonly lent = new Set<Lease>();
  /** Connections open or being opened, by project. */
  private readonly counts = new Counts();
  private total = 0;
  /** Those being closed, which count until they are. */
  private readonly leaving = new Set<Lease>();
  /** What Postgres had room for, and until when that holds. */
  private scarce = { most: Infinity, until: 0 };
  private readonly sweeper: NodeJS.Timeout;
  private lastSweep = 0;
  private closing = false;

  constructor(
    private readonly sessions: Pick<ProjectSessions, 'open'>,
    private readonly limits: ConnectionLimits,
  ) {
    this.sweeper = setInterval(() => this.closeIdle(), Math.max(50, Math.min(limits.idleMs / 4, 5_000)));
    this.sweeper.unref();
  }

  /** Open connections, for the metrics. */
  get open(): number {
    return this.total;
  }

  /** Connections that may be open. */
  get most(): number {
    return performance.now() < this.scarce.until ? Math.min(this.scarce.most, this.limits.total) : this.limits.total;
  }

  /** Lends a connection that has served the project before. */
  lendIdle(project: string, pool: PoolName): Lease | null {
    const lease = this.idle.get(project)?.findLast((one) => one.pool === pool);
    if (lease === undefined) return null;
    this.removeIdle(lease);
    lease.longestPause = Math.max(lease.longestPause ?? 0, performance.now() - lease.idleSince);
    lease.mustReset = runsFreeSql(pool);
    this.lent.add(lease);
    return lease;
  }

  /** Lends a new connection. @throws EngineError database_unavailable */
  async lendNew(project: string, placement: Placement, pool: PoolName): Promise<Lease> {
    this.makeRoom(project);
    this.count(project, 1);
    try {
      const lease = new Lease(project, pool, await this.login(placement, pool));
      lease.session.onClose(() => {
        this.count(project, -1);
        this.leaving.delete(lease);
        this.removeIdle(lease);
      });
      // It may have closed before the listener was there.
      if (lease.session.closed) throw new ConnectionLost('The connection to Postgres was lost');
      this.lent.add(lease);
      return lease;
    } catch (error) {
      this.count(project, -1);
      throw error;
    }
  }

  /**
   * Takes a connection back; `done` is called when it is free again or gone.
   * @returns null, or what has to be waited for before the result of the request is passed on: what code of the project
   * left in the session (a lock, a LISTEN) goes away before that, all other cleaning up follows behind it
   */
  release(lease: Lease, done: () => void): Promise<void> | null {
    const { session, mustReset } = lease;
    if (lease.mustClose) this.discard(lease);
    // Work that ended well has mostly sent the reset with its own last messages.
    if (session.closed || (!session.inTransaction && (!mustReset || session.isClean))) {
      this.keep(lease);
      done();
      return null;
    }
    const cleaned = this.clean(lease).finally(done);
    return mustReset ? cleaned : null;
  }

  /** Closes the connections of a project, those at work when their request is done. */
  closeProject(project: string): void {
    for (const lease of this.lent) if (lease.project === project) lease.closeAfterUse();
    for (const lease of this.idle.get(project) ?? []) this.discard(lease);
  }

  /** Closes all idle connections and those that are still at work when they come back. */
  close(): void {
    this.closing = true;
    clearInterval(this.sweeper);
    for (const lease of this.allIdle()) this.discard(lease);
  }

  /** If Postgres has no connection left, idle ones of ours make room. */
  private async login(placement: Placement, pool: PoolName): Promise<ProjectSession> {
    for (let retries = 0; ; retries++) {
      try {
        return await this.sessions.open(placement, pool);
      } catch (error) {
        // The login that failed is counted already.
        if (!isTooMany(error)) throw error;
        this.scarce = { most: Math.max(1, this.total - 1 - LEFT_FREE), until: performance.now() + SCARCE_MS };
        const all = this.allIdle();
        if (all.length === 0 || retries === RETRIES) throw error;
        const lease = leastUseful(all, performance.now());
        this.removeIdle(lease);
        await lease.session.close();
      }
    }
  }

  private async clean(lease: Lease): Promise<void> {
    const { session, mustReset } = lease;
    const timer = setTimeout(() => this.discard(lease), RESET_MS);
    try {
      await (mustReset ? session.reset() : session.run([ROLLBACK]));
    } catch {
      // A connection that cannot be cleaned is not kept.
      this.discard(lease);
    } finally {
      clearTimeout(timer);
      this.keep(lease);
    }
  }

  private keep(lease: Lease): void {
    this.lent.delete(lease);
    if (lease.session.closed) return;
    if (this.closing || lease.mustClose) return this.discard(lease);
    lease.idleSince = performance.now();
    const others = this.idle.get(lease.project);
    if (others === undefined) this.idle.set(lease.project, [lease]);
    else others.push(lease);
  }

  /** Gives up an idle connection of this project, or of all, if the share is full. */
  private makeRoom(project: string): void {
    if (this.counts.of(project) >= this.limits.perProject) {
      const [longest] = this.idle.get(project) ?? [];
      if (longest !== undefined) this.discard(longest);
    }
    for (let excess = this.total - this.leaving.size - this.most; excess >= 0; excess--) {
      const all = this.allIdle();
      if (all.length === 0) return;
      this.discard(leastUseful(all, performance.now()));
    }
  }

  private closeIdle(): void {
    const now = performance.now();
    for (const lease of this.allIdle()) {
      if (lease.idleSince <= now - this.limits.idleMs) this.discard(lease);
      // Looked at here and not when it comes back: no request waits for it, and one of many in a burst pays for all.
      else if (this.limits.isLocal && lease.idleSince >= this.lastSweep) void this.closeIfLarge(lease);
    }
    this.lastSweep = now;
  }

  private async closeIfLarge(lease: Lease): Promise<void> {
    const mib = await privateMemoryMib(lease.backend.processId);
    if (mib === null || mib <= MAX_IDLE_MIB) return;
    if (this.lent.has(lease)) lease.closeAfterUse();
    else this.discard(lease);
  }

  private discard(lease: Lease): void {
    this.removeIdle(lease);
    if (!lease.session.closed) this.leaving.add(lease);
    void lease.session.close();
  }

  private removeIdle(lease: Lease): void {
    const { project } = lease;
    const others = this.idle.get(project)?.filter((one) => one !== lease);
    if (others === undefined) return;
    if (others.length === 0) this.idle.delete(project);
    else this.idle.set(project, others);
  }

  private allIdle(): Lease[] {
    return [...this.idle.values()].flat();
  }

  private count(project: string, change: number): void {
    this.total += change;
    this.counts.add(project, change);
  }
}

const isTooMany = (error: unknown): boolean =>
  error instanceof EngineError &&
  error.cause instanceof PostgresError &&
  error.cause.sqlstate === SQLSTATE.TOO_MANY_CONNECTIONS;

/**
 * @returns MiB that a Postgres process shares with nobody (RssAnon, proc_pid_status(5)); null if it is none of this
 * machine
 */
async function privateMemoryMib(pid: number): Promise<number | null> {
  const status = await readProc(`${pid}/status`);
  const [, kib] = /^Name:\tpostgres\n[^]*^RssAnon:\s+(\d+) kB$/m.exec(status) ?? [];
  return kib === undefined ? null : Number(kib) / 1024;
}

const oldest = (entries: readonly Lease[]): Lease => entries.reduce((a, b) => (b.idleSince < a.idleSince ? b : a));
const newest = (entries: readonly Lease[]): Lease => entries.reduce((a, b) => (b.idleSince >= a.idleSince ? b : a));

/** Whoever has used a connection again and again is gone after a pause this many times the longest … */
const OVERDUE = 2;
/** … and this long, since between two requests of a burst there is no pause at all. */
const OVERDUE_MS = 5_000;

/**
 * One whose project is gone, by the pauses it made before; else one of the projects that hold the most, if that is more
 * than one; else of those that were never used again the newest; else the oldest. If more projects are written to in
 * turn than there are connections, giving up the oldest would always hit the one that is needed next, however long a
 * turn takes; like this, as many projects as have room keep theirs.
 */
function leastUseful(entries: readonly Lease[], now: number): Lease {
  const overdue = entries.filter(
    ({ idleSince, longestPause }) =>
      longestPause !== null && now - idleSince > Math.max(OVERDUE * longestPause, OVERDUE_MS),
  );
  if (overdue.length > 0) return oldest(overdue);
  const held = new Map<string, number>();
  for (const { project } of entries) held.set(project, (held.get(project) ?? 0) + 1);
  const most = Math.max(...held.values());
  if (most > 1) return oldest(entries.filter(({ project }) => held.get(project) === most));
  const unproven = entries.filter(({ longestPause }) => longestPause === null);
  return unproven.length > 0 ? newest(unproven) : oldest(entries);
}
