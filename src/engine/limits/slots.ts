/**
 * Slots for running requests on one server: a request gets one, waits for one, or is rejected (contract section 8).
 * They are limited per project and over all projects of the server.
 */
import { AdaptiveQueueLimit } from './adaptive-queue-limit.js';
import { FairQueue, overloaded } from './fair-queue.js';
import type { WaitBudget } from './wait-budget.js';

/** Typed requests (inserts, schema calls) have slots that free SQL cannot take. */
export type WorkKind = 'typed' | 'sql';

export interface Load {
  running: number;
  waiting: number;
}

export interface SlotLimits {
  /** Running at once, over all projects. */
  total: number;
  /** Running at once, per project. */
  running: number;
  /** Of those, reserved for typed requests. */
  reservedForTyped: number;
  /** Waiting, per project; fewer under lasting overload, see {@link AdaptiveQueueLimit}. */
  waiting: number;
}

interface Usage {
  running: number;
  runningSql: number;
  /** null: no request of the project has had to wait yet. */
  queueLimit: AdaptiveQueueLimit | null;
}

/** Under overload, this many requests may wait per slot: enough to fill a slot that becomes free. */
const SHORT_QUEUE_PER_SLOT = 2;

/**
 * A single instance: under overload there may be thousands a second, and a stack trace for each would cost more than
 * the rejection.
 */
const TOO_MANY_WAITING = overloaded('Too many requests of this project are waiting');

export class Slots {
  private running = 0;
  /** Projects with running or waiting requests. */
  private readonly projects = new Map<string, Usage>();
  private readonly queue = new FairQueue<WorkKind>({
    tryTake: (project, kind) => this.tryTake(project, kind),
    order: 'any',
    late: 'No slot became free in time',
  });

  constructor(private readonly limits: SlotLimits) {}

  /** Requests running and waiting now, for the metrics. @param project undefined: all of them */
  addLoad(load: Record<WorkKind, Load>, project?: string): void {
    for (const one of project === undefined ? this.projects.keys() : [project]) this.addLoadOf(one, load);
  }

  /**
   * Rejects a new request if no slot is free and the queue is full.
   * @throws EngineError overloaded
   */
  rejectIfFull(project: string, kind: WorkKind): void {
    const usage = this.projects.get(project);
    // A request of an idle project always finds room in its queue.
    if (usage === undefined || this.isFree(usage, kind)) return;
    this.admitToQueue(project, usage);
  }

  /** Takes a slot if one is free. @returns a function that releases it; null: the request has to wait */
  tryAcquire(project: string, kind: WorkKind): (() => void) | null {
    return this.tryTake(project, kind) ? this.releaseOf(project, kind) : null;
  }

  /**
   * Waits for a slot and takes it.
   * @param signal aborted when the client disconnects
   * @returns a function that releases the slot
   * @throws EngineError overloaded
   */
  async acquire(project: string, kind: WorkKind, signal: AbortSignal, budget: WaitBudget): Promise<() => void> {
    const release = this.tryAcquire(project, kind);
    if (release !== null) return release;
    const usage = this.usageOf(project);
    try {
      this.admitToQueue(project, usage);
      await this.queue.wait(project, kind, budget, signal);
    } catch (error) {
      this.forgetIdle(project, usage);
      throw error;
    }
    return this.releaseOf(project, kind);
  }

  private tryTake(project: string, kind: WorkKind): boolean {
    const usage = this.projects.get(project) ?? newUsage();
    if (!this.isFree(usage, kind)) return false;
    this.projects.set(project, usage);
    this.running++;
    usage.running++;
    if (kind === 'sql') usage.runningSql++;
    return true;
  }

  private isFree({ running, runningSql }: Usage, kind: WorkKind): boolean {
    const { limits } = this;
    if (this.running >= limits.total || running >= limits.running) return false;
    return kind === 'typed' || runningSql < limits.running - limits.reservedForTyped;
  }

  /** @throws EngineError overloaded if the queue of the project is full */
  private admitToQueue(project: string, usage: Usage): void {
    const { running, waiting } = this.limits;
    usage.queueLimit ??= new AdaptiveQueueLimit(waiting, Math.min(waiting, running * SHORT_QUEUE_PER_SLOT));
    if (!usage.queueLimit.tryAdmit(this.queue.lengthOf(project))) throw TOO_MANY_WAITING;
  }

  private releaseOf(project: string, kind: WorkKind): () => void {
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      const usage = this.usageOf(project);
      this.running--;
      usage.running--;
      if (kind === 'sql') usage.runningSql--;
      this.queue.admitNext();
      this.forgetIdle(project, usage);
    };
  }

  private usageOf(project: string): Usage {
    const usage = this.projects.get(project) ?? newUsage();
    this.projects.set(project, usage);
    return usage;
  }

  /** Removes the entry of an idle project. */
  private forgetIdle(project: string, { running }: Usage): void {
    if (running === 0 && this.queue.lengthOf(project) === 0) this.projects.delete(project);
  }

  private addLoadOf(project: string, load: Record<WorkKind, Load>): void {
    const { running, runningSql } = this.projects.get(project) ?? newUsage();
    load.typed.running += running - runningSql;
    load.sql.running += runningSql;
    for (const kind of this.queue.waiting(project)) load[kind].waiting++;
  }
}

const newUsage = (): Usage => ({ running: 0, runningSql: 0, queueLimit: null });

export const noLoad = (): Record<WorkKind, Load> => ({
  typed: { running: 0, waiting: 0 },
  sql: { running: 0, waiting: 0 },
});
