/** Sends the records of a planned import until all are stored or it is interrupted. */
import { basename } from 'node:path';
import type { CdpClient } from '../../client/client.js';
import { CdpError } from '../../client/error.js';
import type { StoreOptions } from '../../client/insert.js';
import { RawJson } from '../../client/json.js';
import type { ErrorDetail } from '../../contract/errors.js';
import { warn } from '../terminal/output.js';
import { ProgressLine } from '../terminal/progress.js';
import { type NumberedRecord, RecordReader } from '../../import/record-reader.js';
import { identityOf, STDIN } from './open-input.js';
import type { JournalFile } from './journal-file.js';
import type { ImportOptions } from './import-options.js';
import type { ImportPlan } from '../../import/import-plan.js';
import { importFile } from './open-source.js';
import { RefusedFile } from './refused-file.js';
import { messageIn } from '../../import/refused-lines.js';
import { asRefused, RecordSender, type RefusedRecord } from '../../import/record-sender.js';
import type { Source } from '../../import/source.js';

interface Ended {
  outcome: 'complete' | 'stopped' | 'failed';
  error?: unknown;
}

export interface ImportResult extends Ended {
  /** Rows stored, and records refused, by all processes of this import. */
  inserted: number;
  updated: number;
  ignored: number;
  unchanged: number;
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
  { table, strict = false, refused: path }: ImportOptions,
): Promise<ImportResult> {
  const started = performance.now();
  const { plan } = journal.header;
  const { files, storing } = plan;
  const [before, isNew] = [journal.stored, !journal.hasBegun];
  const inputs = files.map(({ path }) => importFile(path));
  const reader = new RecordReader(plan, inputs, opened);
  const refusedFile = refusedFileOf(journal, table, path);
  const { stop, abort, release } = onCtrlC();
  const onRefused = (_: unknown, refused: readonly RefusedRecord[], isOfService: boolean) =>
    keepRefused(journal, refusedFile, strict, refused, isOfService);
  const sender = new RecordSender(journal, { client, table, storing, signal: abort, onRefused });
  const { totals } = journal;
  const progress = new ProgressLine(() => ({ rows: journal.stored, share: reader.share, refused: totals.refused }));

  const sending = storing.dryRun
    ? tryRecords(client, journal, reader, table, stop, onRefused)
    : sender.send(undefined, (from) => reader.groups(from), stop);
  const { outcome, error } = await sending.then<Ended, Ended>(
    (isComplete) => ({ outcome: isComplete ? 'complete' : 'stopped' }),
    (thrown: unknown) => ({ outcome: abort.aborted ? 'stopped' : 'failed', error: thrown }),
  );
  progress.end();
  refusedFile.close();
  reader.close();

  // After a retry, an earlier attempt may have stored the batch.
  const hasDoneNothing =
    isNew && isForbidden(error) && sender.retries === 0 && journal.stored === 0 && journal.refusedFile === null;
  if (outcome === 'complete' || hasDoneNothing) journal.remove();
  else journal.close();
  if (outcome === 'complete') await warnOfChanges(plan);
  release();
  if (hasDoneNothing) throw error;
  return {
    outcome,
    error,
    ...totals,
    inserted: totals.inserted + journal.storedByOpen,
    storedNow: journal.stored - before,
    storing,
    retries: sender.retries,
    refusedFile: journal.refusedFile,
    canResume: files.every(({ identity }) => identity !== null),
    seconds: (performance.now() - started) / 1_000,
  };
}

/** Until now, Ctrl-C ended the process; from here on, the first one stops an import that can be resumed. */
function onCtrlC(): { stop: AbortSignal; abort: AbortSignal; release: () => void } {
  const [stop, abort] = [new AbortController(), new AbortController()];
  const onSignal = () => {
    if (stop.signal.aborted) return abort.abort();
    stop.abort();
    warn('\nWaiting for what was sent; press Ctrl-C again to exit at once');
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  const release = () => void process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  return { stop: stop.signal, abort: abort.signal, release };
}

const isForbidden = (error: unknown): boolean => error instanceof CdpError && error.status === 403;

/** Keeps a record in the file of refused ones. @param strict fail at the first one */
function keepRefused(
  journal: JournalFile,
  refusedFile: RefusedFile,
  strict: boolean,
  refused: readonly RefusedRecord[],
  isOfService: boolean,
): void {
  const [first] = refused;
  if (first === undefined) return;
  if (strict) {
    const message = `${first.file}, line ${first.record.line}: ${first.errors.map(messageIn).join('; ')}`;
    throw new CdpError(first.errors[0]?.error ?? 'invalid_value', message);
  }
  if (refusedFile.create()) journal.addRefusedFile(refusedFile.path);
  const bytes = refused.reduce(
    (sum, { file, record, errors }) => sum + refusedFile.append(file, [{ record, errors }]),
    journal.refusedBytes,
  );
  journal.addRefused(
    refused.map(({ number }) => number),
    bytes,
  );
  if (!isOfService) return;
  // The stream must not go on without them unless the next process knows it.
  refusedFile.sync();
  journal.sync();
}

/** Sends everything in batches, which the service rolls back: a stream has no dry run. */
async function tryRecords(
  client: CdpClient,
  journal: JournalFile,
  reader: RecordReader,
  table: string,
  stop: AbortSignal,
  onRefused: (of: undefined, refused: readonly RefusedRecord[], isOfService: boolean) => void,
): Promise<boolean> {
  const { storing } = journal.header.plan;
  class Line extends RawJson {
    constructor(readonly of: NumberedRecord) {
      super(of.json);
    }
  }
  const refuse = ({ index, file, record }: NumberedRecord, errors: readonly ErrorDetail[]) =>
    onRefused(undefined, [{ number: index, file, record, errors }], false);
  const lines = async function* () {
    for await (const group of reader.groups(0)) {
      for (const each of group) {
        if (stop.aborted) return;
        const { problem } = each.record;
        if (storing.onError !== undefined) yield new Line(asRefused(each));
        else if (problem === undefined) yield new Line(each);
        else refuse(each, [problem]);
      }
    }
  };
  const { inserted, updated, ignored, unchanged, quarantined } = await client.insert(table, lines(), {
    ...storing,
    ...(storing.onError === undefined ? { onRefused: ({ record, errors }) => refuse(record.of, errors) } : {}),
  });
  const ofUpsert = { updated: updated ?? 0, ignored: ignored ?? 0, unchanged: unchanged ?? 0 };
  journal.add({ done: 0, next: 0, inserted, ...ofUpsert, quarantined: quarantined ?? 0 });
  return !stop.aborted;
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
    // A file that is gone was changed, too.
    if (identity !== null && (await identityOf(path).catch(() => null)) !== identity)
      warn(`${path} was changed during the import; what was written to it may be stored in part, or not at all`);
  }
}
