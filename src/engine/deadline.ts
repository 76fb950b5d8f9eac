/**
 * A limit on the time a request may use Postgres, held from outside the statement: at its end, or when the client
 * leaves, the statement is cancelled, and its backend terminated when that does not help (contract section 7).
 */
import { EngineError } from '../contract/errors.js';
import type { Lease } from '../postgres/connections.js';
import { GRACE_MS, type Watchdog } from '../postgres/watchdog.js';
import type { Departure } from './departure.js';
import type { LockGuard } from './lock-guard.js';

export interface Deadline {
  timeoutMs: number;
  /** Aborted when the client leaves. */
  signal: Departure;
  /** What the caller is told when the time is up. */
  expired: () => EngineError;
}

/** Stops and restarts the time: it does not run while a slow reader holds a stream up. Or ends the work before it. */
export interface Clock {
  pause(): void;
  resume(): void;
  /** As if the time were up, with a reason of its own. */
  stop(reason: EngineError): void;
}

/** How long the end of a backend may take before its connection is given up from this side. */
const TERMINATE_MS = 2_000;

export const queryTimeout = (timeoutMs: number) => () =>
  new EngineError('query_timeout', `The statement ran longer than ${timeoutMs} ms and was cancelled`);

/** What looks after a request from outside its connection. */
export interface Supervision {
  readonly project: string;
  readonly watchdog: Watchdog;
  readonly locks: LockGuard;
}

/**
 * @throws what `work` throws; `deadline.expired()` where the time was up first, and the lock guard's reason where that
 * ended it
 */
export async function withDeadline<T>(
  lease: Lease,
  { project, watchdog, locks }: Supervision,
  deadline: Deadline,
  work: (clock: Clock) => Promise<T>,
): Promise<T> {
  let stopped: EngineError | null = null;
  let finished = false;
  let left = deadline.timeoutMs;
  let startedAt = performance.now();
  let timer: NodeJS.Timeout | undefined;

  const stop = (reason: EngineError) => {
    if (stopped !== null || finished) return;
    stopped = reason;
    // The cancel request may arrive late, so this connection must not serve anybody else.
    lease.spoil();
    clearTimeout(timer);
    timer = setTimeout(() => void end(reason), GRACE_MS);
    void watchdog.cancel(lease.backend);
  };
  const end = async (reason: EngineError) => {
    stopped ??= reason;
    lease.spoil();
    clearTimeout(timer);
    const giveUp = () => lease.session.destroy(reason);
    // Where the server cannot be reached, waiting for it would be for ever.
    timer = setTimeout(giveUp, TERMINATE_MS);
    await watchdog.terminate(lease.backend).then(giveUp, giveUp);
  };
  const start = () => {
    startedAt = performance.now();
    timer = setTimeout(() => stop(deadline.expired()), left);
  };
  const clock: Clock = {
    pause: () => {
      if (stopped !== null) return;
      clearTimeout(timer);
      left -= performance.now() - startedAt;
    },
    resume: () => {
      if (stopped === null && !finished) start();
    },
    stop,
  };
  const onAbort = () => stop(new EngineError('query_timeout', 'The client left; its statement was cancelled'));

  if (deadline.signal.aborted) onAbort();
  deadline.signal.addEventListener('abort', onAbort, { once: true });
  if (stopped === null) start();
  const endCpuWatch = watchdog.watchProcessors(lease.backend, () => lease.spoil());
  const endLockWatch = locks.watch({ project, backend: lease.backend, since: startedAt, end });
  try {
    return await work(clock);
  } catch (error) {
    // A commit that was cut off may have happened: that the time was up is then not the whole truth.
    if (error instanceof EngineError && error.code === 'outcome_unknown') throw error;
    throw stopped ?? error;
  } finally {
    finished = true;
    clearTimeout(timer);
    endCpuWatch();
    endLockWatch();
    deadline.signal.removeEventListener('abort', onAbort);
  }
}
