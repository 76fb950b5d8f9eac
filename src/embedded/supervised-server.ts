/**
 * One Postgres server under supervision: started when a request needs it, stopped when none does. One change of state
 * runs at a time, so a request that arrives during a stop waits for its end and starts the server again.
 */
import { EngineError } from '../contract/errors.js';

export type ServerState = 'stopped' | 'starting' | 'running' | 'stopping';

/** A running server, as far as its supervisor needs it. */
export interface Running {
  /** Resolves when it has ended, with the reason in a few words. */
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

export interface Supervision {
  /** Resolves when the server accepts connections. @param signal aborted: it is to be stopped instead */
  start(signal: AbortSignal): Promise<Running>;
  /** It ended by itself, or did not start. @param pauseMs until it may be started again */
  failed(reason: string, pauseMs: number): void;
}

/** A server that has run this long does not count as one that crashes again and again. */
const STABLE_MS = 60_000;

/** The second start in a row that fails is followed by this pause, and each further one by twice as much. */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;

export class SupervisedServer {
  state: ServerState = 'stopped';
  /** Requests, backups and the like that need it now. */
  users = 0;
  /** Since when it has had no user, on the clock of `performance.now()`. */
  idleSince = performance.now();
  private running: Running | null = null;
  private runningSince = 0;
  private starting = new AbortController();
  private change: Promise<void> = Promise.resolve();
  private failures = 0;
  private startAfter = -Infinity;
  /** Ends what is done to the stopped server, if somebody needs it. */
  private needed: AbortController | null = null;
  private closed = false;

  /** @param maxWaiting that may wait for a start at once */
  constructor(
    private readonly supervision: Supervision,
    private readonly maxWaiting: number,
  ) {}

  /**
   * Keeps the server running until {@link release}.
   * @returns undefined if it runs already; else resolves when it does
   * @throws EngineError database_unavailable, overloaded; nothing needs to be released then
   */
  acquire(): Promise<void> | undefined {
    this.users++;
    if (this.state === 'running') return undefined;
    this.needed?.abort(new NeededMeanwhile());
    const starting = this.users > this.maxWaiting ? Promise.reject(tooManyWait()) : this.ensureRunning();
    return starting.catch((error: unknown) => {
      this.release();
      throw error;
    });
  }

  release(): void {
    this.users--;
    this.idleSince = performance.now();
  }

  /**
   * Stops it; whoever uses it loses the connection, and a start that has not come to its end is ended. Who waits for that
   * start, or comes meanwhile, starts it again.
   */
  async stop(): Promise<void> {
    if (this.state === 'running') this.begin('stopping', () => this.end());
    else if (this.state === 'starting') this.starting.abort();
    await this.change.catch(() => {});
  }

  /** Stops it for good: nobody can start it again. */
  async close(): Promise<void> {
    this.closed = true;
    await this.stop();
  }

  /**
   * Does something to the stopped server, which stays stopped meanwhile.
   * @param work is aborted if somebody needs the server
   * @returns null if it is not stopped
   * @throws NeededMeanwhile; what `work` throws
   */
  async whileStopped<T>(work: (needed: AbortSignal) => Promise<T>): Promise<T | null> {
    if (this.state !== 'stopped') return null;
    const needed = new AbortController();
    this.needed = needed;
    const working = work(needed.signal).finally(() => {
      this.needed = null;
      this.state = 'stopped';
    });
    this.begin('stopping', () => working.then(noop, noop));
    return working;
  }

  /** Refuses starts for this time. */
  pause(ms: number): void {
    this.startAfter = Math.max(this.startAfter, performance.now() + ms);
  }

  /** Waits for the end of a process that an earlier service left behind. */
  awaitEnd(end: Promise<void>): void {
    this.begin('stopping', () => end.finally(() => (this.state = 'stopped')));
  }

  private async ensureRunning(): Promise<void> {
    while (this.state !== 'running') {
      if (this.closed) throw notStarting();
      if (this.state === 'stopped') this.begin('starting', () => this.start());
      await this.change;
    }
  }

  private begin(state: ServerState, change: () => Promise<void>): void {
    this.state = state;
    this.change = change();
    // Those who wait for it get the error.
    this.change.catch(() => {});
  }

  private async start(): Promise<void> {
    this.starting = new AbortController();
    const { signal } = this.starting;
    let state: ServerState = 'stopped';
    try {
      const pause = this.startAfter - performance.now();
      if (pause > 0) throw pausing(pause);
      const running = await this.supervision.start(signal);
      if (signal.aborted) return await running.stop();
      this.running = running;
      this.runningSince = performance.now();
      state = 'running';
      void running.ended.then((reason) => this.hasEnded(running, reason));
    } catch (error) {
      // Whoever waits for it sees that it does not run, and starts it again.
      if (signal.aborted) return;
      if (error instanceof EngineError) throw error;
      this.fail(error);
      throw notStarting(error);
    } finally {
      this.state = state;
    }
  }

  private async end(): Promise<void> {
    const { running } = this;
    this.running = null;
    this.countStable();
    try {
      await running?.stop();
    } catch (error) {
      // The next start meets what is left of it.
      this.fail(error);
    } finally {
      this.state = 'stopped';
    }
  }

  private hasEnded(running: Running, reason: string): void {
    if (this.running !== running) return;
    this.running = null;
    this.state = 'stopped';
    this.countStable();
    this.fail(reason);
  }

  private countStable(): void {
    if (performance.now() - this.runningSince > STABLE_MS) this.failures = 0;
  }

  /** One crash costs no pause; a server that crashes again and again is left alone for longer each time. */
  private fail(cause: unknown): void {
    this.failures++;
    const pause = this.failures < 2 ? 0 : Math.min(FIRST_PAUSE_MS * 2 ** (this.failures - 2), LONGEST_PAUSE_MS);
    this.pause(pause);
    this.supervision.failed(cause instanceof Error ? cause.message : String(cause), pause);
  }
}

/** A stopped server was needed while something was done to it. */
export class NeededMeanwhile extends Error {}

const noop = () => {};

const tooManyWait = () =>
  new EngineError('overloaded', "Too many requests are waiting for the project's Postgres server to start");

const notStarting = (cause?: unknown) =>
  new EngineError('database_unavailable', 'The Postgres server of the project does not start', { cause });

const pausing = (ms: number) =>
  new EngineError(
    'database_unavailable',
    "The project's Postgres server has stopped and will be started again shortly",
    {
      retryAfter: Math.ceil(ms / 1_000),
    },
  );
