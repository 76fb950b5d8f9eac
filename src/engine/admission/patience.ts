/** How long one request may wait, over all the queues that it stands in one after the other (contract section 8). */
export class Patience {
  /** @param left milliseconds */
  constructor(private left: number) {}

  /** Milliseconds that the request may still wait; 0: it is refused where it would have to. */
  get ms(): number {
    return Math.max(0, this.left);
  }

  /** A wait begins. @returns call it when the wait is over */
  wait(): () => void {
    const since = performance.now();
    return () => void (this.left -= performance.now() - since);
  }
}
