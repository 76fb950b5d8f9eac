/** Counts events by key in windows of fixed length, in memory, for a bounded number of keys. */
import { LRUCache } from 'lru-cache';

export class WindowCounter {
  private readonly counts: LRUCache<string, number>;

  /** @param keys maximum number of keys that are remembered; beyond it, the least recently used one is forgotten */
  constructor(windowMs: number, keys: number) {
    this.counts = new LRUCache({ max: keys, ttl: windowMs, ttlResolution: 0, noUpdateTTL: true });
  }

  /** Counts one event; the first of a key opens its window. @returns the events in this window */
  add(key: string): number {
    const count = this.of(key) + 1;
    this.counts.set(key, count);
    return count;
  }

  /** The events in the current window of the key. */
  of(key: string): number {
    return this.counts.get(key) ?? 0;
  }

  /** Whole seconds until the window of the key ends, at least 1. */
  secondsLeft(key: string): number {
    return Math.max(1, Math.ceil(this.counts.getRemainingTTL(key) / 1_000));
  }
}
