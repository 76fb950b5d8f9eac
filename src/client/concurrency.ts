/** Runs several calls at a time over a source that yields items one by one. */

/**
 * Calls `handle` for each item of the source, up to `concurrency` at a time. After the signal aborts or a call fails,
 * it takes no further items and waits for running calls.
 * @returns whether the source was read to its end
 * @throws the first error of the source or of `handle`
 */
export async function forEachConcurrently<Item>(
  source: AsyncGenerator<Item, void>,
  { concurrency, signal }: { concurrency: number; signal: AbortSignal | undefined },
  handle: (item: Item) => Promise<void>,
): Promise<boolean> {
  const halt = new AbortController();
  const stop = () => halt.abort();
  signal?.addEventListener('abort', stop);
  if (signal?.aborted) stop();
  const errors: unknown[] = [];
  let isAtEnd = false;
  const worker = async (): Promise<void> => {
    for (;;) {
      const next = await unlessAborted(halt.signal, source.next());
      if (next === undefined) return;
      if (next.done) return void (isAtEnd = true);
      await handle(next.value);
    }
  };
  const workers = Array.from({ length: concurrency }, () =>
    worker().catch((error: unknown) => {
      errors.push(error);
      stop();
    }),
  );
  await Promise.all(workers);
  signal?.removeEventListener('abort', stop);
  if (errors.length > 0) throw errors[0] as Error;
  return isAtEnd && !halt.signal.aborted;
}

/** The value of the promise; undefined as soon as the signal aborts. */
export function unlessAborted<Value>(
  signal: AbortSignal | undefined,
  promise: Promise<Value>,
): Promise<Value | undefined> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => resolve(undefined);
    signal.addEventListener('abort', stop);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
    if (signal.aborted) stop();
  });
}
