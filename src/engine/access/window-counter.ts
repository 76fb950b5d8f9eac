/** Counts events by key in windows of fixed length, in memory, for a bounded number of keys. */
import { LRUCache } from 'lru-cache';

interface Window {
  count: number;
  /** On the clock of `performance.now()`. */
  readonly endsAt: number;
}

export class WindowCounter {
  private readonly windows: LRUCache<string, Window>;

  /** @param keys the most keys that are remembered; beyond that, the least recently used one is forgotten */
  constructor(
    private readonly windowMs: number,
    keys: number,
  ) {
    this.windows = new LRUCache({ max: keys });
  }

  /** Counts one event; the first of a key opens its window. */
  add(key: string): Window {
    const running = this.running(key);
    const window = running ?? { count: 0, endsAt: performance.now() + this.windowMs };
    window.count++;
    if (running === undefined) this.windows.set(key, window);
    return window;
  }

  /** The current window of the key, if any. */
  running(key: string): Window | undefined {
    const window = this.windows.get(key);
    return window !== undefined && window.endsAt > performance.now() ? window : undefined;
  }

  /** The number of keys that are remembered. */
  get size(): number {
    return this.windows.size;
  }
}

/** Whole seconds until the window ends, at least 1. */
export const secondsLeft = ({ endsAt }: Window): number => Math.max(1, Math.ceil((endsAt - performance.now()) / 1_000));
