/**
 * `cdp export "SELECT …" -o FILE`: writes the rows of a query or a table to a file, which appears when it is complete.
 */
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { realpath, rename, rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { Command, Option } from 'commander';
import { NAME_PATTERN } from '../../contract/names.js';
import { isMissing } from '../../files.js';
import { explainingSql, UsageError, PROGRAM } from '../exit.js';
import { abortOnSignals } from '../signals.js';
import { printChunks } from '../terminal/output.js';
import { countedRows, ProgressLine, speedOf } from '../terminal/progress.js';
import { quoted } from '../terminal/text.js';
import { clientFromOptions, ownProject } from './profiles.js';
import { collect, milliseconds, needsOption, numbersOption, remoteOptions } from './remote-options.js';
import { EXPORT_FORMATS as TEXT_FORMATS, RowCounter, rowsAs } from './rows.js';
import { warnOfEarlierRows } from './sql.js';
import { requireFolderOf } from './user-files.js';

const FORMATS = [...TEXT_FORMATS, 'parquet'] as const;

type Format = (typeof FORMATS)[number];

/** How a file is written. */
export interface FileOptions {
  output: string;
  format?: Format;
  force?: boolean;
  json?: boolean;
}

interface RowOptions extends FileOptions {
  param?: unknown[];
  numbers?: 'string' | 'raw';
  withTypes?: true;
  timeout: number;
}

interface Options extends RowOptions {
  table?: string;
}

const OUTPUT = [
  '-o, --output <FILE>',
  'File to write: .csv, .ndjson, .jsonl or .json, plus .gz; .parquet; - for stdout',
] as const;

const formatOption = (): Option =>
  new Option('--format <NAME>', 'Format (default: detected from the file name)').choices([...FORMATS]);

const FORCE = ['--force', 'Overwrite the file if it exists'] as const;

/** For a command that may also print what it would write. */
export const fileOptions = (command: Command): Command =>
  command
    .option(...OUTPUT)
    .addOption(formatOption())
    .option(...FORCE);

export function exportCommand(): Command {
  const start = new Command('export')
    .description('Write the rows of a query or a table to a file: CSV, NDJSON or JSON (optionally gzipped), or Parquet')
    .argument('[SQL]', 'The query');
  const command = needsOption(start, ...OUTPUT)
    .option('--table <NAME>', 'Export this whole table instead of a query')
    .option('--param <VALUE>', 'Value of $1, then $2, …, as text (repeatable)', collect)
    .addOption(formatOption())
    .addOption(numbersOption())
    .option('--with-types', 'Begin NDJSON with a line of names and types, for cdp import')
    .addOption(
      new Option('--timeout <TIME>', 'Time limit of the query, at most 60s; a number alone is in ms')
        .argParser(milliseconds)
        .default(60_000, '60s'),
    )
    .option(...FORCE)
    .option('--json', 'Print the result as JSON')
    .addHelpText('after', EXAMPLES);
  return remoteOptions(command).action(async (argument: string | undefined) => {
    const options = command.opts<Options>();
    const sql = sqlOf(argument, options);
    await explainingSql(sql, () => abortOnSignals((signal) => exportRows(command, sql, options, signal)));
  });
}

const EXAMPLES = `
Examples:
  cdp export --table customers -o customers.csv.gz
  cdp export 'SELECT email FROM customers WHERE age > $1' --param 30 -o emails.ndjson`;

function sqlOf(sql: string | undefined, { table, output }: Options): string {
  if ((sql === undefined) === (table === undefined)) throw new UsageError('Give either a query or --table');
  if (sql !== undefined && new RegExp(NAME_PATTERN).test(sql))
    throw new UsageError(
      `"${sql}" is not a query`,
      `To export a table: ${PROGRAM} export --table ${sql} -o ${quoted(output)}`,
    );
  return sql ?? `SELECT * FROM "${(table ?? '').replaceAll('"', '""')}"`;
}

function formatOf({ format, output }: FileOptions): Format {
  if (format === 'parquet' && isStdout(output) && process.stdout.isTTY)
    throw new UsageError('Parquet is not for a terminal', 'Name a file with -o');
  if (isStdout(output)) return format ?? 'csv';
  if (/\.gz$/i.test(output) && (format === 'parquet' || /\.parquet\.gz$/i.test(output)))
    throw new UsageError('Parquet files are already compressed', 'Leave out .gz');
  const ending = /\.(csv|ndjson|jsonl|json|parquet)(?:\.gz)?$/i.exec(output)?.[1]?.toLowerCase();
  const fileFormat = format ?? (ending === 'jsonl' ? 'ndjson' : FORMATS.find((known) => known === ending));
  if (fileFormat === undefined) throw new UsageError(`What format is ${output}?`, `Add --format ${FORMATS.join('|')}`);
  return fileFormat;
}

export async function exportRows(
  command: Command,
  sql: string,
  options: RowOptions,
  signal: AbortSignal,
): Promise<void> {
  const { output, param = [], numbers, withTypes: columns = false, timeout, json, force = false } = options;
  const format = formatOf(options);
  if (columns && format !== 'ndjson') throw new UsageError('--with-types is for NDJSON; Parquet always has types');
  const failed = new AbortController();
  const write = await outputTo(output, force, () => failed.abort());
  warnOfEarlierRows(sql);
  const client = await clientFromOptions(command);
  const counter = new RowCounter(format, columns);
  // The reader cannot change anything, but a token may have only sql:write.
  const readOnly = (await ownProject(client)).scopes.includes('sql:read');
  const settings = { read_only: readOnly, timeout_ms: timeout, signal: AbortSignal.any([signal, failed.signal]) };
  const rows =
    format === 'parquet'
      ? (await import('../../export/parquet-file.js')).parquetRows(client, sql, param, settings, () => counter.addRow())
      : rowsAs(format, client, sql, param, {
          ...settings,
          ...(columns ? { columns } : {}),
          ...(numbers === undefined ? {} : { numbers }),
        });
  const progress = new ProgressLine(() => ({ rows: counter.rows, share: null, refused: 0 }));
  const counting = async function* (first: IteratorResult<Uint8Array | string, void>) {
    for (let next = first; !next.done; next = await rows.next()) {
      const bytes = typeof next.value === 'string' ? Buffer.from(next.value) : next.value;
      counter.add(bytes);
      yield bytes;
    }
  };
  try {
    // The first chunk comes before the file is created, so that a rejected query leaves the folder unchanged.
    await write(counting(await rows.next()));
  } finally {
    progress.end();
  }
  const { seconds } = progress;
  const { rows: count, bytes } = counter;
  const report = isStdout(output) ? process.stderr : process.stdout;
  report.write(
    json
      ? `${JSON.stringify({ file: output, rows: count, bytes, seconds: Number(seconds.toFixed(3)) })}\n`
      : `${countedRows(count)} ${isStdout(output) ? 'written to standard output' : `in ${output}`}, ${seconds.toFixed(1)} s${speedOf(count, seconds)}\n`,
  );
}

// The destination of an export: a file, which gets its name when it is complete; a device or a pipe; standard
// output.

const STDOUT: readonly string[] = ['-', '/dev/stdout'];

const DESCRIPTOR = /^\/(?:dev\/(?:fd\/|std)|proc\/)/;

const isStdout = (output: string): boolean => STDOUT.includes(output);

type Chunks = AsyncIterable<Uint8Array | string>;

type Write = (chunks: Chunks) => Promise<void>;

/**
 * @param output path, or `-`
 * @param overwrites whether it may replace a file
 * @param onFailure called at once if a file cannot be written; the function rejects only after the next chunk
 * @returns a function that writes there, once; nothing changes before its call
 * @throws UsageError if a file cannot be created there, or already exists
 */
async function outputTo(output: string, overwrites: boolean, onFailure: () => void): Promise<Write> {
  if (isStdout(output)) return printChunks;
  const isGzipped = /\.gz$/i.test(output);
  const stats = await stat(output).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
  if (stats?.isDirectory()) throw new UsageError(`${output} is a folder`);
  // A rename would replace a device or a pipe with a file. A descriptor may refer to either.
  if (stats && (!stats.isFile() || DESCRIPTOR.test(output)))
    return (chunks) => write(chunks, output, isGzipped, { flags: 'a' }, onFailure);
  if (stats && !overwrites) throw new UsageError(`The file ${output} exists`, 'Overwrite it with --force');
  await requireFolderOf(output);
  return async (chunks) => {
    // Keeps a symbolic link as it is, and the mode of an existing file.
    const target = stats ? await realpath(output) : output;
    const draft = `${target}.${randomBytes(4).toString('hex')}.part`;
    try {
      const mode = (stats?.mode ?? 0o666) & 0o777;
      await write(chunks, draft, isGzipped, { flags: 'wx', flush: true, mode }, onFailure);
      await rename(draft, target);
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
  };
}

type StreamOptions = Exclude<Parameters<typeof createWriteStream>[1], string | undefined>;

function write(
  chunks: Chunks,
  path: string,
  isGzipped: boolean,
  options: StreamOptions,
  onFailure: () => void,
): Promise<void> {
  const file = createWriteStream(path, options).once('error', onFailure);
  return isGzipped ? pipeline(chunks, createGzip(), file) : pipeline(chunks, file);
}
