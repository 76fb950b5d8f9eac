/**
 * Slots for running requests on one server: a request gets one, waits for one, or is rejected (contract section 8).
 * They are limited per project and over all projects of the server.
 */
import { EngineError } from '../../contract/errors.js';
import { FairQueue } from './fair-queue.js';
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
  /** Of `running`, reserved for typed requests. */
  reservedForTyped: number;
  /** Waiting, per project. */
  waiting: number;
}

interface Usage {
  running: number;
  runningSql: number;
}

/**
 * A single instance: under overload there may be thousands a second, and a stack trace for each would cost more than
 * the rejection.
 */
const TOO_MANY_WAITING = new EngineError('overloaded', 'Too many requests of this project are waiting');

export class Slots {
  private running = 0;
  /** Projects with running requests. */
  private readonly projects = new Map<string, Usage>();
  private readonly queue = new FairQueue<WorkKind>({
    tryTake: (project, kind) => this.tryTake(project, kind),
    order: 'any',
    late: 'No slot became free in time',
  });

  constructor(private readonly limits: SlotLimits) {}

  /** Requests running and waiting now, for the metrics. @param project undefined: all of them */
  addLoad(load: Record<WorkKind, Load>, project?: string): void {
    const all = () => new Set([...this.projects.keys(), ...this.queue.projects()]);
    for (const one of project === undefined ? all() : [project]) this.addLoadOf(one, load);
  }

  /**
   * Rejects a new request if no slot is free and the queue is full.
   * @throws EngineError overloaded
   */
  rejectIfFull(project: string, kind: WorkKind): void {
    if (!this.isFree(this.usageOf(project), kind)) this.rejectIfQueueFull(project);
  }

  /**
   * Takes a slot, or waits for one.
   * @param signal aborted when the client disconnects, or with the EngineError that ends the request
   * @returns a function that releases the slot; a promise if the request has to wait, which rejects with EngineError
   * overloaded
   */
  acquire(
    project: string,
    kind: WorkKind,
    budget: WaitBudget,
    signal: AbortSignal,
  ): (() => void) | Promise<() => void> {
    if (this.tryTake(project, kind)) return this.releaseOf(project, kind);
    return this.wait(project, kind, budget, signal);
  }

  private async wait(project: string, kind: WorkKind, budget: WaitBudget, signal: AbortSignal): Promise<() => void> {
    this.rejectIfQueueFull(project);
    await this.queue.wait(project, kind, budget, signal);
    return this.releaseOf(project, kind);
  }

  private tryTake(project: string, kind: WorkKind): boolean {
    const usage = this.usageOf(project);
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

  /** @throws EngineError overloaded */
  private rejectIfQueueFull(project: string): void {
    if (this.queue.lengthOf(project) >= this.limits.waiting) throw TOO_MANY_WAITING;
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
      if (usage.running === 0) this.projects.delete(project);
      this.queue.admitNext();
    };
  }

  private usageOf(project: string): Usage {
    return this.projects.get(project) ?? { running: 0, runningSql: 0 };
  }

  private addLoadOf(project: string, load: Record<WorkKind, Load>): void {
    const { running, runningSql } = this.usageOf(project);
    load.typed.running += running - runningSql;
    load.sql.running += runningSql;
    for (const kind of this.queue.waiting(project)) load[kind].waiting++;
  }
}

export const noLoad = (): Record<WorkKind, Load> => ({
  typed: { running: 0, waiting: 0 },
  sql: { running: 0, waiting: 0 },
});
