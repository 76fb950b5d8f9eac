/** A limit for work in a thread, by the processor's time instead of the clock's: a busy machine must not refuse an honest text. */

/** So soon it is looked again where the time is nearly up. */
const MIN_MS = 20;

interface TimeLimit {
  /** Aborted when the time is up. */
  readonly signal: AbortSignal;
  /** The work has ended. */
  clear(): void;
}

/**
 * From now on. Node 20 does not tell the time of one thread, so it is that of the whole process, which is never less: what
 * is cut off has had `ms` by the clock at least, and nothing is cut off while the machine gives us nothing.
 * @param ms of the processors
 * @param mostMs by the clock, however little the processors gave
 */
export function limitProcessorTime(ms: number, mostMs: number): TimeLimit {
  const controller = new AbortController();
  const began = performance.now();
  const before = process.cpuUsage();
  let timer: NodeJS.Timeout;
  const wait = (left: number): void => {
    timer = setTimeout(look, Math.max(left, MIN_MS)).unref();
  };
  const look = (): void => {
    const { user, system } = process.cpuUsage(before);
    const left = Math.min(ms - (user + system) / 1_000, mostMs - (performance.now() - began));
    if (left <= 0) controller.abort();
    else wait(left);
  };
  wait(ms);
  return { signal: controller.signal, clear: () => clearTimeout(timer) };
}
