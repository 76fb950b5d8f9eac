/** How long a request may use Postgres (contract section 7). It is held by `database/running-request.ts`. */
import { EngineError } from '../../contract/errors.js';

export interface Deadline {
  timeoutMs: number;
  /** Aborted when the client leaves, or with the EngineError that ends its request. */
  signal: AbortSignal;
  /** The error to throw when the time is up. */
  expired: () => EngineError;
}

/** Why a running request was ended from outside its statement. */
export const STOP_REASONS = ['time_limit', 'client_left', 'token_revoked', 'operator', 'quota'] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/** Stops and restarts the time: it does not run while a slow reader holds a stream up. Or ends the work before it. */
export interface Clock {
  pause(): void;
  resume(): void;
  /** As if the time were up, with a reason of its own. */
  stop(reason: EngineError, why: StopReason): void;
}

export const queryTimeout = (timeoutMs: number) => () =>
  new EngineError('query_timeout', `The statement ran longer than ${timeoutMs} ms and was canceled`);

/** Of what inserts, deletes and reads rows by typed requests (contract section 6). */
const TYPED_TIMEOUT_MS = 30_000;

export const typedDeadline = (signal: AbortSignal): Deadline => ({
  timeoutMs: TYPED_TIMEOUT_MS,
  signal,
  expired: queryTimeout(TYPED_TIMEOUT_MS),
});

/** For work that no client can abort. */
export const NEVER: AbortSignal = new AbortController().signal;
