/**
 * One event loop serves all projects, and reading large bodies or encoding large results blocks it. While other
 * projects are active, a project gets a limited share of the loop's time for that (docs/decisions/0015).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';

/** Smaller amounts take only a few milliseconds, and are added up until they exceed this. */
const LARGE_BYTES = 256 * 1024;

/** Nanoseconds to read or encode a byte, on a shared processor. */
const NS_PER_BYTE = 20;

/** The length of the pause after a project's work, as a multiple of the work. */
const PAUSE_FACTOR = 3;

/** Maximum number of projects whose bytes are counted; beyond it, the least recently used ones start from zero. */
const PROJECTS = 1_000;

/** Another project is active if its last request is at most this old. */
const ACTIVE_MS = 250;

interface LastRequest {
  readonly project: string;
  readonly at: number;
}

interface Account {
  /** Bytes since the last pause. */
  bytes: number;
  /** The pauses of a project follow one another. */
  pause: Promise<void>;
}

export class EventLoopThrottle {
  private readonly accounts = new LRUCache<string, Account>({ max: PROJECTS });

  /** The last request of all, and the last one of any other project. */
  private last: LastRequest | null = null;
  private lastOther: LastRequest | null = null;

  noteRequest(project: string): void {
    if (this.last?.project !== project) this.lastOther = this.last;
    this.last = { project, at: performance.now() };
  }

  /**
   * @param bytes of the project that are about to be read or encoded, or just were
   * @returns resolves when the work may continue; undefined: at once
   */
  pause(project: string, bytes: number): Promise<void> | undefined {
    if (!this.othersAreActive(project)) return undefined;
    const account = this.accounts.get(project) ?? { bytes: 0, pause: Promise.resolve() };
    this.accounts.set(project, account);
    account.bytes += bytes;
    if (account.bytes < LARGE_BYTES) return undefined;
    const ms = (account.bytes * NS_PER_BYTE * PAUSE_FACTOR) / 1e6;
    account.bytes = 0;
    account.pause = account.pause.then(async () => {
      if (this.othersAreActive(project)) await sleep(ms);
    });
    return account.pause;
  }

  private othersAreActive(project: string): boolean {
    const { last, lastOther } = this;
    const seen = last?.project === project ? lastOther : last;
    return seen !== null && seen.at > performance.now() - ACTIVE_MS;
  }
}
