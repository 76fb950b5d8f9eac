/** Sends the records of an import that is planned, until they are all stored or it is interrupted. */
import { basename } from 'node:path';
import type { CdpClient } from '../client/client.js';
import { forEachConcurrently } from '../client/concurrency.js';
import { BatchReader } from './batches.js';
import { identityOf, STDIN } from './input.js';
import type { Journal } from './journal.js';
import type { ImportPlan } from './plan.js';
import { RefusedFile } from './refused-file.js';
import type { ShowProgress } from './scan.js';
import { BatchSender } from './send.js';
import type { Source } from './source.js';

export interface SendOptions {
  table: string;
  /** Batches in flight at a time. */
  concurrency: number;
  /** Fail with the first refused record. */
  strict: boolean;
  /** Default: next to the first file. */
  refusedFile: string | undefined;
}

export interface Interruption {
  /** Start no further batches, wait for those in flight. */
  readonly stop: AbortSignal;
  /** Abort those in flight as well. */
  readonly abort: AbortSignal;
}

export interface Reporter {
  readonly showProgress: ShowProgress;
  /** How each file will be read, and what may be wrong with that. */
  readonly showPlan: (plan: ImportPlan, warnings: readonly string[]) => void;
  readonly warn: (message: string) => void;
  /** Called before the first batch is sent: from now on, an import can be interrupted and resumed. */
  readonly onSending: () => Interruption;
}

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
  { table, concurrency, strict, refusedFile: path }: SendOptions,
  reporter: Reporter,
): Promise<ImportResult> {
  const started = performance.now();
  const { totals, header } = journal;
  const { files } = header.plan;
  const before = totals.inserted;
  const reader = new BatchReader(header.plan, opened);
  const refusedFile = refusedFileOf(journal, table, path, reporter);
  const { stop, abort } = reporter.onSending();
  const sender = new BatchSender(journal, refusedFile, { client, table, strict, signal: abort });
  const endProgress = reporter.showProgress('', () => {
    return { rows: totals.inserted, share: reader.share, refused: totals.refused };
  });
  let outcome: ImportResult['outcome'];
  let error: unknown;
  try {
    const limits = { concurrency, signal: stop };
    const isComplete = await forEachConcurrently(reader.batches(), limits, (batch) => sender.send(batch));
    outcome = isComplete ? 'complete' : 'stopped';
  } catch (thrown) {
    outcome = abort.aborted ? 'stopped' : 'failed';
    error = thrown;
  } finally {
    endProgress();
    refusedFile.close();
    reader.close();
  }
  if (outcome === 'complete') {
    journal.remove();
    await warnOfChanges(header.plan, reporter);
  } else {
    journal.close();
  }
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
function refusedFileOf(journal: Journal, table: string, path: string | undefined, reporter: Reporter): RefusedFile {
  const chosen = journal.refusedFile ?? path;
  const name = defaultRefusedFile(journal.header.plan, table);
  const file = chosen === undefined ? new RefusedFile(name, basename(name)) : new RefusedFile(chosen);
  if (journal.refusedFile !== null) {
    const bytes = file.reopen(journal.refusedBytes);
    if (bytes < journal.refusedBytes) reporter.warn(`${file.path} lacks records that were refused before`);
    journal.refusedBytes = bytes;
  }
  return file;
}

function defaultRefusedFile({ files: [first, ...others] }: ImportPlan, table: string): string {
  const { path, identity } = first ?? { path: STDIN, identity: null };
  if (path === STDIN) return 'stdin.refused.ndjson';
  return `${others.length > 0 || identity === null ? table : path}.refused.ndjson`;
}

async function warnOfChanges({ files }: ImportPlan, reporter: Reporter): Promise<void> {
  for (const { path, identity } of files) {
    if (identity !== null && (await identityOf(path).catch(() => null)) !== identity)
      reporter.warn(
        `${path} was changed during the import; what was written to it may be stored in part, or not at all`,
      );
  }
}
