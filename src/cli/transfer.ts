/** What backup and restore share: where programs are looked for, an end by Ctrl-C that leaves nothing half done, progress. */
import type { ProgramPlaces } from '../postgres/dump/client-programs.js';
import type { Config } from '../settings.js';
import { STOP_SIGNALS } from '../stop-signals.js';
import { printable } from './remote/terminal-text.js';

export const programPlaces = ({ postgresBin }: Config): ProgramPlaces => ({
  folder: postgresBin,
  path: process.env.PATH ?? '',
});

/** Standard output belongs to the result. A line may have names and messages that a project chose. */
export const progress = (line: string): void => void process.stderr.write(`${printable(line)}\n`);

/** A signal aborts the work, which then takes away what it had begun. */
export async function abortedBySignals<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const abort = (signal: NodeJS.Signals) =>
    controller.abort(new Error(`Ended by ${signal}; nothing half done is left`));
  for (const signal of STOP_SIGNALS) process.on(signal, abort);
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, abort);
  }
}
