/** Sends the records of an import that is planned, until they are all stored or it is interrupted. */
import { basename } from 'node:path';
import type { CdpClient } from '../../client/client.js';
import { forEachConcurrently } from '../../client/concurrency.js';
import { warn } from '../terminal/output.js';
import { ProgressLine } from '../terminal/progress.js';
import { BatchReader } from './batches.js';
import { identityOf, STDIN } from './input.js';
import type { Journal } from './journal.js';
import type { ImportOptions } from './options.js';
import type { ImportPlan } from './plan.js';
import { RefusedFile } from './refused-file.js';
import { BatchSender } from './send.js';
import type { Source } from './source.js';

export interface ImportResult {
  outcome: 'complete' | 'stopped' | 'failed';
  /** Why it failed. */
  error?: unknown;
  /** Rows stored, and records refused, by all processes of this import. */
  inserted: number;
  refused: number;
  /** Rows stored by this process. */
  insertedNow: number;
  retries: number;
  refusedFile: string | null;
  canResume: boolean;
  /** Duration in seconds. */
  seconds: number;
}

/** @param opened files that are already open */
export async function sendFiles(
  client: CdpClient,
  journal: Journal,
  opened: readonly (Source | undefined)[],
  { table, concurrency, strict = false, refused: path }: ImportOptions,
): Promise<ImportResult> {
  const started = performance.now();
  const { totals, header } = journal;
  const { files } = header.plan;
  const before = totals.inserted;
  const reader = new BatchReader(header.plan, opened);
  const refusedFile = refusedFileOf(journal, table, path);
  const [stop, abort] = [new AbortController(), new AbortController()];
  const sender = new BatchSender(journal, refusedFile, { client, table, strict, signal: abort.signal });
  const onSignal = () => {
    if (stop.signal.aborted) return abort.abort();
    stop.abort();
    warn('\nWaiting for the batches in flight; press Ctrl-C again to exit at once');
  };
  // Before, one Ctrl-C ends the process; from now on, the import can be resumed.
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  const progress = new ProgressLine(() => ({ rows: totals.inserted, share: reader.share, refused: totals.refused }));
  let outcome: ImportResult['outcome'];
  let error: unknown;
  try {
    const limits = { concurrency, signal: stop.signal };
    const isComplete = await forEachConcurrently(reader.batches(), limits, (batch) => sender.send(batch));
    outcome = isComplete ? 'complete' : 'stopped';
  } catch (thrown) {
    outcome = abort.signal.aborted ? 'stopped' : 'failed';
    error = thrown;
  } finally {
    progress.end();
    refusedFile.close();
    reader.close();
  }
  if (outcome === 'complete') {
    journal.remove();
    await warnOfChanges(header.plan);
  } else {
    journal.close();
  }
  process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  return {
    outcome,
    error,
    ...totals,
    insertedNow: totals.inserted - before,
    retries: sender.retries,
    refusedFile: journal.refusedFile,
    canResume: files.every(({ identity }) => identity !== null),
    seconds: (performance.now() - started) / 1_000,
  };
}

/** By default next to the first file, or if nothing can be created there, in the current folder. */
function refusedFileOf(journal: Journal, table: string, path: string | undefined): RefusedFile {
  const chosen = journal.refusedFile ?? path;
  const name = defaultRefusedFile(journal.header.plan, table);
  const file = chosen === undefined ? new RefusedFile(name, basename(name)) : new RefusedFile(chosen);
  if (journal.refusedFile !== null) {
    const bytes = file.reopen(journal.refusedBytes);
    if (bytes < journal.refusedBytes) warn(`${file.path} lacks records that were refused before`);
    journal.refusedBytes = bytes;
  }
  return file;
}

function defaultRefusedFile({ files: [first, ...others] }: ImportPlan, table: string): string {
  const { path, identity } = first ?? { path: STDIN, identity: null };
  if (path === STDIN) return 'stdin.refused.ndjson';
  return `${others.length > 0 || identity === null ? table : path}.refused.ndjson`;
}

async function warnOfChanges({ files }: ImportPlan): Promise<void> {
  for (const { path, identity } of files) {
    if (identity !== null && (await identityOf(path).catch(() => null)) !== identity)
      warn(`${path} was changed during the import; what was written to it may be stored in part, or not at all`);
  }
}
