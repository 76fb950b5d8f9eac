/**
 * Limits how many requests of a project may wait for a slot, similar to CoDel. A burst may fill the whole queue. Under
 * lasting overload the queue is shortened: as many requests are served, and each waits less.
 */

/** The queue is shortened after it has been full, with rejections, for this long. */
const BURST_MS = 1_000;

/** The overload is over after this long without a rejection. */
const QUIET_MS = 1_000;

/** After this time a shortened queue gets its full length back, to test whether the overload lasts. */
const SHORT_MS = 30_000;

export class AdaptiveQueueLimit {
  private isShort = false;
  /** When rejections at full length began, or when the queue was shortened. */
  private since = 0;
  private rejectedAt = -Infinity;

  constructor(
    private readonly whole: number,
    private readonly short: number,
  ) {}

  /** @returns whether one more request may wait in addition to `waiting`; false counts as a rejection */
  tryAdmit(waiting: number, now = performance.now()): boolean {
    if (now - this.rejectedAt > QUIET_MS) {
      this.isShort = false;
      this.since = now;
    } else if (this.isShort && now - this.since > SHORT_MS) {
      this.isShort = false;
      // The next rejection shows that the overload lasts.
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
