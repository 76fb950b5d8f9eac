/** An import under way: reading, sending, progress, and an end that can be taken up again. */
import type { CdpClient } from '../../client/client.js';
import { Ending, EXIT, type ExitCode } from '../remote/outcome.js';
import { counted, grouped, ProgressLine } from '../remote/progress.js';
import { type Batch, cutBatches } from './batches.js';
import { Delivery } from './delivery.js';
import type { ImportOptions } from './options.js';
import { STDIN } from './input.js';
import type { Journal } from './journal.js';
import { type Encoded, encoder } from './plan.js';
import type { ImportPlan, PlannedFile } from './prepare.js';
import { RefusedFile } from './refused-file.js';
import { openSource, type Source, type SourceOptions } from './source.js';

export interface Run {
  client: CdpClient;
  journal: Journal<ImportPlan>;
  /** As far as they are open; others are opened in turn. */
  sources: readonly Source[];
  options: ImportOptions;
  paths: readonly string[];
}

export async function runImport({ client, journal, sources, options, paths }: Run): Promise<ExitCode> {
  const { table, concurrency, strict: isStrict = false } = options;
  const { totals } = journal;
  const before = totals.inserted;
  const reading = new Reading(journal.header.plan, sources);
  const refused = new RefusedFile(journal.refusedFile ?? options.refused ?? refusedName(paths, table));
  if (journal.refusedFile !== null && refused.reopen(journal.refusedBytes)) {
    process.stderr.write(`${refused.path} lacks records that were refused before\n`);
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
    if (leave.signal.aborted) throw new Ending(EXIT.interrupted, interruptedText(journal, paths, options));
    process.stderr.write(`${interruptedText(journal, paths, options)}\n`);
    throw cause;
  } finally {
    progress.end();
    signals.off();
    refused.close();
    reading.close();
  }
  if (!isWhole) {
    await journal.close();
    throw new Ending(EXIT.interrupted, interruptedText(journal, paths, options));
  }
  await journal.remove();
  const { seconds } = progress;
  const { inserted, refused: count } = totals;
  const rate = (inserted - before) / seconds;
  const refusedFile = journal.refusedFile;
  process.stdout.write(
    options.json
      ? `${JSON.stringify({ table, inserted, refused: count, refused_file: refusedFile, seconds: Number(seconds.toFixed(3)), retries: delivery.retries })}\n`
      : `${counted(inserted)} stored in ${table}, ${grouped(count)} refused, ${seconds.toFixed(1)} s, ${grouped(rate)} rows/s\n`,
  );
  if (count > 0) process.stderr.write(`The refused records are in ${refusedFile}\n`);
  return count > 0 ? EXIT.someRefused : EXIT.done;
}

function refusedName([first = STDIN, ...others]: readonly string[], table: string): string {
  if (others.length > 0) return `${table}.refused.ndjson`;
  return `${first === STDIN ? 'stdin' : first}.refused.ndjson`;
}

/** What is stored, and the command to go on. */
function interruptedText(
  { totals }: Journal<unknown>,
  paths: readonly string[],
  { table, profile }: ImportOptions,
): string {
  const stored = `${grouped(totals.inserted)} rows are stored, ${grouped(totals.refused)} refused`;
  if (paths.includes(STDIN)) return `${stored}. Standard input cannot be resumed`;
  const words = ['cdp', 'import', ...paths, '--table', table, ...(profile === undefined ? [] : ['--profile', profile])];
  return `${stored}. Go on with:\n  ${[...words.map(quoted), '--resume'].join(' ')}`;
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
  readonly #opened: readonly Source[];
  #current: Source | undefined;
  #bytesBefore = 0;

  constructor(plan: ImportPlan, opened: readonly Source[]) {
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
      const source = this.#opened[i] ?? (await openSource(file.path, readingOf(file, this.#plan.reading)));
      this.#current = source;
      for await (const batch of cutBatches(encoded(source, file), file.path, number)) {
        number = batch.number + 1;
        yield batch;
      }
      this.#bytesBefore += source.input.size ?? 0;
      this.#current = undefined;
    }
  }

  close(): void {
    // It may be waiting for somebody to type.
    if (this.#current?.input.size === null) process.stdin.destroy();
  }
}

/** As it was read when the import was begun. */
const readingOf = ({ format }: PlannedFile, reading: SourceOptions): SourceOptions => ({
  ...reading,
  ...(format.kind === 'delimited' ? { format: 'csv', delimiter: format.delimiter } : { format: format.kind }),
  sample: 0,
});

async function* encoded(source: Source, { mappings, format }: PlannedFile): AsyncGenerator<Encoded, void> {
  const encode = encoder(format.kind, mappings);
  for await (const record of source.records) yield encode(record);
}
