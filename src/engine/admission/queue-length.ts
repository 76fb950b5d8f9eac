/**
 * How many requests of a project may wait for a place. A burst may fill the whole queue. Where more come than are served
 * for longer than that, a long queue serves nobody better: as many are served with a short one, and each waits less.
 */

/** So long requests have to be refused at a full queue before it is shortened. */
const BURST_MS = 1_000;

/** After so long without a refusal the crowd is over. */
const QUIET_MS = 1_000;

/** A short queue is tried at its whole length again after this: then nobody may have to be refused any more. */
const SHORT_MS = 30_000;

export class QueueLength {
  private isShort = false;
  /** Since when requests have been refused at the whole length, or the queue has been short. */
  private since = 0;
  private refusedAt = -Infinity;

  constructor(
    private readonly whole: number,
    private readonly short: number,
  ) {}

  /** @returns whether one more may wait behind so many; a no is remembered as a refusal */
  admits(waiting: number, now = performance.now()): boolean {
    if (now - this.refusedAt > QUIET_MS) {
      this.isShort = false;
      this.since = now;
    } else if (this.isShort && now - this.since > SHORT_MS) {
      this.isShort = false;
      // The next refusal shows that it is still too many.
      this.since = now - BURST_MS;
    }
    if (waiting < (this.isShort ? this.short : this.whole)) return true;
    this.refusedAt = now;
    if (!this.isShort && now - this.since >= BURST_MS) {
      this.isShort = true;
      this.since = now;
    }
    return false;
  }
}
