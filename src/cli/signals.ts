/** Signals that ask a process to end: from a service manager, Ctrl-C or a closed terminal. */

export const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** Runs work that is aborted by a signal, and that then undoes its changes. */
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
