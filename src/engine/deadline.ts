/** How long a request may use Postgres (contract section 7). It is held by `running-request.ts`. */
import { EngineError } from '../contract/errors.js';

export interface Deadline {
  timeoutMs: number;
  /** Aborted when the client leaves. */
  signal: Gone;
  /** What the caller is told when the time is up. */
  expired: () => EngineError;
}

/** Whether the client has left; an AbortSignal, or anything that says the same. It is asked, not listened to. */
export type Gone = Pick<AbortSignal, 'aborted'>;

/** Stops and restarts the time: it does not run while a slow reader holds a stream up. */
export interface Clock {
  pause(): void;
  resume(): void;
}

export const queryTimeout = (timeoutMs: number) => () =>
  new EngineError('query_timeout', `The statement ran longer than ${timeoutMs} ms and was cancelled`);
