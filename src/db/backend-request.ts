/** A request that uses Postgres: how long it may (contract C13.14), and what stops it then, or earlier. */
import { EngineError } from '../contract/errors.js';
import type { PooledConnection } from '../tenancy/connections/project-connection-pool.js';
import { type Backend, GRACE_MS, type BackendControl } from '../tenancy/connections/backend-control.js';
import type { Checkable } from './periodic-checks.js';

export interface Deadline {
  timeoutMs: number;
  /** Aborted when the client disconnects, or with the EngineError that ends its request. */
  signal: AbortSignal;
  /** The error to throw when the time is up. */
  timeoutError: () => EngineError;
}

/** Reasons to stop a running request from outside its statement. */
export const STOP_REASONS = ['time_limit', 'client_left', 'token_revoked', 'operator', 'quota', 'disk'] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/**
 * The clock of a request's time limit. It can be paused, for instance while a slow client holds up a stream, and the
 * request can be stopped early.
 */
export interface RequestTimer {
  pause(): void;
  resume(): void;
  /** The whole time begins anew. */
  restart(): void;
  /** Stops the request as if its time were up, with the given reason. */
  stopRequest(reason: EngineError, why: StopReason): void;
}

/** @param hint how a statement may take longer */
export const queryTimeout = (timeoutMs: number, hint?: string) => () =>
  new EngineError('query_timeout', `The statement ran longer than ${timeoutMs} ms and was canceled`, { hint });

/** The error of a request that has ended while it waited. */
export const endedWhileWaiting = ({ reason }: AbortSignal): EngineError =>
  reason instanceof EngineError
    ? reason
    : new EngineError('overloaded', 'The client disconnected while its request was waiting');

/** For work that no client can abort. */
export const NEVER_ABORTED: AbortSignal = new AbortController().signal;

/** How long the termination of a backend may take before this side closes the connection. */
const TERMINATE_MS = 2_000;

/** How often to check the processor time of the backend. A request that ends before the first check costs nothing. */
const PROCESSOR_CHECK_MS = 100;

/** How often to check whether the disk is nearly full. A shorter request ends by itself. */
const ROOM_CHECK_MS = 250;

/**
 * A request while it uses a backend, with the limits that are enforced from outside its statement. When its time is
 * up, or its client has disconnected, the statement is canceled; if that fails, the backend is terminated (contract
 * C13.15).
 */
export class BackendRequest implements RequestTimer, Checkable {
  readonly startedAt = performance.now();
  private due: number;
  /** Milliseconds left while the clock is paused; null: it runs. */
  private left: number | null = null;
  private stopped: EngineError | null = null;
  private finished = false;
  /** Resolves when a terminated backend is gone. Until then the request keeps its slot. */
  ending: Promise<void> | null = null;
  /** The timer of the next step after a stop. */
  private timer: NodeJS.Timeout | undefined;
  private nextProcessorCheck = this.startedAt + PROCESSOR_CHECK_MS;
  private watchProcessors: (() => Promise<void>) | undefined;
  private nextRoomCheck = this.startedAt + ROOM_CHECK_MS;

  constructor(
    private readonly connection: PooledConnection,
    private readonly deadline: Deadline,
    private readonly backendControl: BackendControl,
    /** Stopped requests by reason. */
    private readonly stops: Map<StopReason, number>,
    /** The error that ends the request if it has written; null: it may go on. */
    private readonly lackOfRoom: () => EngineError | null,
  ) {
    this.due = this.startedAt + deadline.timeoutMs;
  }

  get backend(): Backend {
    return this.connection.backend;
  }

  check(now: number): void {
    if (this.stopped !== null) return;
    if (this.deadline.signal.aborted) this.stopRequest(...abortReason(this.deadline.signal));
    else if (this.left === null && now >= this.due) this.stopRequest(this.deadline.timeoutError(), 'time_limit');
    else {
      if (now >= this.nextProcessorCheck) this.checkProcessors(now);
      if (now >= this.nextRoomCheck) this.checkRoom(now);
    }
  }

  pause(): void {
    this.left ??= this.due - performance.now();
  }

  resume(): void {
    if (this.left === null) return;
    this.due = performance.now() + this.left;
    this.left = null;
  }

  restart(): void {
    this.left = null;
    this.due = performance.now() + this.deadline.timeoutMs;
  }

  /** Stops the request as if its time were up, with the given reason. */
  stopRequest(reason: EngineError, why: StopReason): void {
    if (this.stopped !== null || this.finished) return;
    this.stopped = reason;
    this.stops.set(why, (this.stops.get(why) ?? 0) + 1);
    // The cancel request may arrive late, so this connection must not be reused.
    this.connection.closeAfterUse();
    this.timer = setTimeout(() => void this.end(reason), GRACE_MS);
    void this.connection.session.cancel();
  }

  /** Ends the backend at once. @returns when it is gone */
  async end(reason: EngineError): Promise<void> {
    const giveUp = () => this.connection.session.destroy(reason);
    // If the server cannot be reached, the wait would never end.
    this.timer = setTimeout(giveUp, TERMINATE_MS);
    const terminated = this.backendControl.terminate(this.backend);
    this.ending = terminated
      .then((isGone) => (isGone ? undefined : this.backendControl.untilGone(this.backend)))
      // If the server cannot be asked, nothing is known of its backends.
      .catch(() => {});
    await terminated.then(giveUp, giveUp);
  }

  finish(): void {
    this.finished = true;
    clearTimeout(this.timer);
  }

  /** The error for the caller: the reason why the request was stopped, if it was. */
  reasonOf(error: unknown): unknown {
    // An interrupted commit may have taken effect, so that query_timeout would be wrong.
    if (error instanceof EngineError && error.code === 'outcome_unknown') return error;
    return this.stopped ?? error;
  }

  private checkRoom(now: number): void {
    this.nextRoomCheck = now + ROOM_CHECK_MS;
    const error = this.lackOfRoom();
    if (error === null) return;
    this.backendControl.hasWritten(this.backend).then(
      (hasWritten) => hasWritten && this.stopRequest(error, 'disk'),
      // The next check asks again.
      () => {},
    );
  }

  private checkProcessors(now: number): void {
    this.nextProcessorCheck = now + PROCESSOR_CHECK_MS;
    // A failure is ignored: the process is gone, or its priority may not be changed. The statement runs as before.
    this.watchProcessors ??= this.backendControl.niceness?.watch(this.backend);
    // Without the priority, the request still runs.
    void this.watchProcessors?.().catch(() => {});
  }
}

/** The reason why the signal of a request was aborted. */
export const abortReason = ({ reason }: AbortSignal): [EngineError, StopReason] =>
  reason instanceof EngineError
    ? [reason, reason.code === 'unauthorized' ? 'token_revoked' : 'operator']
    : [new EngineError('query_timeout', 'The client disconnected; its statement was canceled'), 'client_left'];
