/** Sends the records of a planned import until all are stored or it is interrupted. */
import { basename } from 'node:path';
import type { CdpClient } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import { defaultConcurrency, type StoreOptions } from '../../client/insert.js';
import { forEachConcurrently } from '../../client/concurrency.js';
import { warn } from '../terminal/output.js';
import { ProgressLine } from '../terminal/progress.js';
import { BatchReader } from '../../import/batch-reader.js';
import { identityOf, STDIN } from './open-input.js';
import type { JournalFile } from './journal-file.js';
import type { ImportOptions } from './import-options.js';
import type { ImportPlan } from '../../import/plan.js';
import { importFile } from './open-source.js';
import { RefusedFile } from './refused-file.js';
import { messageIn } from '../../import/refused-record.js';
import { BatchSender, type Split } from '../../import/send.js';
import type { Source } from '../../import/source.js';

export interface ImportResult {
  outcome: 'complete' | 'stopped' | 'failed';
  error?: unknown;
  /** Rows stored, and records refused, by all processes of this import. */
  inserted: number;
  updated: number;
  ignored: number;
  refused: number;
  /** Records that the service keeps. */
  quarantined: number;
  /** Rows stored by this process. */
  storedNow: number;
  /** The options for storing records, from the journal. */
  storing: StoreOptions;
  retries: number;
  refusedFile: string | null;
  canResume: boolean;
  /** Duration in seconds. */
  seconds: number;
}

/**
 * @param opened files that are already open
 * @throws CdpError if the token may not store anything: there is nothing to resume
 */
export async function sendFiles(
  client: CdpClient,
  journal: JournalFile,
  opened: readonly (Source | undefined)[],
  { table, concurrency, strict = false, refused: path }: ImportOptions,
): Promise<ImportResult> {
  const started = performance.now();
  const { totals, header } = journal;
  const { files, storing } = header.plan;
  const before = journal.stored;
  const isNew = !journal.hasBegun;
  const reader = new BatchReader(
    header.plan,
    files.map(({ path }) => importFile(path)),
    opened,
  );
  const refusedFile = refusedFileOf(journal, table, path);
  const [stop, abort] = [new AbortController(), new AbortController()];
  const onSplit = (split: Split) => keepSplit(journal, refusedFile, strict, split);
  const sender = new BatchSender(journal, { client, table, storing, signal: abort.signal, onSplit });
  const onSignal = () => {
    if (stop.signal.aborted) return abort.abort();
    stop.abort();
    warn('\nWaiting for the batches in flight; press Ctrl-C again to exit at once');
  };
  // Until now, Ctrl-C ended the process; from here on, the import can be resumed.
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  const progress = new ProgressLine(() => ({ rows: journal.stored, share: reader.share, refused: totals.refused }));
  let outcome: ImportResult['outcome'];
  let error: unknown;
  try {
    const limits = { concurrency: concurrency ?? defaultConcurrency(storing), signal: stop.signal };
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
  // After a retry, an earlier attempt may have stored the batch.
  const hasDoneNothing =
    isNew && isForbidden(error) && sender.retries === 0 && journal.stored === 0 && journal.refusedFile === null;
  if (outcome === 'complete') {
    journal.remove();
    await warnOfChanges(header.plan);
  } else if (hasDoneNothing) {
    journal.remove();
  } else {
    journal.close();
  }
  process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  if (hasDoneNothing) throw error;
  return {
    outcome,
    error,
    ...totals,
    storedNow: journal.stored - before,
    storing,
    retries: sender.retries,
    refusedFile: journal.refusedFile,
    canResume: files.every(({ identity }) => identity !== null),
    seconds: (performance.now() - started) / 1_000,
  };
}

const isForbidden = (error: unknown): boolean => error instanceof CdpError && error.status === 403;

/** Writes everything to disk before any part is sent. @param strict fail at the first refused record */
function keepSplit(
  journal: JournalFile,
  refusedFile: RefusedFile,
  strict: boolean,
  { batch, part, refused, into, cause }: Split,
): void {
  const [first] = refused;
  if (strict && first !== undefined) {
    const message = `${batch.file}, line ${first.record.line}: ${first.errors.map(messageIn).join('; ')}`;
    throw cause?.with(message, { errors: [] }) ?? new CdpError('invalid_value', message);
  }
  if (first !== undefined && refusedFile.create()) journal.addRefusedFile(refusedFile.path);
  const bytes = journal.refusedBytes + refusedFile.append(batch.file, refused);
  journal.addSplit(batch.number, part, into, refused.length, bytes);
  refusedFile.sync();
  journal.sync();
}

/** By default next to the first file, or in the current folder if nothing can be created there. */
function refusedFileOf(journal: JournalFile, table: string, path: string | undefined): RefusedFile {
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
