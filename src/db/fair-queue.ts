/**
 * A queue of requests for a limited resource: slots, memory, parser threads. The projects take turns, so a project with
 * a long queue does not delay the others. A request stops waiting when its wait budget is used up or its client
 * disconnects.
 */
import { EngineError } from '../contract/errors.js';
import { endedWhileWaiting } from './backend-request.js';
import { type Checkable, PeriodicChecks } from './periodic-checks.js';
import type { WaitBudget } from './wait-budget.js';

interface Options<T> {
  /** Takes the resource if enough of it is free. @returns whether it did */
  readonly tryTake: (projectId: string, request: T) => boolean;
  /** `first`: a request that does not fit holds up later ones of its project. `any`: they may overtake it. */
  readonly order: 'first' | 'any';
  /** The error message of a request that has waited too long. */
  readonly late: string;
}

interface Waiter<T> extends Checkable {
  readonly request: T;
  admit(): void;
}

/** `T`: the type of a request. */
export class FairQueue<T> {
  /** By project, in order of arrival. The projects' turns follow the order of the map. */
  private readonly waiters = new Map<string, Waiter<T>[]>();
  private readonly checks = new PeriodicChecks<Waiter<T>>();

  constructor(private readonly options: Options<T>) {}

  /** Projects with waiting requests. */
  projects(): Iterable<string> {
    return this.waiters.keys();
  }

  waiting(projectId: string): readonly T[] {
    return this.waiters.get(projectId)?.map(({ request }) => request) ?? [];
  }

  lengthOf(projectId: string): number {
    return this.waiters.get(projectId)?.length ?? 0;
  }

  /**
   * Waits until the queue has taken the resource for the request.
   * @param signal aborted when the client disconnects, or with the EngineError that ends the request
   * @throws EngineError overloaded, that of the signal
   */
  async wait(projectId: string, request: T, budget: WaitBudget, signal: AbortSignal): Promise<void> {
    const stopWaiting = budget.start();
    try {
      await this.turn(projectId, request, budget, signal);
    } finally {
      stopWaiting();
    }
  }

  /** Call this after a release: admits one request of each project in turn, until no more fit. */
  admitNext(): void {
    const { tryTake, order } = this.options;
    for (const [projectId, waiters] of this.waiters) {
      const candidates = order === 'first' ? waiters.slice(0, 1) : waiters;
      const next = candidates.find(({ request }) => tryTake(projectId, request));
      if (next === undefined) continue;
      this.remove(projectId, next);
      const rest = this.waiters.get(projectId);
      if (rest !== undefined) {
        // The project moves to the end of the map, which this loop reaches later.
        this.waiters.delete(projectId);
        this.waiters.set(projectId, rest);
      }
      next.admit();
    }
  }

  private turn(projectId: string, request: T, budget: WaitBudget, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (error: EngineError) => {
        this.remove(projectId, waiter);
        reject(error);
        // Later requests of the project may need less.
        this.admitNext();
      };
      const waiter: Waiter<T> = {
        request,
        admit: resolve,
        check: () => {
          if (signal.aborted) leave(endedWhileWaiting(signal));
          else if (budget.ms === 0) leave(new EngineError('overloaded', this.options.late));
        },
      };
      const waiters = this.waiters.get(projectId);
      if (waiters === undefined) this.waiters.set(projectId, [waiter]);
      else waiters.push(waiter);
      this.checks.add(waiter);
    });
  }

  /** Removes the waiter, and the entry of a project that has no more. */
  private remove(projectId: string, waiter: Waiter<T>): void {
    this.checks.delete(waiter);
    const waiters = this.waiters.get(projectId) ?? [];
    waiters.splice(waiters.indexOf(waiter), 1);
    if (waiters.length === 0) this.waiters.delete(projectId);
  }
}
