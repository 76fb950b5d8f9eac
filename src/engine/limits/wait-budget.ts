/** How long one request may wait in all, summed over the queues it stands in one after another (contract section 8). */
export class WaitBudget {
  /** @param left milliseconds */
  constructor(private left: number) {}

  /** Milliseconds that the request may still wait; 0: reject it if it would have to wait. */
  get ms(): number {
    return Math.max(0, this.left);
  }

  /** Starts a wait. @returns call it when the wait is over */
  start(): () => void {
    const since = performance.now();
    return () => void (this.left -= performance.now() - since);
  }
}
