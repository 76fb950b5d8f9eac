/**
 * Who may use Postgres now, who waits, and who is sent away (contract section 8). Places are bounded per project and
 * over all projects; a freed place goes to the projects in turn, so that one with a long queue delays no other.
 */
import { EngineError } from '../../contract/errors.js';
import { type Departure, STAYS } from './departure.js';
import { Patience } from './patience.js';
import { QueueLength } from './queue-length.js';
import { Rounds, type Watched } from './rounds.js';

/** Typed requests (inserts, schema calls) have places that free SQL cannot take. */
export type WorkKind = 'typed' | 'sql';

/** Requests of a kind. */
export interface Load {
  running: number;
  waiting: number;
}

export interface AdmissionLimits {
  /** Running at once, over all projects. */
  total: number;
  /** Running at once, per project. */
  running: number;
  /** Of those, kept for typed requests. */
  reservedForTyped: number;
  /** Waiting, per project; fewer while more come than are served, see {@link QueueLength}. */
  waiting: number;
  /** Longest wait in milliseconds. */
  waitMs: number;
}

interface Waiter extends Watched {
  readonly kind: WorkKind;
  admit(): void;
}

interface ProjectQueue {
  running: number;
  runningSql: number;
  waiters: Waiter[];
  /** null: nobody had to wait yet. */
  length: QueueLength | null;
}

/** Seconds after which a refused caller may try again. */
const RETRY_AFTER_S = 1;

/** A short queue holds so many for each place: there is always somebody to take one that becomes free. */
const SHORT_PER_PLACE = 2;

export class Admission {
  private running = 0;
  /** Projects with something running or waiting. Its order is the order of turns. */
  private readonly projects = new Map<string, ProjectQueue>();
  private readonly waiting = new Rounds<Waiter>();

  constructor(private readonly limits: AdmissionLimits) {}

  /** Requests running and waiting now, for the metrics. */
  get load(): Record<WorkKind, Load> {
    return loadOf(this.projects.values());
  }

  /** The same of one project. */
  loadOf(project: string): Record<WorkKind, Load> {
    const queue = this.projects.get(project);
    return loadOf(queue === undefined ? [] : [queue]);
  }

  /** Whether a request that came now would be sent away: there is no place, and none to wait at. */
  isFull(project: string, kind: WorkKind): boolean {
    const queue = this.projects.get(project);
    // Nobody of an idle project has to wait behind its own.
    if (queue === undefined || this.isFree(queue, kind)) return false;
    return !this.mayWait(queue);
  }

  /** Takes a place where one is free. @returns gives it back; null where the request has to wait */
  enterNow(project: string, kind: WorkKind): (() => void) | null {
    const queue = this.queueOf(project);
    if (!this.isFree(queue, kind)) {
      this.forget(project, queue);
      return null;
    }
    this.take(queue, kind);
    return this.leaving(project, queue, kind);
  }

  /**
   * Waits for a place and takes it.
   * @param signal aborted when the client leaves: its waiting ends
   * @param patience what the request has left of it
   * @returns gives the place back
   * @throws EngineError overloaded
   */
  async enter(
    project: string,
    kind: WorkKind,
    signal: Departure = STAYS,
    patience = new Patience(this.limits.waitMs),
  ): Promise<() => void> {
    const leave = this.enterNow(project, kind);
    if (leave !== null) return leave;
    const queue = this.queueOf(project);
    if (!this.mayWait(queue)) {
      this.forget(project, queue);
      throw TOO_MANY_WAIT;
    }
    const waited = patience.wait();
    await this.wait(project, queue, kind, patience.ms, signal).finally(waited);
    return this.leaving(project, queue, kind);
  }

  private wait(project: string, queue: ProjectQueue, kind: WorkKind, waitMs: number, signal: Departure): Promise<void> {
    return new Promise((resolve, reject) => {
      const due = performance.now() + waitMs;
      const stop = (message: string) => {
        queue.waiters.splice(queue.waiters.indexOf(waiter), 1);
        this.forget(project, queue);
        this.waiting.delete(waiter);
        reject(overloaded(message));
      };
      const waiter: Waiter = {
        kind,
        admit: () => {
          this.waiting.delete(waiter);
          resolve();
        },
        look: (now) => {
          if (signal.aborted) stop('The client left before its turn');
          else if (now >= due) stop('No place became free in time');
        },
      };
      queue.waiters.push(waiter);
      this.waiting.add(waiter);
    });
  }

  private leaving(project: string, queue: ProjectQueue, kind: WorkKind): () => void {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.leave(project, queue, kind);
    };
  }

  private leave(project: string, queue: ProjectQueue, kind: WorkKind): void {
    this.running--;
    queue.running--;
    if (kind === 'sql') queue.runningSql--;
    this.forget(project, queue);
    this.admitNext();
  }

  /** Gives free places away, one to each project in turn. */
  private admitNext(): void {
    for (const [project, queue] of this.projects) {
      if (this.running >= this.limits.total) return;
      const next = queue.waiters.findIndex(({ kind }) => this.hasRoom(queue, kind));
      if (next < 0) continue;
      const [waiter] = queue.waiters.splice(next, 1) as [Waiter];
      this.take(queue, waiter.kind);
      // To the end of the line: the others have their turn first, and Map iteration comes back to it.
      this.projects.delete(project);
      this.projects.set(project, queue);
      waiter.admit();
    }
  }

  private mayWait(queue: ProjectQueue): boolean {
    const { running, waiting } = this.limits;
    queue.length ??= new QueueLength(waiting, Math.min(waiting, running * SHORT_PER_PLACE));
    return queue.length.admits(queue.waiters.length);
  }

  private isFree(queue: ProjectQueue, kind: WorkKind): boolean {
    return this.running < this.limits.total && this.hasRoom(queue, kind);
  }

  private hasRoom(queue: ProjectQueue, kind: WorkKind): boolean {
    const { running, reservedForTyped } = this.limits;
    if (queue.running >= running) return false;
    return kind === 'typed' || queue.runningSql < running - reservedForTyped;
  }

  private take(queue: ProjectQueue, kind: WorkKind): void {
    this.running++;
    queue.running++;
    if (kind === 'sql') queue.runningSql++;
  }

  private queueOf(project: string): ProjectQueue {
    let queue = this.projects.get(project);
    if (queue === undefined) {
      queue = { running: 0, runningSql: 0, waiters: [], length: null };
      this.projects.set(project, queue);
    }
    return queue;
  }

  /** An idle project costs nothing. */
  private forget(project: string, queue: ProjectQueue): void {
    if (queue.running === 0 && queue.waiters.length === 0) this.projects.delete(project);
  }
}

function loadOf(queues: Iterable<ProjectQueue>): Record<WorkKind, Load> {
  const load = { typed: { running: 0, waiting: 0 }, sql: { running: 0, waiting: 0 } };
  for (const { running, runningSql, waiters } of queues) {
    load.typed.running += running - runningSql;
    load.sql.running += runningSql;
    for (const { kind } of waiters) load[kind].waiting++;
  }
  return load;
}

const overloaded = (message: string) => new EngineError('overloaded', message, { retryAfter: RETRY_AFTER_S });

/** One for all: there may be thousands a second, and the stack of each would cost more than the rest of it. */
export const TOO_MANY_WAIT = overloaded('Too many requests of this project are waiting');
