/** How many deliveries run at once. Projects take turns, and what has failed before waits in a line of its own. */
import { Counts } from '../../counts.js';
import { FairQueue } from '../../db/fair-queue.js';
import { WaitBudget } from '../../db/wait-budget.js';

export class Turns {
  private readonly running = new Counts();
  private readonly queue: FairQueue<null>;

  /** @param limit of all projects, and of each */
  constructor(private readonly limit: { readonly total: number; readonly perProject: number }) {
    this.queue = new FairQueue({
      tryTake: (projectId) => this.tryTake(projectId),
      order: 'first',
      late: 'Too many webhooks are being sent',
    });
  }

  /**
   * Runs work when it is the project's turn.
   * @param waitMs gives up after this time
   * @throws EngineError overloaded; what `work` throws
   */
  async run<T>(projectId: string, signal: AbortSignal, work: () => Promise<T>, waitMs = Infinity): Promise<T> {
    if (!this.tryTake(projectId)) await this.queue.wait(projectId, null, new WaitBudget(waitMs), signal);
    try {
      return await work();
    } finally {
      this.running.add(projectId, -1);
      this.queue.admitNext();
    }
  }

  private tryTake(projectId: string): boolean {
    const { total, perProject } = this.limit;
    if (this.running.total >= total || this.running.of(projectId) >= perProject) return false;
    this.running.add(projectId, 1);
    return true;
  }
}
