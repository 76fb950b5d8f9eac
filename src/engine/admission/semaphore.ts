/** So many at once and the others in turn, for work of the service itself: there are no projects to be fair to. */
import { EngineError } from '../../contract/errors.js';

export class Semaphore {
  /** Those who wait, the first first. */
  private readonly waiting: (() => void)[] = [];

  /**
   * @param free places
   * @param waitMs longest wait in milliseconds
   */
  constructor(
    private free: number,
    private readonly waitMs: number,
  ) {}

  /**
   * Does the work once there is a place for it.
   * @throws EngineError overloaded; what `work` throws
   */
  async run<T>(work: () => Promise<T>): Promise<T> {
    await this.take();
    try {
      return await work();
    } finally {
      this.giveBack();
    }
  }

  private take(): Promise<void> {
    if (this.free > 0) {
      this.free--;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const admit = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.waiting.splice(this.waiting.indexOf(admit), 1);
        reject(new EngineError('overloaded', 'No place became free in time', { retryAfter: 1 }));
      }, this.waitMs);
      this.waiting.push(admit);
    });
  }

  /** A place that somebody waits for is never free in between: whoever comes now stands behind him. */
  private giveBack(): void {
    const next = this.waiting.shift();
    if (next === undefined) this.free++;
    else next();
  }
}
