/**
 * The readers that wait for changes of one project. New changes wake them at once; but the more of them read, the longer changes are
 * collected for them, since waking all for every single one would take the service all its time.
 */
import { EngineError } from '../contract/errors.js';
import { isBefore, type Place } from './cursor.js';

/** For one project. */
const MAX_WAITING = 250;
/** For each other reader, changes are collected for so long. */
const WAKE_MS = 2;

export class WaitingReaders {
  private readonly waiting = new Set<() => void>();
  /** When they were last woken, the end of the changes then, and how many have read since. */
  private last: { readonly end: Place; readonly at: number; readers: number } | null = null;
  private waking: NodeJS.Timeout | undefined;

  /** @param endOfLog null: there is no log */
  constructor(private readonly endOfLog: () => Place | null) {}

  /** The end of the changes for which they were woken; null: there were none yet. */
  get end(): Place | null {
    return this.last?.end ?? null;
  }

  /** One has read changes. */
  countReader(): void {
    if (this.last !== null) this.last.readers++;
  }

  /**
   * Waits until there are changes after a place, or `ms` have passed, or the signal is aborted.
   * @throws EngineError rate_limited
   */
  async wait(place: Place, ms: number, signal: AbortSignal): Promise<void> {
    if (this.waiting.size >= MAX_WAITING)
      throw new EngineError('rate_limited', `${MAX_WAITING} readers wait for changes of this project`, {
        retryAfter: 5,
      });
    // A signal that is aborted already has no event any more.
    if (signal.aborted || this.last === null || isBefore(place, this.last.end)) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        this.waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal.addEventListener('abort', done);
      this.waiting.add(done);
    });
  }

  /** There are new changes. */
  wakeSoon(): void {
    if (this.waking !== undefined) return;
    const { at = 0, readers = 0 } = this.last ?? {};
    const waitMs = at + (Math.min(readers, MAX_WAITING) - 1) * WAKE_MS - performance.now();
    if (waitMs <= 0) return this.wake();
    const again = () => {
      this.waking = undefined;
      this.wakeSoon();
    };
    this.waking = setTimeout(again, waitMs).unref();
  }

  /** Lets all read now. */
  wake(): void {
    clearTimeout(this.waking);
    this.waking = undefined;
    const end = this.endOfLog();
    this.last = end && { end, at: performance.now(), readers: 0 };
    for (const done of this.waiting) done();
  }
}
