/**
 * The connections that are logged in as projects' roles: a few per project, closed when idle, the least useful ones
 * given up first when the server's share is full. A connection only ever serves the project and the lane it was opened
 * for.
 */
import { readFile } from 'node:fs/promises';
import type { Placement } from '../placement.js';
import { LANES, type Lane, type ProjectSession, type ProjectSessions } from './project-session.js';
import type { Backend } from './watchdog.js';
import { ConnectionLost, ROLLBACK, type Session } from '../../pg/index.js';

interface ConnectionLimits {
  /** All connections to projects' databases. Whoever admits requests must not let more run at once. */
  total: number;
  /** Connections of one project. */
  perProject: number;
  /** Milliseconds after which an idle connection is closed. */
  idleMs: number;
  /** The server runs on this machine, so that the memory of its processes can be looked at. */
  isLocal: boolean;
}

interface Entry {
  readonly project: string;
  readonly lane: Lane;
  readonly opened: ProjectSession;
  idleSince: number;
  /** Milliseconds that it has been idle at most before it was used again; null: it was not. */
  longestPause: number | null;
  /** To be closed instead of kept, once the request that has it is done. */
  unwanted: boolean;
}

/** A connection in the hands of one request. */
export class Lease implements ProjectSession {
  readonly session: Session;
  readonly backend: Backend;
  /** What is to become of the connection. */
  mustReset: boolean;
  mustClose = false;

  constructor(readonly entry: Entry) {
    ({ session: this.session, backend: this.backend } = entry.opened);
    // Free SQL may do anything to its session; typed requests say when they ran the project's code.
    this.mustReset = entry.lane !== 'typed';
  }

  /** The connection has served requests before: its server may have gone in the meantime. */
  get reused(): boolean {
    return this.entry.longestPause !== null;
  }

  /** The connection must not be used again (it was cancelled, or its state is in doubt). */
  closeAfterUse(): void {
    this.mustClose = true;
  }

  /** The request ran code of the project: reset the session before the next one. */
  resetAfterUse(): void {
    this.mustReset = true;
  }
}

/** Idle processes have 2 to 30 MiB. What a statement made its session keep (`temp_buffers`) no reset frees. */
const MAX_IDLE_MIB = 64;

/** A reset that takes longer has met something strange; the connection is closed instead. */
const RESET_MS = 5_000;

export class Connections {
  /** Idle entries of each lane by project, the most recently used last. */
  private readonly idle: Readonly<Record<Lane, Map<string, Entry[]>>> = {
    typed: new Map(),
    'sql-write': new Map(),
    'sql-read': new Map(),
  };
  private readonly lent = new Set<Entry>();
  /** Connections open or being opened, by project. */
  private readonly counts = new Map<string, number>();
  private total = 0;
  private readonly sweeper: NodeJS.Timeout;
  private lastSweep = 0;
  private closing = false;

  constructor(
    private readonly sessions: ProjectSessions,
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
    return this.limits.total;
  }

  /** Lends a connection that has served the project before. */
  lendIdle(project: string, lane: Lane): Lease | null {
    const entries = this.idle[lane].get(project);
    const entry = entries?.pop();
    if (entries === undefined || entry === undefined) return null;
    if (entries.length === 0) this.idle[lane].delete(project);
    entry.longestPause = Math.max(entry.longestPause ?? 0, Date.now() - entry.idleSince);
    return this.lend(entry);
  }

  /** Lends a fresh connection. @throws EngineError where none can be had */
  async lendNew(project: string, placement: Placement, lane: Lane): Promise<Lease> {
    return this.lend(await this.openEntry(project, placement, lane));
  }

  private lend(entry: Entry): Lease {
    this.lent.add(entry);
    return new Lease(entry);
  }

  /**
   * Takes a connection back; `done` is called when it is free again or gone.
   * @returns null, or what has to be waited for before the result of the request is passed on: what code of the project
   * left in the session (a lock, a LISTEN) goes away before that, all other cleaning up follows behind it
   */
  giveBack(lease: Lease, done: () => void): Promise<void> | null {
    const { entry, session, mustReset } = lease;
    if (lease.mustClose) this.discard(entry);
    // Work that ended well has mostly sent the reset with its own last messages.
    if (session.closed || (!session.inTransaction && (!mustReset || session.isClean))) {
      this.keep(entry);
      done();
      return null;
    }
    const cleaned = this.clean(lease).finally(done);
    return mustReset ? cleaned : null;
  }

  /** Closes the connections of a project, those at work when their request is done. */
  closeProject(project: string): void {
    for (const entry of this.lent) if (entry.project === project) entry.unwanted = true;
    for (const lane of LANES) for (const entry of this.idle[lane].get(project) ?? []) this.discard(entry);
  }

