/**
 * Slots for running requests on one server: a request gets one, waits for one, or is rejected (contract C15).
 * They are limited per project and over all projects of the server.
 */
import { EngineError } from '../contract/errors.js';
import { FairQueue } from './fair-queue.js';
import type { WaitBudget } from './wait-budget.js';

/** Operations of the API (inserts, schema calls) have slots that free SQL cannot take. */
export type SlotClass = 'typed' | 'sql';

export interface Load {
  running: number;
  waiting: number;
}

export interface SlotLimits {
  /** Running at once, over all projects. */
  total: number;
  /** Running at once, per project. */
  running: number;
  /** Of `running`, reserved for operations of the API. */
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
  private readonly queue = new FairQueue<SlotClass>({
    tryTake: (projectId, kind) => this.tryTake(projectId, kind),
    order: 'any',
    late: 'No slot became free in time',
  });

  constructor(private limits: SlotLimits) {}

  /** Changes how many may run over all projects. Those that run beyond it go on. */
  setTotal(total: number): void {
    this.limits = { ...this.limits, total };
    this.queue.admitNext();
  }

  /** Requests running and waiting now, for the metrics. @param projectId undefined: all of them */
  addLoad(load: Record<SlotClass, Load>, projectId?: string): void {
    const all = () => new Set([...this.projects.keys(), ...this.queue.projects()]);
    for (const one of projectId === undefined ? all() : [projectId]) this.addLoadOf(one, load);
  }

  /**
   * Rejects a new request if no slot is free and the queue is full.
   * @throws EngineError overloaded
   */
  rejectIfFull(projectId: string, kind: SlotClass): void {
    if (!this.isFree(this.usageOf(projectId), kind)) this.rejectIfQueueFull(projectId);
  }

  /**
   * Takes a slot, or waits for one.
   * @param signal aborted when the client disconnects, or with the EngineError that ends the request
   * @returns a function that releases the slot; a promise if the request has to wait, which rejects with EngineError
   * overloaded
   */
  acquire(
    projectId: string,
    kind: SlotClass,
    budget: WaitBudget,
    signal: AbortSignal,
  ): (() => void) | Promise<() => void> {
    if (this.tryTake(projectId, kind)) return this.releaseOf(projectId, kind);
    return this.wait(projectId, kind, budget, signal);
  }

  private async wait(projectId: string, kind: SlotClass, budget: WaitBudget, signal: AbortSignal): Promise<() => void> {
    this.rejectIfQueueFull(projectId);
    await this.queue.wait(projectId, kind, budget, signal);
    return this.releaseOf(projectId, kind);
  }

  private tryTake(projectId: string, kind: SlotClass): boolean {
    const usage = this.usageOf(projectId);
    if (!this.isFree(usage, kind)) return false;
    this.projects.set(projectId, usage);
    this.running++;
    usage.running++;
    if (kind === 'sql') usage.runningSql++;
    return true;
  }

  private isFree({ running, runningSql }: Usage, kind: SlotClass): boolean {
    const { limits } = this;
    if (this.running >= limits.total || running >= limits.running) return false;
    return kind === 'typed' || runningSql < limits.running - limits.reservedForTyped;
  }

  /** @throws EngineError overloaded */
  private rejectIfQueueFull(projectId: string): void {
    if (this.queue.lengthOf(projectId) >= this.limits.waiting) throw TOO_MANY_WAITING;
  }

  private releaseOf(projectId: string, kind: SlotClass): () => void {
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      const usage = this.usageOf(projectId);
      this.running--;
      usage.running--;
      if (kind === 'sql') usage.runningSql--;
      if (usage.running === 0) this.projects.delete(projectId);
      this.queue.admitNext();
    };
  }

  private usageOf(projectId: string): Usage {
    return this.projects.get(projectId) ?? { running: 0, runningSql: 0 };
  }

  private addLoadOf(projectId: string, load: Record<SlotClass, Load>): void {
    const { running, runningSql } = this.usageOf(projectId);
    load.typed.running += running - runningSql;
    load.sql.running += runningSql;
    for (const kind of this.queue.waiting(projectId)) load[kind].waiting++;
  }
}

export const noLoad = (): Record<SlotClass, Load> => ({
  typed: { running: 0, waiting: 0 },
  sql: { running: 0, waiting: 0 },
});
