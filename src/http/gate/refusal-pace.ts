/**
 * Clients that are refused and come again at once, whatever `Retry-After` says, would take the event loop from those who are
 * served. Where more are refused than that costs next to nothing, each is told a little later.
 */

/** Refusals a second that go out at once: half a processor. */
const PER_SECOND = 3_000;

/** A refusal is held for no longer. */
const HELD_MS = 300;

/** Less is not worth a timer. */
const AT_ONCE_MS = 5;

export class RefusalPace {
  /** When the last refusal goes out, and those that wait for that; in order. */
  private last = 0;
  private readonly held: { due: number; go: () => void }[] = [];
  private timer: NodeJS.Timeout | null = null;

  /**
   * @param since when its request began: one that has waited already is not held
   * @returns resolves when the refusal may go out; undefined: now
   */
  wait(since: number): Promise<void> | undefined {
    const now = performance.now();
    if (now - since > HELD_MS) return undefined;
    this.last = Math.min(Math.max(now, this.last + 1_000 / PER_SECOND), now + HELD_MS);
    if (this.last - now < AT_ONCE_MS) return undefined;
    const due = this.last;
    return new Promise((go) => {
      this.held.push({ due, go });
      this.timer ??= setTimeout(() => this.letGo(), due - now);
    });
  }

  private letGo(): void {
    const now = performance.now();
    const later = this.held.findIndex(({ due }) => due > now);
    for (const { go } of this.held.splice(0, later < 0 ? this.held.length : later)) go();
    const [next] = this.held;
    this.timer = next === undefined ? null : setTimeout(() => this.letGo(), Math.max(AT_ONCE_MS, next.due - now));
  }
}