  /** Closes all idle connections and those that are still at work when they come back. */
  close(): void {
    this.closing = true;
    clearInterval(this.sweeper);
    for (const entry of this.allIdle()) this.discard(entry);
  }

  private async openEntry(project: string, placement: Placement, lane: Lane): Promise<Entry> {
    this.makeRoom(project);
    this.count(project, 1);
    try {
      const opened = await this.sessions.open(placement, lane);
      const entry: Entry = { project, lane, opened, idleSince: 0, longestPause: null, unwanted: false };
      opened.session.onClose(() => {
        this.count(project, -1);
        this.removeIdle(entry);
      });
      // It may have closed before the listener was there.
      if (opened.session.closed) throw new ConnectionLost('The connection to Postgres was lost');
      return entry;
    } catch (error) {
      this.count(project, -1);
      throw error;
    }
  }

  private async clean({ entry, session, mustReset }: Lease): Promise<void> {
    const timer = setTimeout(() => this.discard(entry), RESET_MS);
    try {
      await (mustReset ? session.reset() : session.run([ROLLBACK]));
    } catch {
      // A connection that cannot be cleaned is not kept.
      this.discard(entry);
    } finally {
      clearTimeout(timer);
      this.keep(entry);
    }
  }

  private keep(entry: Entry): void {
    this.lent.delete(entry);
    if (entry.opened.session.closed) return;
    if (this.closing || entry.unwanted) return this.discard(entry);
    entry.idleSince = Date.now();
    const { project, lane } = entry;
    const entries = this.idle[lane].get(project);
    if (entries === undefined) this.idle[lane].set(project, [entry]);
    else entries.push(entry);
  }

  /** Gives up an idle connection of this project, or of all, where the share is full. */
  private makeRoom(project: string): void {
    if ((this.counts.get(project) ?? 0) >= this.limits.perProject) {
      const own = LANES.flatMap((lane) => this.idle[lane].get(project) ?? []);
      if (own.length > 0) this.discard(oldest(own));
    }
    if (this.total >= this.limits.total) {
      const all = this.allIdle();
      if (all.length > 0) this.discard(leastUseful(all, Date.now()));
    }
  }

  private closeIdle(): void {
    const now = Date.now();
    for (const entry of this.allIdle()) {
      if (entry.idleSince <= now - this.limits.idleMs) this.discard(entry);
      // Looked at here and not when it comes back: no request waits for it, and one of many in a burst pays for all.
      else if (this.limits.isLocal && entry.idleSince >= this.lastSweep) void this.closeIfLarge(entry);
    }
    this.lastSweep = now;
  }

  private async closeIfLarge(entry: Entry): Promise<void> {
    const mib = await privateMemoryMib(entry.opened.backend.processId);
    if (mib === null || mib <= MAX_IDLE_MIB) return;
    if (this.lent.has(entry)) entry.unwanted = true;
    else this.discard(entry);
  }

  private discard(entry: Entry): void {
    this.removeIdle(entry);
    void entry.opened.session.close();
  }

  private removeIdle({ project, lane, opened }: Entry): void {
    const entries = this.idle[lane].get(project)?.filter((other) => other.opened !== opened);
    if (entries === undefined) return;
    if (entries.length === 0) this.idle[lane].delete(project);
    else this.idle[lane].set(project, entries);
  }

  private allIdle(): Entry[] {
    return LANES.flatMap((lane) => [...this.idle[lane].values()].flat());
  }

  private count(project: string, change: number): void {
    this.total += change;
    const count = (this.counts.get(project) ?? 0) + change;
    if (count === 0) this.counts.delete(project);
    else this.counts.set(project, count);
  }
}

/** @returns MiB that a Postgres process shares with nobody (RssAnon, proc_pid_status(5)); null if it is none of this machine */
async function privateMemoryMib(pid: number): Promise<number | null> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => '');
  const [, kib] = /^Name:\tpostgres\n[^]*^RssAnon:\s+(\d+) kB$/m.exec(status) ?? [];
  return kib === undefined ? null : Number(kib) / 1024;
}

const oldest = (entries: readonly Entry[]): Entry => entries.reduce((a, b) => (b.idleSince < a.idleSince ? b : a));
const newest = (entries: readonly Entry[]): Entry => entries.reduce((a, b) => (b.idleSince >= a.idleSince ? b : a));

/** Whoever has used a connection again and again is gone after a pause this many times the longest … */
const OVERDUE = 2;
/** … and this long, since between two requests of a burst there is no pause at all. */
const OVERDUE_MS = 5_000;

/**
 * One whose project is gone, by the pauses it made before; else one of the projects that hold the most, where that is more
 * than one; else of those that were never used again the newest; else the oldest. Where more projects are written to in
 * turn than there are connections, giving up the oldest would always hit the one that is needed next, however long a turn
 * takes; like this, as many projects as have room keep theirs.
 */
function leastUseful(entries: readonly Entry[], now: number): Entry {
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
