/** How long a request may wait in total, over all queues (contract section 8). */
export class WaitBudget {
  /** @param left milliseconds */
  constructor(private left: number) {}

  /** Milliseconds left; 0: a request that would have to wait is rejected. */
  get ms(): number {
    return Math.max(0, this.left);
  }

  /** Starts a wait. @returns a function to call when the wait is over */
  start(): () => void {
    const since = performance.now();
    return () => void (this.left -= performance.now() - since);
  }
}
