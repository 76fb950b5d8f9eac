/**
 * Supervises one Postgres server: starts it on demand, stops it when it is idle, restarts it with a backoff. Only one
 * change of state runs at a time, so a request that arrives during a stop waits for its end and starts the server
 * again.
 */
import { EngineError } from '../contract/errors.js';

type ServerState = 'stopped' | 'starting' | 'running' | 'stopping';

export interface Running {
  /** Resolves with the reason when the server has exited. Never rejects. */
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

interface Supervision {
  /**
   * Resolves when the server accepts connections.
   * @param signal aborted: the server is stopped instead
   */
  start(signal: AbortSignal): Promise<Running>;
  /**
   * The server exited unexpectedly, or did not start.
   * @param pauseMs until it may start again
   */
  failed(reason: string, pauseMs: number): void;
}

/** After running for this time, earlier failures no longer count. */
const STABLE_MS = 60_000;

/** The pause after the second consecutive failure; it doubles with each further one. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 30_000;

export class Supervisor {
  state: ServerState = 'stopped';
  /** The number of requests, backups and others that need the server now. */
  users = 0;
  /** When the last user released it, by `performance.now()`. */
  idleSince = performance.now();
  /** The reason why the last attempt to start it failed; null: it succeeded, or none was made. */
  startFailure: string | null = null;
  private running: Running | null = null;
  private runningSince = 0;
  /** How long it has run and was not yet taken, and since when it runs; null: it does not. */
  private awake = { ms: 0, since: null as number | null };
  private starting = new AbortController();
  private change: Promise<void> = Promise.resolve();
  private failures = 0;
  private startAfter = -Infinity;
  private pauseReason = '';
  private closed = false;

  /** @param maxWaiting maximum number of users that wait for a start */
  constructor(
    private readonly supervision: Supervision,
    private readonly maxWaiting: number,
  ) {}

  /**
   * Keeps the server running until {@link release}.
   * @returns undefined if it is running; otherwise a promise that resolves when it is
   * @throws EngineError database_unavailable, overloaded; nothing needs to be released then
   */
  acquire(): Promise<void> | undefined {
    this.users++;
    if (this.state === 'running') return undefined;
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
   * Stops the server, or aborts its start. Its users lose their connections; users that wait for the start begin
   * another one.
   */
  async stop(): Promise<void> {
    if (this.state === 'running') this.begin('stopping', () => this.end());
    else if (this.state === 'starting') this.starting.abort();
    // Whoever asked for the change gets its error.
    await this.change.catch(() => {});
  }

  /** Stops the server for good: it cannot start again. */
  async close(): Promise<void> {
    this.closed = true;
    await this.stop();
  }

  /**
   * Refuses starts for this time.
   * @param reason for the error message, such as `has stopped unexpectedly`
   */
  pause(ms: number, reason: string): void {
    this.startAfter = Math.max(this.startAfter, performance.now() + ms);
    this.pauseReason = reason;
  }

  /** Starts only after a process that an earlier service has left has exited. */
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
    // Callers that await the change get the error.
    this.change.catch(() => {});
  }

  private async start(): Promise<void> {
    this.starting = new AbortController();
    const { signal } = this.starting;
    let state: ServerState = 'stopped';
    try {
      const pause = this.startAfter - performance.now();
      if (pause > 0) throw pausing(this.pauseReason, pause);
      const running = await this.supervision.start(signal);
      if (signal.aborted) return await running.stop();
      this.running = running;
      this.runningSince = performance.now();
      this.awake.since = this.runningSince;
      state = 'running';
      this.startFailure = null;
      void running.ended.then((reason) => this.hasEnded(running, reason));
    } catch (error) {
      // The waiting callers find the server stopped, and start it again.
      if (signal.aborted) return;
      if (error instanceof EngineError) throw error;
      this.startFailure = messageIn(error);
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
      // The next start removes the leftovers.
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

  /** Milliseconds that it has run since the last call. */
  takeAwakeMs(): number {
    const now = performance.now();
    const { ms, since } = this.awake;
    this.awake = { ms: 0, since: since === null ? null : now };
    return ms + (since === null ? 0 : now - since);
  }

  private countStable(): void {
    this.awake = { ms: this.takeAwakeMs(), since: null };
    if (performance.now() - this.runningSince > STABLE_MS) this.failures = 0;
  }

  /** No pause after one failure, and a longer one after each further failure. */
  private fail(cause: unknown): void {
    this.failures++;
    const pause = this.failures < 2 ? 0 : Math.min(FIRST_PAUSE_MS * 2 ** (this.failures - 2), MAX_PAUSE_MS);
    this.pause(pause, 'has stopped unexpectedly');
    this.supervision.failed(messageIn(cause), pause);
  }
}

const messageIn = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

const tooManyWait = () =>
  new EngineError('overloaded', "Too many requests are waiting for the project's Postgres server to start");

const notStarting = (cause?: unknown) =>
  new EngineError('database_unavailable', "The project's Postgres server could not be started", { cause });

const pausing = (reason: string, ms: number) =>
  new EngineError(
    'database_unavailable',
    `The project's Postgres server ${reason}, and will be started again shortly`,
    {
      retryAfter: Math.ceil(ms / 1_000),
    },
  );
