/**
 * `cdp export "SELECT …" -o FILE`: writes the rows of a query or a table to a file, which appears when it is complete.
 */
import { Command, Option } from 'commander';
import { NAME_PATTERN } from '../../contract/names.js';
import { PROGRAM } from '../program-name.js';
import { quoted } from '../terminal/text.js';
import { connect } from './connection.js';
import { collect, needsOption, numbersOption, remoteOptions, whole } from './options.js';
import { UsageError } from '../exit.js';
import { countedRows, ProgressLine, speedOf } from '../terminal/progress.js';
import { abortOnSignals } from '../signals.js';
import { isStdout, outputTo } from './output-file.js';
import { FORMATS as TEXT_FORMATS, RowCounter, rowsAs } from './rows.js';
import { explainingSql, warnOfEarlierRows } from './sql.js';

const FORMATS = [...TEXT_FORMATS, 'parquet'] as const;

type Format = (typeof FORMATS)[number];

interface Options {
  output: string;
  table?: string;
  param?: unknown[];
  format?: Format;
  numbers?: 'string' | 'raw';
  withTypes?: true;
  timeout: number;
  force?: boolean;
  json?: boolean;
}

export function exportCommand(): Command {
  const start = new Command('export')
    .description('Write the rows of a query or a table to a file: CSV, NDJSON or JSON (optionally gzipped), or Parquet')
    .argument('[SQL]', 'The query');
  const output = 'File to write: .csv, .ndjson, .jsonl or .json, plus .gz; .parquet; - for stdout';
  const command = needsOption(start, '-o, --output <FILE>', output)
    .option('--table <NAME>', 'Export this whole table instead of a query')
    .option('--param <VALUE>', 'Value of $1, then $2, …, as text (repeatable)', collect)
    .addOption(new Option('--format <NAME>', 'Format (default: detected from the file name)').choices([...FORMATS]))
    .addOption(numbersOption())
    .option('--with-types', 'Begin NDJSON with a line of names and types, for cdp import')
    .option('--timeout <MS>', 'Time limit of the query, at most 60000', whole, 60_000)
    .option('--force', 'Overwrite the file if it exists')
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

function formatOf({ format, output }: Options): Format {
  if (format === 'parquet' && isStdout(output) && process.stdout.isTTY)
    throw new UsageError('Parquet is not for a terminal', 'Name a file with -o');
  if (isStdout(output)) return format ?? 'csv';
  if (/\.gz$/i.test(output) && (format === 'parquet' || /\.parquet\.gz$/i.test(output)))
    throw new UsageError('Parquet files are already compressed', 'Leave out .gz');
  const ending = /\.(csv|ndjson|jsonl|json|parquet)(?:\.gz)?$/i.exec(output)?.[1]?.toLowerCase();
  const found = format ?? (ending === 'jsonl' ? 'ndjson' : FORMATS.find((known) => known === ending));
  if (found === undefined) throw new UsageError(`What format is ${output}?`, `Add --format ${FORMATS.join('|')}`);
  return found;
}

async function exportRows(command: Command, sql: string, options: Options, signal: AbortSignal): Promise<void> {
  const { output, param = [], numbers, withTypes: columns = false, timeout, json, force = false } = options;
  const format = formatOf(options);
  if (columns && format !== 'ndjson') throw new UsageError('--with-types is for NDJSON; Parquet always has types');
  const failed = new AbortController();
  const write = await outputTo(output, force, () => failed.abort());
  warnOfEarlierRows(sql);
  const client = await connect(command);
  const counter = new RowCounter(format, columns);
  const settings = { read_only: true, timeout_ms: timeout, signal: AbortSignal.any([signal, failed.signal]) };
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
