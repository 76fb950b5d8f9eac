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
  private readonly members = new Set<T>();
  private timer: NodeJS.Timeout | null = null;

  add(member: T): void {
    this.members.add(member);
    this.timer ??= setInterval(() => this.goRound(), ROUND_MS).unref();
  }

  delete(member: T): void {
    this.members.delete(member);
  }

  [Symbol.iterator](): Iterator<T> {
    return this.members.values();
  }

  /** Ends the timer in the first round without a member, so that one that comes and goes does not begin it each time. */
  private goRound(): void {
    if (this.members.size === 0 && this.timer !== null) {
      clearInterval(this.timer);
      this.timer = null;
    }
    const now = performance.now();
    for (const member of this.members) member.look(now);
  }
}
