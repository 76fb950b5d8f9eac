/**
 * Checks everything in progress every few milliseconds, with one timer for all requests: a timer and a listener for
 * each would cost more than many requests take.
 */

/** Maximum delay in noticing an expired deadline or a disconnected client. */
const INTERVAL_MS = 20;

export interface Checkable {
  /** @param now on the clock of `performance.now()` */
  check(now: number): void;
}

export class PeriodicChecks<T extends Checkable> {
  /**
   * In no order. Not a Set: once one of its backing stores has become old, V8's young-generation collections keep every
   * later member alive.
   */
  private readonly members: T[] = [];
  private timer: NodeJS.Timeout | null = null;

  add(member: T): void {
    this.members.push(member);
    this.timer ??= setInterval(() => this.checkAll(), INTERVAL_MS).unref();
  }

  delete(member: T): void {
    const index = this.members.indexOf(member);
    if (index < 0) return;
    const last = this.members.pop() as T;
    if (last !== member) this.members[index] = last;
  }

  all(): T[] {
    return [...this.members];
  }

  /**
   * The timer stops at the first check that finds no members, so that one short-lived member does not restart it.
   */
  private checkAll(): void {
    if (this.members.length === 0 && this.timer !== null) {
      clearInterval(this.timer);
      this.timer = null;
    }
    const now = performance.now();
    // Backwards: the last member, already checked, takes the place of one that is deleted.
    for (let i = this.members.length - 1; i >= 0; i--) this.members[i]?.check(now);
  }
}
