/** How long a request may wait in total, over all queues (contract C15.3). Waits at the same time count once. */
export class WaitBudget {
  private waits = 0;
  private since = 0;

  /** @param left milliseconds */
  constructor(private left: number) {}

  /** Milliseconds left; 0: a request that would have to wait is rejected. */
  get ms(): number {
    return Math.max(0, this.left - this.running());
  }

  /** Starts a wait. @returns a function to call when the wait is over */
  start(): () => void {
    if (this.waits++ === 0) this.since = performance.now();
    return () => {
      const elapsed = this.running();
      if (--this.waits === 0) this.left -= elapsed;
    };
  }

  private running(): number {
    return this.waits === 0 ? 0 : performance.now() - this.since;
  }
}
