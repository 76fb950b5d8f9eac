/**
 * One event loop serves all projects, and whoever has large bodies read or large results encoded keeps it from the
 * others. Where others are at work, such a project gets a third of it (docs/decisions/0015).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { LruMap } from 'toad-cache';

/** Less than this is over in a few milliseconds; it is put together until it is more. */
const LARGE_BYTES = 256 * 1024;

/** What reading or encoding a byte takes, in nanoseconds, on a processor that is shared. */
const NS_PER_BYTE = 20;

/** What a project does is followed by so many times as long for the others, its own time included. */
const SPREAD = 3;

/** Projects whose bytes are counted; of more, those that sent none for longest begin anew. */
const PROJECTS = 1_000;

/** Another project is at work as long as its last request is not older. */
const BUSY_MS = 250;

interface Sighting {
  readonly project: string;
  readonly at: number;
}

interface Account {
  /** Bytes worked on since the last wait. */
  bytes: number;
  /** Pieces of one project wait one behind the other. */
  queue: Promise<void>;
}

export class Pace {
  private readonly accounts = new LruMap<Account>(PROJECTS);

  /** The project that sent the last request, and the last one of any other. */
  private last: Sighting | null = null;
  private lastOther: Sighting | null = null;

  /** A project has sent a request. */
  saw(project: string): void {
    if (this.last?.project !== project) this.lastOther = this.last;
    this.last = { project, at: performance.now() };
  }

  /**
   * For so many bytes of a project that are about to be worked on, or just were.
   * @returns resolves when the project's turn has come again; undefined where there is nothing to wait for
   */
  wait(project: string, bytes: number): Promise<void> | undefined {
    if (!this.othersAreBusy(project)) return undefined;
    const account = this.accounts.get(project) ?? { bytes: 0, queue: Promise.resolve() };
    this.accounts.set(project, account);
    account.bytes += bytes;
    if (account.bytes < LARGE_BYTES) return undefined;
    const ms = (account.bytes * NS_PER_BYTE * SPREAD) / 1e6;
    account.bytes = 0;
    account.queue = account.queue.then(async () => {
      if (this.othersAreBusy(project)) await sleep(ms);
    });
    return account.queue;
  }

  private othersAreBusy(project: string): boolean {
    const { last, lastOther } = this;
    const seen = last?.project === project ? lastOther : last;
    return seen !== null && seen.at > performance.now() - BUSY_MS;
  }
}
