/**
 * The connections that are logged in as projects' roles: a few per project, closed when idle, the least useful ones
 * given up first when the server's share is full. A connection only ever serves the project and the lane it was opened
 * for.
 */
import { ConnectionLost } from './errors.js';
import type { Placement } from './placement.js';
import { LANES, type Lane, type ProjectSession, type ProjectSessions } from './project-session.js';
import type { Statement } from './sql.js';

export interface ConnectionLimits {
  /** All connections to projects' databases. Whoever admits requests must not let more run at once. */
  total: number;
  /** Connections of one project. */
  perProject: number;
  /** Milliseconds after which an idle connection is closed. */
  idleMs: number;
}

/** A connection in the hands of one request. */
export interface Lease extends ProjectSession {
  /** True on a connection that has served requests before: its server may have gone in the meantime. */
  readonly reused: boolean;
  /** The connection must not be used again (it was cancelled, or its state is in doubt). */
  spoil(): void;
  /** The request ran code of the project: reset the session before the next one. */
  soil(): void;
  /** Sends the reset of a soiled session right behind what was sent, to save a round trip. Nothing may follow it. */
  reset(): void;
}

interface Entry {
  readonly project: string;
  readonly lane: Lane;
  readonly opened: ProjectSession;
  idleSince: number;
  /** It has served more than the request that it was opened for. */
  reused: boolean;
  /** To be closed instead of kept, once the request that has it is done. */
  unwanted: boolean;
}

const ROLLBACK: readonly Statement[] = [{ text: 'ROLLBACK', params: [] }];

/** A reset that takes longer has met something strange; the connection is closed instead. */
const RESET_MS = 5_000;

export class Connections {
  /** Idle entries by project and lane, the most recently used last. */
  private readonly idle = new Map<string, Entry[]>();
  private readonly lent = new Set<Entry>();
  /** Connections open or being opened, by project. */
  private readonly counts = new Map<string, number>();
  private total = 0;
  private readonly sweeper: NodeJS.Timeout;
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

  /**
   * Lends a connection to `work`; `done` is called when it is free again or gone. What code of the project left in the
   * session (a lock, a LISTEN) goes away before the result is passed on; all other cleaning up follows behind it.
   * @throws whatever `work` throws, EngineError where no connection can be had
   */
  async use<T>(
    project: string,
    placement: Placement,
    lane: Lane,
    done: () => void,
    work: (lease: Lease) => Promise<T>,
  ): Promise<T> {
    let entry: Entry;
    try {
      entry = this.takeIdle(project, lane) ?? (await this.openEntry(project, placement, lane));
    } catch (error) {
      done();
      throw error;
    }
    // Free SQL may do anything to its session; typed requests say when they ran the project's code.
    let soiled = lane !== 'typed';
    let spoiled = false;
    let reset: Promise<void> | null = null;
    this.lent.add(entry);
    try {
      return await work({
        ...entry.opened,
        reused: entry.reused,
        soil: () => (soiled = true),
        spoil: () => (spoiled = true),
        reset: () => {
          reset = entry.opened.session.reset();
          // Whether it failed is asked when the connection comes back.
          reset.catch(() => {});
        },
      });
    } finally {
      if (spoiled) this.discard(entry);
      const cleaned = this.giveBack(entry, soiled, reset).finally(done);
      if (soiled) await cleaned;
    }
  }

  /** Closes the connections of a project, those at work when their request is done. */
  closeProject(project: string): void {
    for (const entry of this.lent) if (entry.project === project) entry.unwanted = true;
    for (const lane of LANES) for (const entry of this.idle.get(key(project, lane)) ?? []) this.discard(entry);
  }

  /** Closes all idle connections and those that are still at work when they come back. */
  close(): void {
    this.closing = true;
    clearInterval(this.sweeper);
    for (const entries of [...this.idle.values()]) for (const entry of [...entries]) this.discard(entry);
  }

  private takeIdle(project: string, lane: Lane): Entry | undefined {
    const entries = this.idle.get(key(project, lane));
    const entry = entries?.pop();
    if (entries?.length === 0) this.idle.delete(key(project, lane));
    if (entry !== undefined) entry.reused = true;
    return entry;
  }

  private async openEntry(project: string, placement: Placement, lane: Lane): Promise<Entry> {
    this.makeRoom(project);
    this.count(project, 1);
    try {
      const opened = await this.sessions.open(placement, lane);
      const entry: Entry = { project, lane, opened, idleSince: 0, reused: false, unwanted: false };
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

  private async giveBack(entry: Entry, soiled: boolean, reset: Promise<void> | null): Promise<void> {
    const { session } = entry.opened;
    const timer = setTimeout(() => this.discard(entry), RESET_MS);
    try {
      if (!session.closed && session.transaction !== 'I') await session.run(ROLLBACK);
      if (!session.closed && soiled) await (reset ?? session.reset());
    } catch {
      // A connection that cannot be cleaned is not kept.
      this.discard(entry);
    } finally {
      clearTimeout(timer);
      this.lent.delete(entry);
    }
    if (session.closed) return;
    if (this.closing || entry.unwanted) return this.discard(entry);
    entry.idleSince = Date.now();
    const name = key(entry.project, entry.lane);
    const entries = this.idle.get(name);
    if (entries === undefined) this.idle.set(name, [entry]);
    else entries.push(entry);
  }

  /** Gives up an idle connection of this project, or of all, where the share is full. */
  private makeRoom(project: string): void {
    if ((this.counts.get(project) ?? 0) >= this.limits.perProject) {
      const own = LANES.flatMap((lane) => this.idle.get(key(project, lane)) ?? []);
      if (own.length > 0) this.discard(oldest(own));
    }
    if (this.total >= this.limits.total) {
      const all = [...this.idle.values()].flat();
      if (all.length > 0) this.discard(leastUseful(all, Date.now() - this.limits.idleMs / 2));
    }
  }

  private closeIdle(): void {
    const before = Date.now() - this.limits.idleMs;
    for (const entries of [...this.idle.values()]) {
      for (const entry of entries.filter(({ idleSince }) => idleSince <= before)) this.discard(entry);
    }
  }

  private discard(entry: Entry): void {
    this.removeIdle(entry);
    entry.opened.session.close();
  }

  private removeIdle(entry: Entry): void {
    const name = key(entry.project, entry.lane);
    const entries = this.idle.get(name)?.filter((other) => other !== entry);
    if (entries === undefined) return;
    if (entries.length === 0) this.idle.delete(name);
    else this.idle.set(name, entries);
  }

  private count(project: string, change: number): void {
    this.total += change;
    const count = (this.counts.get(project) ?? 0) + change;
    if (count === 0) this.counts.delete(project);
    else this.counts.set(project, count);
  }
}

const key = (project: string, lane: Lane) => `${project} ${lane}`;

const oldest = (entries: readonly Entry[]): Entry => entries.reduce((a, b) => (b.idleSince < a.idleSince ? b : a));

/**
 * One that nobody has used since `before`; else of those that were never used again the newest; else the oldest. Where
 * more projects are written to in turn than there are connections, giving up the oldest would always hit the one that
 * is needed next; like this, as many projects as have room keep theirs.
 */
function leastUseful(entries: readonly Entry[], before: number): Entry {
  const eldest = oldest(entries);
  if (eldest.idleSince < before) return eldest;
  const unproven = entries.filter(({ reused }) => !reused);
  return unproven.reduce((a, b) => (b.idleSince >= a.idleSince ? b : a), unproven[0] ?? eldest);
}
