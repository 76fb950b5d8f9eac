/**
 * How many requests of a project may wait for a slot, like CoDel: a burst may fill the whole queue. Under lasting
 * overload a long queue serves nobody better: as many requests are served with a short one, and each of them waits
 * less.
 */

/** Requests have to be rejected at a full queue for this long before it is shortened. */
const BURST_MS = 1_000;

/** After this long without a rejection the overload is over. */
const QUIET_MS = 1_000;

/** A short queue gets its whole length back after this, to find out whether requests still have to be rejected. */
const SHORT_MS = 30_000;

export class AdaptiveQueueLimit {
  private isShort = false;
  /** When requests began to be rejected at the whole length, or when the queue was shortened. */
  private since = 0;
  private rejectedAt = -Infinity;

  constructor(
    private readonly whole: number,
    private readonly short: number,
  ) {}

  /** @returns whether one more may wait in addition to `waiting`; false counts as a rejection */
  admits(waiting: number, now = performance.now()): boolean {
    if (now - this.rejectedAt > QUIET_MS) {
      this.isShort = false;
      this.since = now;
    } else if (this.isShort && now - this.since > SHORT_MS) {
      this.isShort = false;
      // The next rejection shows that there are still too many.
      this.since = now - BURST_MS;
    }
    if (waiting < (this.isShort ? this.short : this.whole)) return true;
    this.rejectedAt = now;
    if (!this.isShort && now - this.since >= BURST_MS) {
      this.isShort = true;
      this.since = now;
    }
    return false;
  }
}
