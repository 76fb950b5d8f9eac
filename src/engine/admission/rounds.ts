/**
 * Looks at everything that is under way, again and again while there is something: one timer for all requests. A timer
 * and a listener for each would cost more than many a request takes.
 */

/** How late it may be noticed that a time is up, or that a client has left. */
const ROUND_MS = 20;

export interface Watched {
  /** @param now on the clock of `performance.now()` */
  look(now: number): void;
}

export class Rounds<T extends Watched> implements Iterable<T> {
  /**
   * In no order. A set whose members come and go is laid out anew all the time, and what it was before points to what it is:
   * where that has grown old, V8's collections of young objects take every later member for alive.
   */
  private readonly members: T[] = [];
  private timer: NodeJS.Timeout | null = null;

  add(member: T): void {
    this.members.push(member);
    this.timer ??= setInterval(() => this.goRound(), ROUND_MS).unref();
  }

  delete(member: T): void {
    const place = this.members.indexOf(member);
    if (place < 0) return;
    const last = this.members.pop() as T;
    if (last !== member) this.members[place] = last;
  }

  [Symbol.iterator](): Iterator<T> {
    return this.members.values();
  }

  /** Ends the timer in the first round without a member, so that one that comes and goes does not begin it each time. */
  private goRound(): void {
    if (this.members.length === 0 && this.timer !== null) {
      clearInterval(this.timer);
      this.timer = null;
    }
    const now = performance.now();
    // Backwards: the place of one that leaves is taken by the last, which has been looked at.
    for (let i = this.members.length - 1; i >= 0; i--) this.members[i]?.look(now);
  }
}
