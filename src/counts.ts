/** Counters by key, for instance by project. A counter at 0 takes no memory. */
export class Counts {
  private readonly counts = new Map<string, number>();
  /** The sum of all counters. */
  total = 0;

  of(key: string): number {
    return this.counts.get(key) ?? 0;
  }

  /** @returns the new count */
  add(key: string, change: number): number {
    this.total += change;
    const count = this.of(key) + change;
    if (count === 0) this.counts.delete(key);
    else this.counts.set(key, count);
    return count;
  }
}
