/** Promises that are shared, or waited for together. */
/** Waits for the end of all, and then throws the first failure: one of several does not keep the others from being done. */
export async function allDone(runs: Iterable<Promise<unknown>>): Promise<void> {
  const all = [...runs];
  await Promise.allSettled(all);
  await Promise.all(all);
}

/** Concurrent callers share one result; after a failure the next caller tries again. */
export function memoized<T>(make: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | null = null;
  return () => {
    result ??= make().catch((error: unknown) => {
      result = null;
      throw error;
    });
    return result;
  };
}

/** Callers share one result while it is being made; a later caller gets a new one. */
export function singleFlight<T>(make: () => Promise<T>): () => Promise<T> {
  let making: Promise<T> | null = null;
  return () => (making ??= make().finally(() => (making = null)));
}

/**
 * Processes up to `jobs` items at a time. The first failure aborts the others, and is thrown after they have ended.
 * @throws the first failure, or the signal's reason
 */
export async function forEachAtOnce<T>(
  items: readonly T[],
  jobs: number,
  signal: AbortSignal,
  work: (item: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const halt = new AbortController();
  const either = AbortSignal.any([signal, halt.signal]);
  const waiting = items.values();
  const worker = async () => {
    for (const item of waiting) {
      either.throwIfAborted();
      await work(item, either);
    }
  };
  const workers = Array.from({ length: jobs }, () => worker().catch((error: unknown) => halt.abort(error)));
  await Promise.all(workers);
  halt.signal.throwIfAborted();
}
