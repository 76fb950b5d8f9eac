/**
 * Checks everything that is in progress every few milliseconds: one timer for all requests, because a timer and a
 * listener for each would cost more than many a request takes.
 */

/** How late an expired deadline, or a client that has left, may be noticed. */
const INTERVAL_MS = 20;

export interface Swept {
  /** @param now on the clock of `performance.now()` */
  check(now: number): void;
}

export class Sweeper<T extends Swept> {
  /**
   * In no order. An array, because V8's young-generation collections keep every later member of a Set alive once an
   * earlier backing store of it has become old.
   */
  private readonly members: T[] = [];
  private timer: NodeJS.Timeout | null = null;

  add(member: T): void {
    this.members.push(member);
    this.timer ??= setInterval(() => this.sweep(), INTERVAL_MS).unref();
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
   * The timer ends with the first sweep that finds nothing, so that a single member that comes and goes does not
   * restart it.
   */
  private sweep(): void {
    if (this.members.length === 0 && this.timer !== null) {
      clearInterval(this.timer);
      this.timer = null;
    }
    const now = performance.now();
    // Backwards: the last member, which was already checked, takes the place of one that leaves.
    for (let i = this.members.length - 1; i >= 0; i--) this.members[i]?.check(now);
  }
}
