/** Concurrent callers share one result; after a failure the next caller tries again. */
export function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = null;
      throw error;
    });
    return made;
  };
}

/** Callers share one result while it is being made; a later caller gets a new one. */
export function shared<T>(make: () => Promise<T>): () => Promise<T> {
  let making: Promise<T> | null = null;
  return () => (making ??= make().finally(() => (making = null)));
}
