/**
 * The readers that wait for changes of one project. They are told of new ones at once; but the more of them read, the longer changes are
 * collected for them, since telling all of every single one would take the service all its time.
 */
import { EngineError } from '../contract/errors.js';
import { isBefore, type Place } from './cursor.js';

/** For one project. */
const MAX_WAITING = 250;
/** For each other reader, changes are collected for so long. */
const TELL_MS = 2;

export class WaitingReaders {
  private readonly waiting = new Set<() => void>();
  /** How far they have been told of, when, and how many have read it. */
  private told: { readonly end: Place; readonly at: number; readers: number } | null = null;
  private telling: NodeJS.Timeout | undefined;

  /** @param endOfLog null: there is no log */
  constructor(private readonly endOfLog: () => Place | null) {}

  /** The end of the changes that they have been told of; null: of none yet. */
  get end(): Place | null {
    return this.told?.end ?? null;
  }

  /** One has read changes. */
  countReader(): void {
    if (this.told !== null) this.told.readers++;
  }

  /**
   * Waits until there are changes after a place, or for so long.
   * @throws EngineError rate_limited
   */
  async wait(place: Place, ms: number, signal: AbortSignal): Promise<void> {
    if (this.waiting.size >= MAX_WAITING)
      throw new EngineError('rate_limited', `${MAX_WAITING} readers wait for changes of this project`, {
        retryAfter: 5,
      });
    // It may have been aborted before, and tells of that only once.
    if (signal.aborted || this.told === null || isBefore(place, this.told.end)) return;
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
  tellSoon(): void {
    if (this.telling !== undefined) return;
    const { at = 0, readers = 0 } = this.told ?? {};
    const waitMs = at + (Math.min(readers, MAX_WAITING) - 1) * TELL_MS - performance.now();
    if (waitMs <= 0) return this.tell();
    const again = () => {
      this.telling = undefined;
      this.tellSoon();
    };
    this.telling = setTimeout(again, waitMs).unref();
  }

  /** Lets all look now. */
  tell(): void {
    clearTimeout(this.telling);
    this.telling = undefined;
    const end = this.endOfLog();
    this.told = end && { end, at: performance.now(), readers: 0 };
    for (const done of this.waiting) done();
  }
}
