/**
 * Keeps the one lock table that all projects of a server share from being filled by one of them: no setting of Postgres
 * bounds what a session takes, and where the table is full nobody can write (docs/decisions/0016).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../../contract/errors.js';
import type { LockHolders } from '../../postgres/lock-holders.js';
import type { Departure } from './departure.js';
import type { Patience } from './patience.js';
import type { RunningRequest } from './running-request.js';

/**
 * The part of the table that the requests of one project may fill together. The embedded server has room for 122,880
 * locks, so this is 20,480.
 */
const PART_OF_A_PROJECT = 1 / 6;

/** Where the table is full by others (another program, another instance), a project below this part is not the cause. */
const PART_OF_A_CAUSE = 1 / 24;

/** Below this the table is not full, whatever a statement says: SQLSTATEs can be raised by hand. */
const PART_WHEN_FULL = 1 / 2;

/** A request that has run for so long is worth a look, and so often. */
const LOOK_MS = 500;

/** Where there is nobody to end, those that were ended may still be on their way out: so soon it is looked at again. */
const AGAIN_MS = 100;

export class LockGuard {
  private looking: Promise<boolean> | null = null;
  private readonly timer: NodeJS.Timeout;

  /**
   * @param capacity locks that the table is made for
   * @param running all requests that are using a backend now
   */
  constructor(
    private readonly holders: LockHolders,
    private readonly capacity: number,
    private readonly running: Iterable<RunningRequest>,
  ) {
    this.timer = setInterval(() => this.lookIfLong(), LOOK_MS);
    this.timer.unref();
  }

  /**
   * For a request that found the table full: ends the requests of the project that holds the most, and waits for room.
   * @param signal aborted when the client leaves: its waiting ends
   * @param patience what the request has left of it
   * @returns true where there is room now
   */
  async relieve(signal: Departure, patience: Patience): Promise<boolean> {
    const waited = patience.wait();
    const end = performance.now() + patience.ms;
    try {
      for (;;) {
        // On a busy machine a look at a full table takes long.
        const left = Math.max(0, end - performance.now());
        if (await Promise.race([this.look(), sleep(left, false, { ref: false })])) return true;
        if (signal.aborted || performance.now() >= end) return false;
        await sleep(AGAIN_MS);
      }
    } finally {
      waited();
    }
  }

  close(): Promise<void> {
    clearInterval(this.timer);
    return this.holders.close();
  }

  private lookIfLong(): void {
    const before = performance.now() - LOOK_MS;
    for (const { startedAt } of this.running) {
      // Where the server cannot be asked, the next look comes soon.
      if (startedAt < before) return void this.look().catch(() => {});
    }
  }

  /** One look at a time; who comes meanwhile takes part in its result. */
  private look(): Promise<boolean> {
    this.looking ??= this.endGreatest().finally(() => (this.looking = null));
    return this.looking;
  }

  /** @returns true where the table has room, by itself or now */
  private async endGreatest(): Promise<boolean> {
    const locks = await this.holders.byProcess();
    const all = [...locks.values()].reduce((sum, held) => sum + held, 0);
    const isFull = all > this.capacity * PART_WHEN_FULL;
    const most = Math.floor(this.capacity * (isFull ? PART_OF_A_CAUSE : PART_OF_A_PROJECT));
    const [greatest] = this.byProject(locks).sort((a, b) => b.sum - a.sum);
    if (await this.endAutovacuum(locks, Math.max(most, greatest?.sum ?? 0))) return true;
    if (greatest === undefined || greatest.sum <= most) return !isFull;
    await Promise.all(greatest.requests.map((request) => request.end(tooManyLocks(greatest.sum, most), 'locks')));
    return true;
  }

  /** No request need be the cause: autovacuum runs functions of projects' indexes. @returns true where one has gone */
  private async endAutovacuum(locks: ReadonlyMap<number, number>, most: number): Promise<boolean> {
    const requests = new Set([...this.running].map(({ backend }) => backend.processId));
    const others = [...locks].filter(([pid, held]) => held > most && !requests.has(pid)).sort((a, b) => b[1] - a[1]);
    for (const [pid] of others) if (await this.holders.endAutovacuum(pid)) return true;
    return false;
  }

  private byProject(locks: ReadonlyMap<number, number>): { sum: number; requests: RunningRequest[] }[] {
    const projects = new Map<string, { sum: number; requests: RunningRequest[] }>();
    for (const request of this.running) {
      // One that holds nothing yet may be about to do what the others did.
      const held = locks.get(request.backend.processId) ?? 0;
      const project = projects.get(request.project) ?? { sum: 0, requests: [] };
      projects.set(request.project, project);
      project.sum += held;
      project.requests.push(request);
    }
    return [...projects.values()];
  }
}

const tooManyLocks = (count: number, most: number) =>
  new EngineError('sql_error', `The project held ${count} locks at once and its requests were ended`, {
    hint: `Together its requests may hold ${most} now. Lock, create or change fewer objects in one request.`,
  });
