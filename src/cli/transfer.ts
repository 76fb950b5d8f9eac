/** What backup and restore share: where programs are looked for, an end by Ctrl-C that leaves nothing half done, progress. */
import type { BackupBody } from '../contract/wire/operator.js';
import { exists, withPrivateFolder } from '../files.js';
import type { Config } from '../settings.js';
import { STOP_SIGNALS } from '../stop-signals.js';
import { printable } from './remote/terminal-text.js';

export const programPlaces = ({ postgresBin }: Config): Pick<BackupBody, 'postgres_bin' | 'path'> => ({
  postgres_bin: postgresBin,
  path: process.env.PATH ?? '',
});

/**
 * A folder for what comes from standard input or goes to standard output, where the process that has the database gets to:
 * a service may have a /tmp of its own.
 */
export async function withTransferFolder<T>(
  { databaseUrl, dataDir }: Config,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const isEmbedded = databaseUrl === null && (await exists(dataDir));
  return withPrivateFolder(work, isEmbedded ? dataDir : undefined);
}

/** Standard output belongs to the result. */
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
