/** Signals that ask a process to end: from a service manager, Ctrl-C, a terminal that is closed. */

export const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** A signal aborts the work, which then undoes what it has begun. */
export async function abortOnSignals<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const abort = (signal: NodeJS.Signals) =>
    controller.abort(new Error(`Interrupted by ${signal}; nothing incomplete is left behind`));
  for (const signal of STOP_SIGNALS) process.on(signal, abort);
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, abort);
  }
}
