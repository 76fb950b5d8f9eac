/** An import under way: reading, sending, progress, and an end that can be taken up again. */
import { basename } from 'node:path';
import type { CdpClient } from '../../client/client.js';
import { Ending, EXIT, type ExitCode, UsageError } from '../remote/outcome.js';
import { counted, grouped, ProgressLine } from '../remote/progress.js';
import { type Batch, cutBatches } from './batches.js';
import { Delivery } from './delivery.js';
import type { ImportOptions } from './options.js';
import { STDIN } from './input.js';
import type { Journal } from './journal.js';
import { type Encode, type Encoded, encoder } from './plan.js';
import { identityOf, type ImportPlan, type PlannedFile, refuseChanged } from './prepare.js';
import { RefusedFile } from './refused-file.js';
import { openSource, type Source, type SourceOptions } from './source.js';

export interface Run {
  client: CdpClient;
  journal: Journal<ImportPlan>;
  /** Of each file, where it is open already; others are opened in turn. */
  opened: readonly (Source | undefined)[];
  options: ImportOptions;
}

export async function runImport({ client, journal, opened, options }: Run): Promise<ExitCode> {
  const { table, concurrency, strict: isStrict = false } = options;
  const { totals } = journal;
  const before = totals.inserted;
  const reading = new Reading(journal.header.plan, opened);
  const refused = refusedFile(journal, options);
  if (journal.refusedFile !== null) {
    const kept = refused.reopen(journal.refusedBytes);
    if (kept < journal.refusedBytes) process.stderr.write(`${refused.path} lacks records that were refused before\n`);
    journal.refusedBytes = kept;
  }
  const leave = new AbortController();
  const delivery = new Delivery(journal, refused, { client, table, concurrency, isStrict, signal: leave.signal });
  const progress = new ProgressLine(() => ({ rows: totals.inserted, share: reading.share, refused: totals.refused }));
  const signals = onSignals(
    () => {
      delivery.stop();
      process.stderr.write('\nWaiting for what is under way; once more to leave at once\n');
    },
    () => leave.abort(),
  );
  let isWhole: boolean;
  try {
    isWhole = await delivery.run(reading.batches());
  } catch (cause) {
    progress.end();
    await journal.close();
    if (leave.signal.aborted) throw new Ending(EXIT.interrupted, interruptedText(journal, options));
    // What is mended is another file, with which nothing can go on.
    if (cause instanceof UsageError && totals.inserted > 0) throw new Ending(EXIT.refused, storedText(journal), cause);
    process.stderr.write(`${interruptedText(journal, options)}\n`);
    throw cause;
  } finally {
    progress.end();
    signals.off();
    refused.close();
    reading.close();
  }
  if (!isWhole) {
    await journal.close();
    throw new Ending(EXIT.interrupted, interruptedText(journal, options));
  }
  await journal.remove();
  for (const { path, identity } of journal.header.plan.files) {
    if (identity !== null && (await identityOf(path).catch(() => null)) !== identity)
      process.stderr.write(`${path} was changed meanwhile; what was written to it may be stored, in part or not\n`);
  }
  const { seconds } = progress;
  const { inserted, refused: count } = totals;
  const rate = (inserted - before) / seconds;
  const { refusedFile: written } = journal;
  process.stdout.write(
    options.json
      ? `${JSON.stringify({ table, inserted, refused: count, refused_file: written, seconds: Number(seconds.toFixed(3)), retries: delivery.retries })}\n`
      : `${counted(inserted)} stored in ${table}, ${grouped(count)} refused, ${seconds.toFixed(1)} s, ${grouped(rate)} rows/s\n`,
  );
  if (written !== null) {
    const command = commandFor([written], options);
    process.stderr.write(`The refused records are in ${written}\nCorrected there, they go in with:\n  ${command}\n`);
  }
  return count > 0 ? EXIT.someRefused : EXIT.done;
}

