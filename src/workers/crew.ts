/** The workers of a service: as many as are set, each replaced when it ends, all stopped together. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Orders, ToWorker } from './messages.js';
import { WorkerProcess, type WorkerEvents } from './worker-process.js';

/** The first that ends is replaced after this time; after each further one that did not live long, it is twice as long. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

/** Whoever has lived so long does not count as a failed start. */
const LONG_LIFE_MS = 60_000;

export interface CrewEvents extends WorkerEvents {
  /** A worker was started; it is not ready yet. */
  hired(worker: WorkerProcess): void;
  ready(worker: WorkerProcess): void;
  ended(worker: WorkerProcess): void;
}

export class Crew {
  private readonly working = new Set<WorkerProcess>();
  private readonly stopping = new AbortController();
  private readonly places: Promise<void>[] = [];

  constructor(
    private readonly ordersOf: (number: number) => Orders,
    private readonly events: CrewEvents,
    private readonly logger: Logger,
  ) {}

  /** Those that can be given work. */
  get ready(): WorkerProcess[] {
    return [...this.working].filter(({ isReady }) => isReady);
  }

  /** @throws Error where one of them cannot start; `stop` ends the others */
  async start(count: number): Promise<void> {
    const first = Array.from({ length: count }, (_, i) => this.hire(i + 1));
    await Promise.all(first.map(({ started }) => started));
    for (const worker of first) this.places.push(this.keep(worker));
  }

  /** The token of the first project, where this is the first start of an embedded database. */
  async welcome(): Promise<string | null> {
    const [worker] = this.ready;
    if (worker === undefined) throw new Error('All workers have ended');
    return worker.welcome();
  }

  say(message: ToWorker): void {
    for (const worker of this.working) worker.say(message);
  }

  /**
   * Lets all end, each when its requests are answered.
   * @param ms after which those that have not are killed
   */
  async stop(ms: number): Promise<void> {
    this.stopping.abort();
    const late = setTimeout(() => {
      for (const worker of this.working) {
        this.logger.error({ worker: worker.number }, 'the worker does not end and is killed');
        worker.kill();
      }
    }, ms);
    this.say({ say: 'stop' });
    await Promise.all([...this.working].map(({ ended }) => ended));
    await Promise.all(this.places);
    clearTimeout(late);
  }

  private hire(number: number): WorkerProcess {
    const worker = new WorkerProcess(this.ordersOf(number), this.events);
    this.working.add(worker);
    this.events.hired(worker);
    worker.started.then(
      () => this.events.ready(worker),
      () => {},
    );
    void worker.ended.then(() => {
      this.working.delete(worker);
      this.events.ended(worker);
    });
    return worker;
  }

  /** Replaces a worker when it ends, and each that comes after it. */
  private async keep(first: WorkerProcess): Promise<void> {
    let pause = FIRST_PAUSE_MS;
    for (let worker = first; ; worker = this.hire(worker.number)) {
      const since = performance.now();
      const how = await worker.ended;
      if (this.isStopping) return;
      // Where it could not start, that is the reason.
      const reason = await worker.started.then(() => how, String);
      this.logger.error({ worker: worker.number, reason }, 'a worker ended unexpectedly; it is started again');
      if (performance.now() - since > LONG_LIFE_MS) pause = FIRST_PAUSE_MS;
      await sleep(pause, undefined, { signal: this.stopping.signal }).catch(() => {});
      if (this.isStopping) return;
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    }
  }

  private get isStopping(): boolean {
    return this.stopping.signal.aborted;
  }
}
