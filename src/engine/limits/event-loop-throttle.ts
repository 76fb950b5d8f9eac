/**
 * One event loop serves all projects, and reading large bodies or encoding large results blocks it. A project gets one
 * turn of each of its iterations for that, and while other projects are active a limited share of its time
 * (docs/decisions/0015).
 */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';

/** Milliseconds of one turn: longer work is done in steps, between which others are served; less is added up until it exceeds this. */
const TURN_MS = 5;

/** The length of the pause after a project's work, as a multiple of the work. */
const PAUSE_FACTOR = 3;

/** What takes longer than a third of this is work of a thread, or waits for one. */
const LONGEST_PAUSE_MS = 1_000;

/** Maximum number of projects whose time is counted; beyond it, the least recently used ones start from zero. */
const PROJECTS = 1_000;

/** Another project is active if its last request is at most this old. */
const ACTIVE_MS = 250;

interface LastRequest {
  readonly projectId: string;
  readonly arrivedAt: number;
}

interface ProjectUsage {
  /** Milliseconds of the event loop since the last pause, and when the last of this work ended. */
  ms: number;
  endedAt: number;
  /** Turns that wait for the end of others and for their pause. */
  waiting: number;
  pause: Promise<void>;
}

export class EventLoopThrottle {
  private readonly usages = new LRUCache<string, ProjectUsage>({ max: PROJECTS });

  /** The last request of all, and the last one of any other project. */
  private last: LastRequest | null = null;
  private lastOther: LastRequest | null = null;

  noteRequest(projectId: string): void {
    if (this.last?.projectId !== projectId) this.lastOther = this.last;
    this.last = { projectId, arrivedAt: performance.now() };
  }

  /**
   * Resolves when the project's next work may begin: after its pause, or if it is alone in the next iteration of the event
   * loop; undefined: at once. Begin the work as soon as it resolves: the next turn is computed from what this one took.
   */
  turn(projectId: string): Promise<void> | undefined {
    const usage = this.usages.get(projectId);
    if (usage === undefined || (usage.ms < TURN_MS && usage.waiting === 0)) return undefined;
    usage.waiting++;
    usage.pause = usage.pause.then(async () => {
      if (usage.ms >= TURN_MS) await this.pauseAfter(projectId, usage);
      usage.waiting--;
    });
    return usage.pause;
  }

  private async pauseAfter(projectId: string, usage: ProjectUsage): Promise<void> {
    const end = usage.endedAt + Math.min(usage.ms * PAUSE_FACTOR, LONGEST_PAUSE_MS);
    usage.ms = 0;
    await setImmediate();
    for (let now = performance.now(); now < end && this.othersAreActive(projectId); now = performance.now()) {
      await sleep(Math.min(end - now, ACTIVE_MS));
    }
  }

  /** Runs work at once that cannot wait, and charges its time to the project. */
  charge<T>(projectId: string, work: () => T): T {
    const from = performance.now();
    try {
      return work();
    } finally {
      this.add(projectId, performance.now() - from);
    }
  }

  /** Waits for work in a thread, and charges its time to the project. */
  async chargeWait<T>(projectId: string, work: () => Promise<T>): Promise<T> {
    const from = performance.now();
    try {
      return await work();
    } finally {
      this.add(projectId, performance.now() - from);
    }
  }

  /** Runs work when it is the project's turn. */
  run<T>(projectId: string, work: () => T): T | Promise<T> {
    const turn = this.turn(projectId);
    return turn === undefined ? this.charge(projectId, work) : turn.then(() => this.charge(projectId, work));
  }

  /** Runs work in several turns, if it takes longer than one. */
  async runSteps<T>(projectId: string, steps: Generator<undefined, T, undefined>): Promise<T> {
    const runTurn = () => {
      const end = performance.now() + TURN_MS;
      let step = steps.next();
      while (!step.done && performance.now() < end) step = steps.next();
      return step;
    };
    let step = await this.run(projectId, runTurn);
    while (!step.done) {
      const turn = this.turn(projectId) ?? setImmediate();
      step = await turn.then(() => this.charge(projectId, runTurn));
    }
    return step.value;
  }

  private add(projectId: string, ms: number): void {
    const usage = this.usages.get(projectId);
    const endedAt = performance.now();
    if (usage === undefined) this.usages.set(projectId, { ms, endedAt, waiting: 0, pause: Promise.resolve() });
    else {
      usage.ms += ms;
      usage.endedAt = endedAt;
    }
  }

  private othersAreActive(projectId: string): boolean {
    const { last, lastOther } = this;
    const other = last?.projectId === projectId ? lastOther : last;
    return other !== null && other.arrivedAt > performance.now() - ACTIVE_MS;
  }
}