/** Beside the file that is imported, or in the current folder. */
function refusedFile(
  { refusedFile: begun, header }: Journal<ImportPlan>,
  { refused, table }: ImportOptions,
): RefusedFile {
  const told = begun ?? refused;
  const name = refusedName(header.plan, table);
  return told === undefined ? new RefusedFile(name, basename(name)) : new RefusedFile(told);
}

function refusedName({ files: [first, ...others] }: ImportPlan, table: string): string {
  const { path, identity } = first ?? { path: STDIN, identity: null };
  if (path === STDIN) return 'stdin.refused.ndjson';
  return `${others.length > 0 || identity === null ? table : path}.refused.ndjson`;
}

const storedText = ({ totals }: Journal<ImportPlan>): string =>
  `${grouped(totals.inserted)} rows are stored, ${grouped(totals.refused)} refused`;

/** What is stored, and the command to go on. */
function interruptedText(journal: Journal<ImportPlan>, options: ImportOptions): string {
  const stored = storedText(journal);
  const { files } = journal.header.plan;
  if (files.some(({ identity }) => identity === null)) return `${stored}. What can be read but once cannot be resumed`;
  const paths = files.map(({ path }) => path);
  const how = options.strict ? 'Go on, and leave out what is refused, with' : 'Go on with';
  return `${stored}. ${how}:\n  ${commandFor(paths, options)} --resume`;
}

function commandFor(paths: readonly string[], { table, profile }: ImportOptions): string {
  const words = ['cdp', 'import', ...paths, '--table', table, ...(profile === undefined ? [] : ['--profile', profile])];
  return words.map(quoted).join(' ');
}

/** For a POSIX shell. */
const quoted = (word: string): string => (/^[\w./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

function onSignals(first: () => void, second: () => void): { off: () => void } {
  let isFirst = true;
  const heard = () => {
    if (!isFirst) return second();
    isFirst = false;
    first();
  };
  process.on('SIGINT', heard).on('SIGTERM', heard);
  return { off: () => void process.off('SIGINT', heard).off('SIGTERM', heard) };
}

/** All files in turn as batches, and how far it has come. */
class Reading {
  readonly #plan: ImportPlan;
  readonly #opened: readonly (Source | undefined)[];
  #current: Source | undefined;
  #bytesBefore = 0;

  constructor(plan: ImportPlan, opened: readonly (Source | undefined)[]) {
    this.#plan = plan;
    this.#opened = opened;
  }

  /** Of the bytes of all files. */
  get share(): number | null {
    const sizes = this.#plan.files.map(({ identity }) => (identity === null ? NaN : Number.parseInt(identity)));
    const all = sizes.reduce((sum, size) => sum + size, 0);
    if (Number.isNaN(all)) return null;
    return all === 0 ? 1 : (this.#bytesBefore + (this.#current?.input.read() ?? 0)) / all;
  }

  async *batches(): AsyncGenerator<Batch, void> {
    let number = 0;
    for (const [i, file] of this.#plan.files.entries()) {
      const source = this.#opened[i] ?? (await reopened(file, this.#plan.reading));
      this.#current = source;
      const encode = encoder(file.format.kind, file.mappings, this.#plan.reading);
      for await (const batch of cutBatches(encoded(source, encode), file.path, number)) {
        number = batch.number + 1;
        yield batch;
      }
      this.#bytesBefore += source.input.size ?? 0;
      this.#current = undefined;
    }
  }

  close(): void {
    this.#current?.input.close();
  }
}

/** As it was read when the import was begun. @throws UsageError where it is another file by now */
async function reopened({ path, format, identity }: PlannedFile, reading: SourceOptions): Promise<Source> {
  await refuseChanged(path, identity);
  return openSource(path, {
    ...reading,
    ...(format.kind === 'delimited' ? { format: 'csv', delimiter: format.delimiter } : { format: format.kind }),
  });
}

async function* encoded(source: Source, encode: Encode): AsyncGenerator<Encoded, void> {
  for await (const record of source.records) yield encode(record);
}
