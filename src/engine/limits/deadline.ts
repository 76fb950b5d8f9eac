/** How long a request may use Postgres (contract section 7); `database/running-request.ts` enforces it. */
import { EngineError } from '../../contract/errors.js';

export interface Deadline {
  timeoutMs: number;
  /** Aborted when the client disconnects, or with the EngineError that ends its request. */
  signal: AbortSignal;
  /** The error to throw when the time is up. */
  expired: () => EngineError;
}

/** Reasons to stop a running request from outside its statement. */
export const STOP_REASONS = ['time_limit', 'client_left', 'token_revoked', 'operator', 'quota'] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/**
 * The clock of a request's time limit. It can be paused, for instance while a slow client holds up a stream, and the
 * request can be stopped early.
 */
export interface Clock {
  pause(): void;
  resume(): void;
  /** Stops the request as if its time were up, with the given reason. */
  stop(reason: EngineError, why: StopReason): void;
}

export const queryTimeout = (timeoutMs: number) => () =>
  new EngineError('query_timeout', `The statement ran longer than ${timeoutMs} ms and was canceled`);

/** For typed requests that insert, delete or read rows (contract section 6). */
const TYPED_TIMEOUT_MS = 30_000;

export const typedDeadline = (signal: AbortSignal): Deadline => ({
  timeoutMs: TYPED_TIMEOUT_MS,
  signal,
  expired: queryTimeout(TYPED_TIMEOUT_MS),
});

/** The error of a request that has ended while it waited. */
export const endedWhileWaiting = ({ reason }: AbortSignal): EngineError =>
  reason instanceof EngineError
    ? reason
    : new EngineError('overloaded', 'The client disconnected while its request was waiting');

/** For work that no client can abort. */
export const NEVER: AbortSignal = new AbortController().signal;
